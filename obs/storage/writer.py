"""Group commit: many requests' writes to one file, one fsync.

A request queues its unit of work. Whoever finds no leader becomes the leader: it runs all units that have gathered in
one transaction, commits once, and wakes the others with their results. Where a unit fails, the batch is rolled back and
run once more with each unit in a savepoint, so that the failing one spoils no other. When `write` has returned, the
unit's rows are on disk.

The scheme is the leader/follower commit queue of LevelDB and RocksDB ("JoinBatchGroup").
"""

import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar, cast

from obs.errors import ServiceError
from obs.storage.connection import explain_failure

T = TypeVar("T")
Unit = Callable[[sqlite3.Connection], Any]
_MOST_IN_A_BATCH = 256
_MOST_BEHIND_A_LOCK = 8
_LOCK_SLICE_SECONDS = 0.25


class _Waiting:
    """A unit of work on its way through the queue. `wake` is held until the unit is done or is to lead."""

    __slots__ = ("error", "leads", "result", "unit", "wake")

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.result: Any = None
        self.error: BaseException | None = None
        self.leads = False
        self.wake = threading.Lock()
        self.wake.acquire()


class GroupCommit:
    """The only writer of one SQLite file in this process."""

    def __init__(self, connection: sqlite3.Connection, most_waiting: int, busy_seconds: float) -> None:
        """`connection` comes from `open_writer` and belongs to this object from now on.

        A file that another program has locked is waited for `busy_seconds`. Few wait that long: those that are more
        are refused, so that their threads are free for other files.
        """
        self._connection = connection
        self._busy_seconds = busy_seconds
        self._usually_waiting = self._most_waiting = most_waiting
        slice_ms = round(min(busy_seconds, _LOCK_SLICE_SECONDS) * 1000)
        connection.execute(f"PRAGMA busy_timeout = {slice_ms}")
        self._mutex = threading.Lock()
        self._queue: deque[_Waiting] = deque()
        self._led = False

    def write(self, unit: Callable[[sqlite3.Connection], T]) -> T:
        """Run `unit` in a transaction and return its result once that is durable.

        `unit` may be called twice; what the first call did to the file is then undone.

        Raises what `unit` raises (then nothing of it is written), and ServiceError (503) when too many are waiting,
        or when the file is locked, full or unusable.
        """
        waiting = _Waiting(unit)
        with self._mutex:
            if len(self._queue) >= self._most_waiting:
                raise ServiceError(
                    "storage_busy", f"{len(self._queue)} writes are waiting already.", headers={"Retry-After": "1"}
                )
            self._queue.append(waiting)
            leads = not self._led
            self._led = True
        if not leads:
            waiting.wake.acquire()
        if leads or waiting.leads:
            self._lead(waiting)
        if waiting.error is not None:
            raise waiting.error
        return cast("T", waiting.result)

    def close(self) -> None:
        """Close the file. The caller sees to it that nobody is writing."""
        self._connection.close()

    def _lead(self, leader: _Waiting) -> None:
        batch: list[_Waiting] = []
        try:
            self._commit(batch)
        finally:
            with self._mutex:
                successor = self._queue[0] if self._queue else None
                self._led = successor is not None
            if successor is not None:
                successor.leads = True
                successor.wake.release()
            for waiting in batch:
                if waiting is not leader:
                    waiting.wake.release()

    def _commit(self, batch: list[_Waiting]) -> None:
        """Fill `batch` from the queue once the file can be written, and commit it."""
        connection = self._connection
        try:
            try:
                self._begin()
            finally:
                with self._mutex:
                    batch += [self._queue.popleft() for _ in range(min(len(self._queue), _MOST_IN_A_BATCH))]
            if not self._run_together(batch):
                connection.execute("ROLLBACK")
                self._begin()
                for waiting in batch:
                    self._run_apart(waiting)
            connection.execute("COMMIT")
        except BaseException as error:
            # Nothing of this batch is on disk: the disk is full, the file is locked, or COMMIT failed.
            for waiting in batch:
                waiting.error = _told(error)
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if not isinstance(error, Exception):
                raise

    def _begin(self) -> None:
        """Begin a transaction, which may wait for another program; refuse those who are too many to wait meanwhile."""
        end = None
        while True:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                now = time.monotonic()
                end = end or now + self._busy_seconds - _LOCK_SLICE_SECONDS
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or now >= end:
                    self._most_waiting = self._usually_waiting
                    raise
                self._refuse_most()
            else:
                self._most_waiting = self._usually_waiting
                return

    def _refuse_most(self) -> None:
        with self._mutex:
            self._most_waiting = min(_MOST_BEHIND_A_LOCK, self._usually_waiting)
            refused = [self._queue.pop() for _ in range(len(self._queue) - self._most_waiting)]
        for waiting in refused:
            waiting.error = ServiceError(
                "storage_busy", "Another program has locked the organization's file.", headers={"Retry-After": "1"}
            )
            waiting.wake.release()

    def _run_together(self, batch: list[_Waiting]) -> bool:
        """Run all units without savepoints, which most batches do not need; False when one failed."""
        try:
            for waiting in batch:
                waiting.result = waiting.unit(self._connection)
        except Exception:
            # SQLite rolls the whole transaction back by itself on some errors, such as a full disk.
            if not self._connection.in_transaction:
                raise
            return False
        return True

    def _run_apart(self, waiting: _Waiting) -> None:
        """Run a unit in a savepoint, so that its failure spoils no other unit of the batch."""
        connection = self._connection
        connection.execute("SAVEPOINT unit")
        try:
            waiting.result = waiting.unit(connection)
        except Exception as error:
            if not connection.in_transaction:
                raise
            connection.execute("ROLLBACK TO unit")
            waiting.error = _told(error)
        connection.execute("RELEASE unit")


def _told(error: BaseException) -> BaseException:
    """What the waiting request is told: a 503 for a trouble of the file, else the error itself."""
    explanation = explain_failure(error) if isinstance(error, sqlite3.Error) else None
    if explanation is None:
        return error
    explanation.__cause__ = error
    return explanation
