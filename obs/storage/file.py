"""One SQLite file: a writer and a few readers, opened on first use."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from sqlite_utils import Migrations

from obs.storage.connection import busy, explained, open_reader, open_writer
from obs.storage.migrate import migrate
from obs.storage.writer import GroupCommit

T = TypeVar("T")
IDLE_READERS = 2
"""Readers that stay open while nobody uses them."""

DESCRIPTORS_PER_FILE = 2 * (1 + IDLE_READERS) + 1
"""Each connection has the file and its write-ahead log open; all share one descriptor of the shared memory file."""

_OPENING_SECONDS = 0.25


class DatabaseFile:
    """An existing file, migrated to the current schema when it is opened. Thread-safe.

    `checkpoints` is for the process that owns the file: see `open_writer`.
    """

    def __init__(
        self, path: Path, migrations: Migrations, *, busy_seconds: float, most_waiting: int, checkpoints: bool = True
    ) -> None:
        self.path = path
        self._migrations = migrations
        self._busy_seconds = busy_seconds
        self._most_waiting = most_waiting
        self._checkpoints = checkpoints
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self._writer: GroupCommit | None = None
        self._readers: list[sqlite3.Connection] = []

    def write(self, unit: Callable[[sqlite3.Connection], T]) -> T:
        """Run `unit` in a transaction, durable when this returns. See `GroupCommit.write`."""
        return (self._writer or self._open()).write(unit)

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A read-only connection. Raises ServiceError (503)."""
        if self._writer is None:
            self._open()  # migrates the file, and keeps the write-ahead log while readers open and close
        with self._lock:
            reader = self._readers.pop() if self._readers else None
        with explained():
            if reader is None:
                reader = open_reader(self.path, self._busy_seconds)
            try:
                yield reader
            except BaseException:
                reader.close()
                raise
        with self._lock:
            if len(self._readers) < IDLE_READERS:
                self._readers.append(reader)
                return
        reader.close()

    def close(self) -> None:
        """Close all connections. The caller ensures that nobody uses them."""
        while self._readers:
            self._readers.pop().close()
        if self._writer is not None:  # the last, because only a writer can checkpoint when it closes
            self._writer.close()
            self._writer = None

    def _open(self) -> GroupCommit:
        # Opening may wait for the lock of another program. One thread waits; the others give up after a short time.
        if not self._opening.acquire(timeout=_OPENING_SECONDS):
            raise busy("The organization's file is being opened.")
        try:
            if self._writer is None:
                migrate(self.path, self._migrations, self._busy_seconds, creates=False)
                with explained():
                    connection = open_writer(self.path, self._busy_seconds, checkpoints=self._checkpoints)
                    self._writer = GroupCommit(connection, self.path, self._most_waiting, self._busy_seconds)
            return self._writer
        finally:
            self._opening.release()
