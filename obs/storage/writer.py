"""Group commit: the writes of many requests to one file share one transaction and one fsync.

A request that finds no leader becomes the leader: it runs all queued units of work in one transaction, commits once,
and wakes the other requests. When a unit fails, the batch is rolled back and run again with each unit in its own
savepoint. LevelDB and RocksDB use the same leader/follower queue ("JoinBatchGroup").
"""

import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from obs.errors import ServiceError, T
from obs.storage.connection import MissingFileError, explained

Unit = Callable[[sqlite3.Connection], Any]
_MOST_IN_A_BATCH = 256
_MOST_WAITING_FOR_LOCK = 8
_LOCK_SLICE_SECONDS = 0.25
_turn = threading.Lock()
"""One batch at a time, of all files, begins and runs its units: threads that run statements at once mostly wait for the
interpreter's lock, which each statement releases. Commits, which wait for the disk, overlap."""
_TURN_SECONDS = 0.1  # after this, there is another turn: the batch that has this one may wait for a locked file


def _take_turn() -> "threading.Lock | None":
    """The turn, which the caller releases. None if it is not free in time; then later batches take a new one."""
    global _turn
    turn = _turn
    if turn.acquire(timeout=_TURN_SECONDS):
        return turn
    if turn is _turn:
        _turn = threading.Lock()
    return None


class _Waiting:
    """A unit of work in the queue. `wake` is locked until the unit is done, or its request becomes the leader."""

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

    def __init__(self, connection: sqlite3.Connection, path: Path, most_waiting: int, busy_seconds: float) -> None:
        """Takes over `connection`, which `open_writer` returned for `path`. At most `most_waiting` units may wait.

        While another program has locked the file, for up to `busy_seconds`, few may wait: others need threads too.
        """
        self._connection, self._path, self._busy_seconds = connection, path, busy_seconds
        self._inode = os.stat(path).st_ino if path.exists() else 0
        self._usually_waiting = self._most_waiting = most_waiting
        slice_ms = round(min(busy_seconds, _LOCK_SLICE_SECONDS) * 1000)
        connection.execute(f"PRAGMA busy_timeout = {slice_ms}")
        self._mutex, self._led = threading.Lock(), False
        self._queue: deque[_Waiting] = deque()

    def write(self, unit: Callable[[sqlite3.Connection], T]) -> T:
        """Run `unit` in a transaction, and return its result once its changes are durable.

        `unit` may run again after its changes were rolled back. Raises what it raises, and ServiceError (503) when too
        many units are waiting, or the file is locked, full or unusable.
        """
        waiting = _Waiting(unit)
        with self._mutex:
            if len(self._queue) >= self._most_waiting:
                raise ServiceError("storage_busy", f"{len(self._queue)} writes are already waiting.")
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
        connection = self._connection
        try:
            with explained():
                turn = _take_turn()
                try:
                    try:
                        self._begin()
                        self._require_file()
                    finally:
                        with self._mutex:
                            batch += [self._queue.popleft() for _ in range(min(len(self._queue), _MOST_IN_A_BATCH))]
                    is_done = self._run_together(batch)
                finally:
                    if turn is not None:
                        turn.release()
                if not is_done:
                    connection.execute("ROLLBACK")
                    self._begin()
                    for waiting in batch:
                        self._run_separately(waiting)
                connection.execute("COMMIT")
        except BaseException as error:  # nothing of the batch is on disk: the disk is full, or the file is locked...
            for waiting in batch:
                waiting.error = error
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if not isinstance(error, Exception):
                raise

    def _begin(self) -> None:
        """Begin a transaction. While another program has locked the file, only a few requests may wait."""
        end = time.monotonic() + self._busy_seconds
        try:
            while True:
                try:
                    self._connection.execute("BEGIN IMMEDIATE")
                    return
                except sqlite3.OperationalError as error:
                    if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= end:
                        raise
                self._reject_most()
        finally:
            self._most_waiting = self._usually_waiting

    def _require_file(self) -> None:
        """Refuse to write to a file that was deleted before this transaction. See `Databases.delete`."""
        with suppress(OSError):
            if (found := os.stat(self._path)).st_ino == self._inode and found.st_size:
                return
        raise MissingFileError(self._path)

    def _reject_most(self) -> None:
        with self._mutex:
            self._most_waiting = min(_MOST_WAITING_FOR_LOCK, self._usually_waiting)
            rejected = [self._queue.pop() for _ in range(len(self._queue) - self._most_waiting)]
        for waiting in rejected:
            waiting.error = ServiceError("storage_busy", "Another program has locked the organization's file.")
            waiting.wake.release()

    def _run_together(self, batch: list[_Waiting]) -> bool:
        """Run all units without savepoints, as most batches do not need them; False when a unit failed."""
        try:
            for waiting in batch:
                waiting.result = waiting.unit(self._connection)
        except Exception:
            if not self._connection.in_transaction:  # after some errors, as on a full disk, SQLite itself ends it
                raise
            return False
        return True

    def _run_separately(self, waiting: _Waiting) -> None:
        connection = self._connection
        connection.execute("SAVEPOINT unit")
        try:
            with explained():
                waiting.result = waiting.unit(connection)
        except Exception as error:
            if not connection.in_transaction:
                raise
            connection.execute("ROLLBACK TO unit")
            waiting.error = error
        connection.execute("RELEASE unit")
