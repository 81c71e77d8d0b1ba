"""One SQLite file: its migration to the current schema, and its writer and readers, opened on first use."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock, Timeout
from sqlite_utils import Database, Migrations

from obs.errors import ServiceError, T
from obs.storage.connection import REPAIR, MissingFileError, explained, open_reader, open_writer
from obs.storage.disk import sync_folder
from obs.storage.writer import GroupCommit, Unit

IDLE_READERS = 2  # readers that stay open while nobody uses them
DESCRIPTORS_PER_FILE = 2 * (1 + IDLE_READERS) + 1
"""Each connection has the file and its write-ahead log open; all share one descriptor of the shared memory file."""

_OPENING_SECONDS = 0.25


class FileOptions(NamedTuple):
    """How files are opened: with which schema, how long to wait for locks, and how many writes may wait at a time."""

    migrations: Migrations
    busy_seconds: float
    most_waiting: int
    checkpoints: bool = True  # for the process that owns the files: see `open_writer`


class DatabaseFile:
    """An existing file, migrated to the current schema when it is opened. Thread-safe."""

    def __init__(self, path: Path, options: FileOptions, first: Unit | None = None) -> None:
        """`first` is a transaction to run before any other."""
        self.path, self._options, self._first = path, options, first
        self._lock, self._opening = threading.Lock(), threading.Lock()
        self._writer: GroupCommit | None = None
        self._readers: list[sqlite3.Connection] = []

    def write(self, unit: Callable[[sqlite3.Connection], T]) -> T:
        return (self._writer or self._open()).write(unit)

    def fetch(self, read: Callable[[sqlite3.Connection], T]) -> T:
        """What `read` returns for a read-only connection. Raises ServiceError (503)."""
        with self.read() as connection:
            return read(connection)

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A read-only connection. Raises ServiceError (503)."""
        if self._writer is None:
            self._open()  # migrates the file, and keeps the write-ahead log while readers open and close
        with self._lock:
            idle = self._readers.pop() if self._readers else None
        with explained(), ExitStack() as stack:
            reader = stack.enter_context(closing(idle or open_reader(self.path, self._options.busy_seconds)))
            yield reader
            with self._lock:
                if len(self._readers) < IDLE_READERS:
                    self._readers.append(reader)
                    stack.pop_all()  # so that it stays open

    def close(self) -> None:
        while self._readers:
            self._readers.pop().close()
        if self._writer is not None:  # the last, because only a writer can checkpoint when it closes
            self._writer.close()
            self._writer = None

    def _open(self) -> GroupCommit:
        # Opening may wait for the lock of another program. One thread waits; the others give up after a short time.
        if not self._opening.acquire(timeout=_OPENING_SECONDS):
            raise ServiceError("storage_busy", "The organization's file is being opened.")
        try:
            if self._writer is None:
                schema, busy_seconds, most_waiting, checkpoints = self._options
                migrate(self.path, schema, busy_seconds, creates=False)
                with explained():
                    connection = open_writer(self.path, busy_seconds, checkpoints=checkpoints)
                    writer = GroupCommit(connection, self.path, most_waiting, busy_seconds)
                if self._first is not None:
                    writer.write(self._first)
                self._writer, self._first = writer, None
            return self._writer
        finally:
            self._opening.release()


def migrate(path: Path, migrations: Migrations, busy_seconds: float, *, creates: bool = True) -> None:
    """Apply the missing steps of `migrations` to the file at `path`, which is created if it is missing and `creates`.

    Each step is one transaction. When this returns, the file and its name are on disk. Raises ServiceError (503) for a
    file that is missing, locked, damaged, cannot be opened, or was migrated by a newer version of the service.
    """
    if not creates and not (path.exists() and path.stat().st_size):
        raise MissingFileError(path)
    with explained(path.parent):
        # A process that stops while it switches a file to WAL leaves a journal, which only a writer can roll back.
        if path.exists() and not path.with_name(f"{path.name}-journal").exists():
            with closing(open_reader(path, busy_seconds)) as connection:
                missing, unknown = steps(connection, migrations)
            if unknown:
                message = f"{path.name} was written by a newer version of the service ({', '.join(sorted(unknown))})."
                raise ServiceError("storage_unavailable", message, hint="Start the newer version.")
            if not missing:
                return
        with locked(path.parent):
            if creates:
                path.touch(mode=0o600)
            with closing(open_writer(path, busy_seconds)) as connection:
                migrations.apply(Database(connection, execute_plugins=False))
            sync_folder(path.parent)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Prevent other processes from migrating or renaming files in `folder` meanwhile. Raises ServiceError (503)."""
    try:
        lock = FileLock(folder / ".migrate.lock", timeout=60).acquire()
    except Timeout as error:
        raise ServiceError("storage_busy", f"Another process is migrating the files in {folder.name}.") from error
    except OSError as error:
        message = f"The files in {folder.name} cannot be locked: {error.strerror}."
        raise ServiceError("storage_unavailable", message, hint=REPAIR) from error
    with lock:
        yield


def steps(connection: sqlite3.Connection, migrations: Migrations) -> tuple[set[str], set[str]]:
    """The names of the steps that a file lacks, and of those that it has but this version does not know."""
    with closing(Database(memory=True, execute_plugins=False)) as empty:
        every_step = {step.name for step in migrations.pending(empty)}
    applied = {step.name for step in migrations.applied(Database(connection, execute_plugins=False))}
    return every_step - applied, applied - every_step
