"""The group commit: results are durable, a failing unit affects no other, and problems with the file are a 503."""

import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from obs.errors import ServiceError
from obs.storage.databases import Databases, Org
from tests.conftest import ACME
from tests.storage.conftest import MakeDatabases


def _insert(number: int) -> Callable[[sqlite3.Connection], int]:
    def unit(db: sqlite3.Connection) -> int:
        db.execute("INSERT INTO numbers VALUES (?)", (number,))
        return number

    return unit


def _stored(path: Path) -> list[int]:
    """The numbers that another connection, and so another process, reads."""
    connection = sqlite3.connect(path)
    try:
        return [row[0] for row in connection.execute("SELECT number FROM numbers ORDER BY number")]
    finally:
        connection.close()


class Gate:
    """A unit of work that blocks the writer until it is opened, so that other units queue up."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def __call__(self, db: sqlite3.Connection) -> None:
        self.reached.set()
        assert self.opened.wait(30)


def _in_one_batch(databases: Databases, pool: ThreadPoolExecutor, units: list[Callable[..., int]]) -> list[Future[int]]:
    """Submit `units` so that all of them are in one batch."""
    gate = Gate()
    first = pool.submit(databases.write, ACME, gate)
    assert gate.reached.wait(30)
    futures = [pool.submit(databases.write, ACME, unit) for unit in units]
    writer = databases._files[ACME]._writer
    assert writer is not None
    while len(writer._queue) < len(units):
        assert not first.done()
    gate.opened.set()
    first.result(30)
    return futures


def test_every_thread_gets_its_own_result(databases: Databases) -> None:
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(lambda n: databases.write(ACME, _insert(n)), range(200))) == list(range(200))
    assert _stored(databases.path(ACME)) == list(range(200))


def test_a_write_is_on_disk_when_it_returns(databases: Databases) -> None:
    databases.write(ACME, _insert(1))
    assert _stored(databases.path(ACME)) == [1]


def test_queued_units_share_one_commit(databases: Databases) -> None:
    commits: list[str] = []
    databases.write(ACME, lambda db: db.set_trace_callback(commits.append))
    with ThreadPoolExecutor(12) as pool:
        for future in _in_one_batch(databases, pool, [_insert(number) for number in range(10)]):
            future.result(30)
    databases.write(ACME, lambda db: db.set_trace_callback(None))
    assert commits.count("COMMIT") == 2 + 1  # of the unit that set the callback, of the gate, and of the ten units


def test_a_failing_unit_affects_no_other(databases: Databases) -> None:
    def fails(db: sqlite3.Connection) -> int:
        db.execute("INSERT INTO numbers VALUES (1000)")
        raise KeyError("mine")

    units = [_insert(1), fails, _insert(2), _insert(1), _insert(3)]
    with ThreadPoolExecutor(8) as pool:
        futures = _in_one_batch(databases, pool, units)
        assert [futures[place].result(30) for place in (0, 2, 4)] == [1, 2, 3]
        with pytest.raises(KeyError, match="mine"):
            futures[1].result(30)
        with pytest.raises(sqlite3.IntegrityError):
            futures[3].result(30)
    assert _stored(databases.path(ACME)) == [1, 2, 3]


def test_a_unit_that_takes_long_does_not_delay_other_organizations(databases: Databases) -> None:
    gate, other = Gate(), Org("globex", 2)
    databases.create(other)
    with ThreadPoolExecutor(2) as pool:
        long = pool.submit(databases.write, ACME, gate)
        assert gate.reached.wait(30)
        assert databases.write(other, _insert(1)) == 1
        started = time.monotonic()
        for _ in range(400):
            databases.write(other, lambda _: None)
        assert time.monotonic() - started < 3, "each waits for its turn"
        assert not long.done()
        gate.opened.set()
        long.result(30)


def test_a_full_queue_rejects_writes(make_databases: MakeDatabases) -> None:
    databases = make_databases(most_waiting=3)
    databases.create(ACME)
    gate = Gate()
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(databases.write, ACME, gate)
        assert gate.reached.wait(30)
        waiting = [pool.submit(databases.write, ACME, _insert(number)) for number in range(3)]
        writer = databases._files[ACME]._writer
        assert writer is not None
        while len(writer._queue) < 3:
            assert not first.done()
        with pytest.raises(ServiceError) as rejected:
            databases.write(ACME, _insert(9))
        assert (rejected.value.status, rejected.value.error) == (503, "storage_busy")
        assert rejected.value.headers["Retry-After"]
        gate.opened.set()
        assert [future.result(30) for future in waiting] == [0, 1, 2]
    assert _stored(databases.path(ACME)) == [0, 1, 2]


def test_a_full_disk_is_reported_and_leaves_no_partial_write(databases: Databases) -> None:
    databases.write(ACME, _insert(1))
    databases.write(ACME, lambda db: db.execute("PRAGMA max_page_count = 1").fetchall())

    def fills(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO numbers VALUES (2)")
        db.executemany("INSERT INTO texts VALUES (?)", [("x" * 4_000,)] * 100)

    with pytest.raises(ServiceError) as rejected:
        databases.write(ACME, fills)
    assert (rejected.value.status, rejected.value.error) == (503, "storage_full")
    assert rejected.value.headers["Retry-After"]
    assert _stored(databases.path(ACME)) == [1]
    databases.write(ACME, lambda db: db.execute("PRAGMA max_page_count = 1000000").fetchall())
    databases.write(ACME, fills)
    assert _stored(databases.path(ACME)) == [1, 2]


def test_a_full_disk_is_reported_to_every_unit_that_was_undone(databases: Databases) -> None:
    databases.write(ACME, lambda db: db.execute("PRAGMA max_page_count = 1").fetchall())

    def fills(db: sqlite3.Connection) -> int:
        return db.executemany("INSERT INTO texts VALUES (?)", [("x" * 4_000,)] * 100).rowcount

    with ThreadPoolExecutor(8) as pool:
        futures = _in_one_batch(databases, pool, [_insert(1), fills, _insert(2)])
        stored = {number for number, place in ((1, 0), (2, 2)) if futures[place].exception(30) is None}
        assert isinstance(futures[1].exception(30), ServiceError)
    assert set(_stored(databases.path(ACME))) == stored


def test_a_locked_file_is_reported_and_works_again_later(make_databases: MakeDatabases) -> None:
    databases = make_databases(busy_seconds=0)
    databases.create(ACME)
    databases.write(ACME, _insert(1))
    other = sqlite3.connect(databases.path(ACME), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(ServiceError) as rejected:
        databases.write(ACME, _insert(2))
    assert (rejected.value.status, rejected.value.error) == (503, "storage_busy")
    assert rejected.value.headers["Retry-After"]
    other.execute("ROLLBACK")
    other.close()
    databases.write(ACME, _insert(3))
    assert _stored(databases.path(ACME)) == [1, 3]


def test_two_writers_of_one_file_wait_for_each_other(make_databases: MakeDatabases) -> None:
    """Each has its own connections, as two processes would."""
    both = [make_databases(busy_seconds=30) for _ in range(2)]
    both[0].create(ACME)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: both[number % 2].write(ACME, _insert(number)), range(100)))
    assert _stored(both[0].path(ACME)) == list(range(100))


def test_a_reader_cannot_write(databases: Databases) -> None:
    with pytest.raises(ServiceError), databases.read(ACME) as db:
        db.execute("INSERT INTO numbers VALUES (1)")
    with databases.read(ACME) as db:
        assert db.execute("SELECT count(*) FROM numbers").fetchone()[0] == 0


def test_foreign_keys_and_durability_are_enabled(databases: Databases) -> None:
    def pragmas(db: sqlite3.Connection) -> list[object]:
        return [db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous", "foreign_keys")]

    assert databases.write(ACME, pragmas) == ["wal", 2, 1]


def test_slow_files_do_not_hold_up_the_others(databases: Databases) -> None:
    """More batches than may run at the same time are stuck, as behind locks of other programs."""
    gates = [Gate() for _ in range(4)]
    with ThreadPoolExecutor(len(gates)) as pool:
        stuck = []
        for number, gate in enumerate(gates, start=2):
            org = Org("other", number)
            databases.create(org)
            stuck.append(pool.submit(databases.write, org, gate))
            assert gate.reached.wait(30)
        assert databases.write(ACME, _insert(1)) == 1
        for gate in gates:
            gate.opened.set()
        for future in stuck:
            future.result(30)
    assert _stored(databases.path(ACME)) == [1]


def test_many_files_are_written_at_the_same_time(databases: Databases) -> None:
    orgs = [Org("many", number) for number in range(2, 10)]
    for org in orgs:
        databases.create(org)
    with ThreadPoolExecutor(32) as pool:
        list(pool.map(lambda number: databases.write(orgs[number % 8], _insert(number)), range(800)))
    assert [_stored(databases.path(org)) for org in orgs] == [list(range(start, 800, 8)) for start in range(8)]
