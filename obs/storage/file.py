"""One SQLite file in use: a writer and a few readers, opened when first needed."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from sqlite_utils import Migrations

from obs.errors import ServiceError
from obs.storage.connection import explained, open_reader, open_writer, unavailable
from obs.storage.migrate import migrate
from obs.storage.writer import GroupCommit

T = TypeVar("T")
IDLE_READERS = 2
DESCRIPTORS_A_FILE = 2 * (1 + IDLE_READERS) + 1
"""A connection holds the file and its write-ahead log; the shared memory file is held once."""
_MOST_SECONDS_FOR_OTHERS_TO_OPEN = 0.25


def missing() -> ServiceError:
    """The 503 for a file that should be there."""
    return unavailable("The organization's file is missing.")


class DatabaseFile:
    """A file that exists, with its schema brought up to date when it is opened. Safe to use from any thread."""

    def __init__(self, path: Path, migrations: Migrations, *, busy_seconds: float, most_waiting: int) -> None:
        self.path = path
        self._migrations = migrations
        self._busy_seconds = busy_seconds
        self._most_waiting = most_waiting
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self._writer: GroupCommit | None = None
        self._readers: list[sqlite3.Connection] = []

    def write(self, unit: Callable[[sqlite3.Connection], T]) -> T:
        """Run `unit` in a transaction; when this returns, what it wrote is on disk. See GroupCommit.write."""
        return (self._writer or self._open()).write(unit)

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A read-only connection. Raises ServiceError (503)."""
        if self._writer is None:
            self._open()  # migrates, and keeps the write-ahead log in place while readers come and go
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
        """Close all connections. The caller sees to it that nobody uses them."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        while self._readers:
            self._readers.pop().close()

    def _open(self) -> GroupCommit:
        # Opening may wait for another program's lock: one thread does that, and not all of them one after the other.
        if not self._opening.acquire(timeout=_MOST_SECONDS_FOR_OTHERS_TO_OPEN):
            raise ServiceError("storage_busy", "The organization's file is being opened.", headers={"Retry-After": "1"})
        try:
            if self._writer is None:
                if not self.path.exists():
                    raise missing()
                migrate(self.path, self._migrations, self._busy_seconds)
                with explained():
                    connection = open_writer(self.path, self._busy_seconds)
                self._writer = GroupCommit(connection, self._most_waiting, self._busy_seconds)
            return self._writer
        finally:
            self._opening.release()
