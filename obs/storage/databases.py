"""The organizations' files in use, the least recently used closed first."""

import resource
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from sqlite_utils import Migrations

from obs.errors import ServiceError
from obs.storage.file import DESCRIPTORS_A_FILE, DatabaseFile, missing
from obs.storage.folders import sync_folder
from obs.storage.migrate import migrate
from obs.storage.troubles import Troubles

T = TypeVar("T")
_MOST_FILES = 256


def allow_many_descriptors() -> int:
    """Raise this process's limit of open files as far as it may go; returns the limit in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def files_that_fit(descriptors: int) -> int:
    """How many organizations' files may be open at once, when half the descriptors are left to clients."""
    return max(4, min(_MOST_FILES, descriptors // 2 // DESCRIPTORS_A_FILE))


class Databases:
    """All organizations' files under one folder, opened when used. Safe to use from any thread.

    An organization is named by its slug, which comes out of the control file and never out of a request.
    """

    def __init__(
        self, folder: Path, migrations: Migrations, *, busy_seconds: float, most_waiting: int, most_files: int
    ) -> None:
        self._folder = folder
        self._migrations = migrations
        self._busy_seconds = busy_seconds
        self._most_waiting = most_waiting
        self._most_files = most_files
        self._mutex = threading.Lock()
        self._room = threading.Condition(self._mutex)
        self._files: OrderedDict[str, DatabaseFile] = OrderedDict()
        self._users: dict[DatabaseFile, int] = {}
        self._closing = False
        self.winding_down = threading.Event()
        """Set when the instance is about to be closed: work that nobody waits for ends."""
        self.troubles = Troubles(self.path)

    def path(self, org: str) -> Path:
        """Where the file of `org` is."""
        return self._folder / f"{org}.db"

    def size(self, org: str) -> int:
        """Bytes of the file of `org`, without its write-ahead log. Raises ServiceError (503)."""
        try:
            return self.path(org).stat().st_size
        except FileNotFoundError as error:
            raise missing() from error

    def create(self, org: str) -> None:
        """Make the file of `org`, or bring it up to date. Raises ServiceError (503)."""
        migrate(self.path(org), self._migrations, self._busy_seconds)

    def update(self, org: str) -> None:
        """Bring the file of `org` up to date; one that is missing is not made anew. Raises ServiceError (503)."""
        if not self.path(org).exists():
            raise missing()
        self.create(org)

    def delete(self, org: str) -> None:
        """Remove the file of `org` with its write-ahead log, for good when this returns. Raises OSError."""
        self.forget(org)
        path = self.path(org)
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        sync_folder(self._folder)  # or another organization of the name might find it again after a power loss

    def write(self, org: str, unit: Callable[[sqlite3.Connection], T]) -> T:
        """Run `unit` on the file of `org`; when this returns, what it wrote is on disk. See GroupCommit.write."""
        with self._use(org, "write") as file:
            return file.write(unit)

    @contextmanager
    def read(self, org: str) -> Iterator[sqlite3.Connection]:
        """A read-only connection to the file of `org`. Raises ServiceError (503)."""
        with self._use(org, "read") as file, file.read() as connection:
            yield connection

    def open_files(self) -> int:
        """How many organizations' files are open."""
        return len(self._files)

    def forget(self, org: str) -> None:
        """Let go of the file of `org`, because the organization is gone or is another one of the same name."""
        self.troubles.forget(org)
        with self._mutex:
            file = self._files.pop(org, None)
            idle = file is not None and file not in self._users
        if file is not None and idle:
            file.close()

    def close(self) -> None:
        """Refuse new work and close what is idle; a file in use is closed by its last user."""
        with self._mutex:
            self._closing = True
            self._room.notify_all()
            idle = [org for org, file in self._files.items() if file not in self._users]
            files = [self._files.pop(org) for org in idle]
        for file in files:
            file.close()

    @contextmanager
    def _use(self, org: str, doing: str) -> Iterator[DatabaseFile]:
        unused = None
        with self._mutex:
            if org not in self._files and not self._room.wait_for(lambda: self._has_room(org), self._busy_seconds):
                message = f"{self._most_files} organizations' files are in use, and no more fit."
                raise ServiceError("storage_busy", message, headers={"Retry-After": "1"})
            if self._closing:
                raise ServiceError("shutting_down", headers={"Retry-After": "5"})
            file = self._files.get(org)
            if file is None:
                unused = self._idle() if len(self._files) >= self._most_files else None
                file = self._files[org] = DatabaseFile(
                    self.path(org),
                    self._migrations,
                    busy_seconds=self._busy_seconds,
                    most_waiting=self._most_waiting,
                )
            else:
                self._files.move_to_end(org)
            self._users[file] = self._users.get(file, 0) + 1
        if unused is not None:
            unused.close()
        try:
            yield file
            self.troubles.worked(org, doing)
        except ServiceError as error:
            self.troubles.failed(org, doing, error)
            raise
        finally:
            for left in self._leave(org, file):
                left.close()

    def _has_room(self, org: str) -> bool:
        """Whether a file may be opened, or need not be; under the mutex."""
        return len(self._users) < self._most_files or org in self._files or self._closing

    def _idle(self) -> DatabaseFile | None:
        """Take the file out that nobody has used for longest, to be closed; under the mutex."""
        idle = next((org for org, file in self._files.items() if file not in self._users), None)
        return None if idle is None else self._files.pop(idle)

    def _leave(self, org: str, file: DatabaseFile) -> list[DatabaseFile]:
        """Count a user out; returns the files to close."""
        unused = []
        with self._mutex:
            self._users[file] -= 1
            if self._users[file] == 0:
                del self._users[file]
                if self._files.get(org) is not file:
                    unused.append(file)
                elif self._closing:
                    unused.append(self._files.pop(org))
                self._room.notify()
        return unused
