"""The write path: what is answered is on disk, a unit that fails spoils no other, and troubles are told as 503."""

import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from obs.errors import ServiceError
from obs.storage.databases import Databases
from tests.storage.conftest import MakeDatabases


def _insert(number: int) -> Callable[[sqlite3.Connection], int]:
    def unit(db: sqlite3.Connection) -> int:
        db.execute("INSERT INTO numbers VALUES (?)", (number,))
        return number

    return unit


def _stored(path: Path) -> list[int]:
    """What another connection, and so another process, sees."""
    connection = sqlite3.connect(path)
    try:
        return [row[0] for row in connection.execute("SELECT number FROM numbers ORDER BY number")]
    finally:
        connection.close()


class Gate:
    """A unit of work that holds the writer until it is opened, so that others gather behind it."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def __call__(self, db: sqlite3.Connection) -> None:
        self.reached.set()
        assert self.opened.wait(30)


def _gathered(databases: Databases, pool: ThreadPoolExecutor, units: list[Callable[..., int]]) -> list[Future[int]]:
    """The units, all of them in one batch behind a gate that is open by now."""
    gate = Gate()
    first = pool.submit(databases.write, "acme", gate)
    assert gate.reached.wait(30)
    futures = [pool.submit(databases.write, "acme", unit) for unit in units]
    writer = databases._files["acme"]._writer
    assert writer is not None
    while len(writer._queue) < len(units):
        assert not first.done()
    gate.opened.set()
    first.result(30)
    return futures


def test_every_thread_gets_its_own_result(databases: Databases) -> None:
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(lambda n: databases.write("acme", _insert(n)), range(200))) == list(range(200))
    assert _stored(databases.path("acme")) == list(range(200))


def test_a_write_is_on_disk_when_it_returns(databases: Databases) -> None:
    databases.write("acme", _insert(1))
    assert _stored(databases.path("acme")) == [1]


def test_what_gathers_is_committed_at_once(databases: Databases) -> None:
    """One flush for all: that is what makes durable writes quick."""
    commits: list[str] = []
    databases.write("acme", lambda db: db.set_trace_callback(commits.append))
    with ThreadPoolExecutor(12) as pool:
        for future in _gathered(databases, pool, [_insert(number) for number in range(10)]):
            future.result(30)
    databases.write("acme", lambda db: db.set_trace_callback(None))
    assert commits.count("COMMIT") == 2 + 1  # of the unit that set the callback, of the gate, of the ten


def test_a_unit_that_fails_spoils_no_other(databases: Databases) -> None:
    def fails(db: sqlite3.Connection) -> int:
        db.execute("INSERT INTO numbers VALUES (1000)")
        raise KeyError("mine")

    units = [_insert(1), fails, _insert(2), _insert(1), _insert(3)]
    with ThreadPoolExecutor(8) as pool:
        futures = _gathered(databases, pool, units)
        assert [futures[place].result(30) for place in (0, 2, 4)] == [1, 2, 3]
        with pytest.raises(KeyError, match="mine"):
            futures[1].result(30)
        with pytest.raises(sqlite3.IntegrityError):
            futures[3].result(30)
    assert _stored(databases.path("acme")) == [1, 2, 3]


def test_more_than_may_wait_is_refused(make_databases: MakeDatabases) -> None:
    databases = make_databases(most_waiting=3)
    databases.create("acme")
    gate = Gate()
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(databases.write, "acme", gate)
        assert gate.reached.wait(30)
        waiting = [pool.submit(databases.write, "acme", _insert(number)) for number in range(3)]
        writer = databases._files["acme"]._writer
        assert writer is not None
        while len(writer._queue) < 3:
            assert not first.done()
        with pytest.raises(ServiceError) as refused:
            databases.write("acme", _insert(9))
        assert (refused.value.status, refused.value.error) == (503, "storage_busy")
        assert refused.value.headers["Retry-After"]
        gate.opened.set()
        assert [future.result(30) for future in waiting] == [0, 1, 2]
    assert _stored(databases.path("acme")) == [0, 1, 2]


def test_a_full_disk_is_told_and_leaves_nothing_half_written(databases: Databases) -> None:
    databases.write("acme", _insert(1))
    databases.write("acme", lambda db: db.execute("PRAGMA max_page_count = 1").fetchall())

    def fills(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO numbers VALUES (2)")
        db.executemany("INSERT INTO texts VALUES (?)", [("x" * 4_000,)] * 100)

    with pytest.raises(ServiceError) as refused:
        databases.write("acme", fills)
    assert (refused.value.status, refused.value.error) == (503, "storage_full")
    assert refused.value.headers["Retry-After"]
    assert _stored(databases.path("acme")) == [1]
    databases.write("acme", lambda db: db.execute("PRAGMA max_page_count = 1000000").fetchall())
    databases.write("acme", fills)
    assert _stored(databases.path("acme")) == [1, 2]


def test_a_full_disk_in_a_batch_is_told_to_all_whose_rows_are_gone(databases: Databases) -> None:
    databases.write("acme", lambda db: db.execute("PRAGMA max_page_count = 1").fetchall())

    def fills(db: sqlite3.Connection) -> int:
        return db.executemany("INSERT INTO texts VALUES (?)", [("x" * 4_000,)] * 100).rowcount

    with ThreadPoolExecutor(8) as pool:
        futures = _gathered(databases, pool, [_insert(1), fills, _insert(2)])
        told = {number for number, place in ((1, 0), (2, 2)) if futures[place].exception(30) is None}
        assert isinstance(futures[1].exception(30), ServiceError)
    assert set(_stored(databases.path("acme"))) == told


def test_a_locked_file_is_told_and_works_again_later(make_databases: MakeDatabases) -> None:
    databases = make_databases(busy_seconds=0)
    databases.create("acme")
    databases.write("acme", _insert(1))
    holder = sqlite3.connect(databases.path("acme"), isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(ServiceError) as refused:
        databases.write("acme", _insert(2))
    assert (refused.value.status, refused.value.error) == (503, "storage_busy")
    assert refused.value.headers["Retry-After"]
    holder.execute("ROLLBACK")
    holder.close()
    databases.write("acme", _insert(3))
    assert _stored(databases.path("acme")) == [1, 3]


def test_two_writers_of_one_file_wait_for_each_other(make_databases: MakeDatabases) -> None:
    """As two processes do: each has connections of its own."""
    both = [make_databases(busy_seconds=30) for _ in range(2)]
    both[0].create("acme")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: both[number % 2].write("acme", _insert(number)), range(100)))
    assert _stored(both[0].path("acme")) == list(range(100))


def test_a_reader_cannot_write(databases: Databases) -> None:
    with pytest.raises(ServiceError), databases.read("acme") as db:
        db.execute("INSERT INTO numbers VALUES (1)")
    with databases.read("acme") as db:
        assert db.execute("SELECT count(*) FROM numbers").fetchone()[0] == 0


def test_foreign_keys_and_durability_are_on(databases: Databases) -> None:
    def pragmas(db: sqlite3.Connection) -> list[object]:
        return [db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous", "foreign_keys")]

    assert databases.write("acme", pragmas) == ["wal", 2, 1]
