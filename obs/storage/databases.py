"""The files of organizations: which are open, the problems with them, and large changes in small transactions."""

import logging
import math
import resource
import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple

from obs.errors import ServiceError, T
from obs.storage.connection import MissingFileError, explained, first_value, open_writer
from obs.storage.disk import sync_folder
from obs.storage.file import DESCRIPTORS_PER_FILE, DatabaseFile, FileOptions, locked, migrate
from obs.storage.writer import Unit

Step = Callable[[sqlite3.Connection, int], int]
_MOST_FILES = 2_048  # a file with a writer and a reader takes about 0.4 MB of memory

REPEAT_SECONDS = 600.0  # until a problem that persists is logged again
_CLOSING_SECONDS = 0.5
SETTLE_SECONDS = 30.0  # until a problem has ended that does not occur again: one that comes and goes is logged once
_UNUSABLE = "storage_unavailable"

BACKGROUND_SHARE = 0.25  # the share of the writer's time that background work may use; the rest is for heartbeats
_LONGEST_SECONDS = 0.05
_AIM_SECONDS = _LONGEST_SECONDS / 4
_FIRST, _MOST = 10, 5_000  # rows in a batch
_log = logging.getLogger(__name__)


class Org(NamedTuple):
    """An organization; as text, its slug. Created again after a deletion, it has the same slug and another id."""

    slug: str
    id: int

    @property
    def file_name(self) -> str:
        return f"{self.slug}.{self.id}.db"

    def __str__(self) -> str:
        return self.slug


class FileProblems:
    """The current problems with organizations' files. `operation` is ``read`` or ``write``. Thread-safe."""

    def __init__(self, path: Callable[[Org], Path]) -> None:
        self._path = path
        self._lock = threading.Lock()
        # By organization and operation: the kind of problem, when it was logged, and when it was seen last.
        self._known: dict[tuple[Org, str], tuple[str, float, float]] = {}

    def failed(self, org: Org, operation: str, error: ServiceError) -> None:
        """Record that an operation on the file of `org` failed; other kinds of `error` are ignored."""
        if error.error not in ("storage_busy", "storage_full", _UNUSABLE):
            return
        now = time.monotonic()
        with self._lock:
            known, logged_at, _ = self._known.get((org, operation), ("", 0.0, 0.0))
            is_logged = known == error.error and now - logged_at < REPEAT_SECONDS
            self._known[org, operation] = error.error, logged_at if is_logged else now, now
        if not is_logged:
            _log.error("organization %s cannot %s %s: %s", org, operation, self._path(org), error.message)

    def worked(self, org: Org, operation: str) -> None:
        """Record that an operation on the file of `org` succeeded. A file that can be written can also be read."""
        if not self._known:
            return
        for working in ("write", "read") if operation == "write" else ("read",):
            with self._lock:
                _, _, seen_at = self._known.get((org, working), ("", 0.0, math.inf))
                if time.monotonic() - seen_at < SETTLE_SECONDS:
                    continue
                del self._known[org, working]
            _log.warning("organization %s can %s %s again", org, working, self._path(org))

    def unusable(self) -> set[Org]:
        """The organizations whose file cannot be used, or could not a moment ago; some may have been deleted since."""
        with self._lock:
            return {org for (org, _), (known, *_) in self._known.items() if known == _UNUSABLE}


