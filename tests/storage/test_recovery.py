"""After trouble the storage works as before: limits that were lowered are raised again, small batches grow."""

import itertools
import sqlite3
import threading
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import closing

import pytest

from obs.errors import ServiceError
from obs.storage.databases import Databases, in_batches
from tests.conftest import ACME
from tests.storage.conftest import MakeDatabases

WRITERS = 40
PATIENCE_SECONDS = 60


def _insert(db: sqlite3.Connection) -> None:
    db.execute("INSERT INTO texts VALUES ('x')")


def test_after_a_lock_as_many_may_wait_as_before(make_databases: MakeDatabases) -> None:
    """While another program has locked the file, few may wait."""
    databases = make_databases(busy_seconds=PATIENCE_SECONDS)
    databases.create(ACME)
    databases.write(ACME, _insert)
    with ThreadPoolExecutor(WRITERS + 1) as pool, closing(sqlite3.connect(databases.path(ACME))) as other:
        other.isolation_level = None
        other.execute("BEGIN IMMEDIATE")
        writes = [pool.submit(databases.write, ACME, _insert) for _ in range(WRITERS)]
        refused = wait(writes, PATIENCE_SECONDS, FIRST_COMPLETED).done
        other.execute("ROLLBACK")
        assert refused
        errors = [write.exception(PATIENCE_SECONDS) for write in writes]
        assert all(error is None or isinstance(error, ServiceError) for error in errors)
        assert None in errors

        assert _waiting_together(databases, pool) == [None] * WRITERS


def _waiting_together(databases: Databases, pool: ThreadPoolExecutor) -> list[BaseException | None]:
    """What becomes of WRITERS writes that all wait behind one that takes long."""
    begun, go_on = threading.Event(), threading.Event()

    def long(db: sqlite3.Connection) -> None:
        begun.set()
        assert go_on.wait(PATIENCE_SECONDS)

    first = pool.submit(databases.write, ACME, long)
    assert begun.wait(PATIENCE_SECONDS)
    writes = [pool.submit(databases.write, ACME, _insert) for _ in range(WRITERS)]
    wait(writes, 0.5, FIRST_COMPLETED)  # one that is refused is refused at once
    go_on.set()
    first.result(PATIENCE_SECONDS)
    return [write.exception(PATIENCE_SECONDS) for write in writes]


def test_batches_that_take_little_time_grow(databases: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[int] = []

    def step(db: sqlite3.Connection, limit: int) -> int:
        limits.append(limit)
        return limit if len(limits) < 12 else 0

    monkeypatch.setattr("time.perf_counter", itertools.count(step=0.001).__next__)  # each batch takes a millisecond
    in_batches(databases, ACME, step)
    assert limits == [10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 5_000, 5_000, 5_000]


def test_batches_that_take_long_shrink(databases: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[int] = []

    def step(db: sqlite3.Connection, limit: int) -> int:
        limits.append(limit)
        return limit if len(limits) < 5 else 0

    monkeypatch.setattr("time.perf_counter", itertools.count().__next__)  # each batch takes a second
    in_batches(databases, ACME, step)
    assert limits == [10, 1, 1, 1, 1]