def allow_many_descriptors() -> int:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def files_that_fit(descriptors: int) -> int:
    """How many files of organizations may be open at once; half of the descriptors are reserved for clients."""
    return max(4, min(_MOST_FILES, descriptors // 2 // DESCRIPTORS_PER_FILE))


class Databases:
    """The files of organizations, opened on first use; the least recently used are closed. Thread-safe."""

    def __init__(self, folder: Path, options: FileOptions, most_files: int) -> None:
        self._folder, self._options, self._most_files = folder, options, most_files
        self._room = threading.Condition()
        self._files: OrderedDict[Org, DatabaseFile] = OrderedDict()
        self._users: dict[DatabaseFile, int] = {}
        self._last_writes: dict[Org, int] = {}
        self.first_units: dict[Org, Unit] = {}
        self._numbers = count(1)
        self._closing = False
        self.winding_down = threading.Event()  # set when the instance is about to close: background work stops
        self.problems = FileProblems(self.path)

    def path(self, org: Org) -> Path:
        """The file of `org`, which always comes from the control file, never from a request."""
        return self._folder / org.file_name

    def used_bytes(self, org: Org) -> int:
        """The bytes in the file of `org` that are in use. Raises ServiceError (503)."""
        used = "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count"
        return int(self.fetch(org, lambda db: first_value(db, f"{used}, pragma_page_size")))

    def create(self, org: Org) -> None:
        """Create the file of `org`, or migrate it if there is one. Raises ServiceError (503)."""
        migrate(self.path(org), self._options.migrations, self._options.busy_seconds)

    def delete(self, org: Org) -> None:
        """Delete the file of `org` and its write-ahead log durably, between two transactions of any process.

        Each transaction begins with a check that the file is there. Raises OSError, or, before anything is deleted,
        ServiceError (503) when another process keeps the file locked.
        """
        self.forget(org)
        path = self.path(org)
        with ExitStack() as stack:
            try:
                with explained():
                    db = stack.enter_context(closing(open_writer(path, self._options.busy_seconds)))
                    db.execute("BEGIN IMMEDIATE")
            except ServiceError as error:
                if error.error == "storage_busy":  # else it is missing or damaged, and nobody can write to it
                    raise
            for suffix in ("", "-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
        sync_folder(self._folder)  # or it could reappear after a power loss

    def adopt(self, path: Path, org: Org) -> None:
        """Make the file at `path`, if there is one, the file of `org`, unless that exists. No process may have it open.

        Safe if the process is killed, and if two processes call it at once. Raises ServiceError (503).
        """
        if not path.exists():
            return
        with locked(self._folder):
            if path.exists() and not self.path(org).exists():
                with explained(), closing(open_writer(path, self._options.busy_seconds)) as db:
                    # Empties and deletes the write-ahead log, which has the old name too. Nobody else may use it.
                    db.execute("PRAGMA journal_mode = DELETE")
                    path.rename(self.path(org))
                sync_folder(self._folder)

    def write(self, org: Org, unit: Callable[[sqlite3.Connection], T]) -> T:
        """Run `unit` in a transaction on the file of `org`, durable when this returns. See `GroupCommit.write`."""

        def counted(db: sqlite3.Connection) -> tuple[T, int]:
            before = db.total_changes
            return unit(db), db.total_changes - before

        with self._use(org, "write") as file:
            result, changes = file.write(counted)
            if changes:
                self._last_writes[org] = next(self._numbers)
            return result

    def write_first(self, org: Org, unit: Unit) -> None:
        """Run `unit` before anything else in the file of `org`: now if the file is open, else when it is opened."""
        with self._room:
            if org not in self._files:
                self.first_units[org] = unit
                return
        self.write(org, unit)

    def last_write(self, org: Org) -> int:
        """A number that differs after each change by this process to the file of `org`."""
        return self._last_writes.get(org, 0)

    def fetch(self, org: Org, read: Callable[[sqlite3.Connection], T]) -> T:
        """What `read` returns for a read-only connection to the file of `org`. Raises ServiceError (503)."""
        with self.read(org) as connection:
            return read(connection)

    @contextmanager
    def read(self, org: Org) -> Iterator[sqlite3.Connection]:
        """A read-only connection to the file of `org`. Raises ServiceError (503)."""
        with self._use(org, "read") as file, file.read() as connection:
            yield connection

    def open_files(self) -> int:
        return len(self._files)

    def forget(self, org: Org) -> None:
        with self._room:
            self.first_units.pop(org, None)
            file = self._files.pop(org, None)
            is_idle = file not in self._users
        if file is not None and is_idle:
            file.close()

    def close(self) -> None:
        """Reject new work and close the idle files; the last user of any other file closes it, or else the system."""
        with self._room:
            self._closing = True
            self._room.notify_all()
            idle = [file for file in self._files.values() if file not in self._users]
            self._files.clear()
        end = time.monotonic() + _CLOSING_SECONDS
        for file in idle:
            if time.monotonic() < end:
                file.close()

    @contextmanager
    def _use(self, org: Org, operation: str) -> Iterator[DatabaseFile]:
        unused = None
        with self._room:
            if org not in self._files and not self._room.wait_for(
                lambda: org in self._files or len(self._users) < self._most_files or self._closing,
                self._options.busy_seconds,
            ):
                raise ServiceError("storage_busy", f"The maximum of {self._most_files} files is in use.")
            if self._closing:
                raise ServiceError("shutting_down")
            if (file := self._files.get(org)) is None:
                if len(self._files) >= self._most_files:
                    idle = next((other for other, known in self._files.items() if known not in self._users), org)
                    unused = self._files.pop(idle, None)
                file = self._files[org] = DatabaseFile(self.path(org), self._options, self.first_units.pop(org, None))
            else:
                self._files.move_to_end(org)
            self._users[file] = self._users.get(file, 0) + 1
        if unused is not None:
            unused.close()
        try:
            yield file
            self.problems.worked(org, operation)
        except ServiceError as error:
            self.problems.failed(org, operation, error)
            if isinstance(error, MissingFileError) or "readonly" in error.message:  # until it is opened again
                with self._room:
                    if self._files.get(org) is file:
                        del self._files[org]
            raise
        finally:
            with self._room:
                self._users[file] -= 1
                if not self._users[file]:
                    del self._users[file]
                    self._room.notify()
                is_unused = file not in self._users and self._files.get(org) is not file
            if is_unused:
                file.close()


def in_batches(databases: Databases, org: Org, step: Step, *, share: float = 1.0, seconds: float = math.inf) -> int:
    """Call ``step(connection, limit)`` in one transaction after another until it returns 0; returns the sum.

    `step` changes at most `limit` rows and returns how many. The limit adapts, so that no batch blocks other writes for
    _LONGEST_SECONDS. With a `share` below 1, pauses leave the rest of the writer's time to others, and the work stops
    when the instance is about to close. It also stops after `seconds`.
    """
    total, limit = 0, _FIRST
    end = time.monotonic() + seconds

    def unit(db: sqlite3.Connection) -> tuple[int, float]:
        started = time.perf_counter()
        return step(db, limit), time.perf_counter() - started

    while True:
        changed, seconds_taken = databases.write(org, unit)
        total += changed
        if changed == 0 or time.monotonic() >= end:
            return total
        if share < 1 and databases.winding_down.wait(seconds_taken * (1 / share - 1)):
            return total
        limit = max(1, min(_MOST, int(limit * min(2.0, _AIM_SECONDS / max(seconds_taken, 1e-6)))))
