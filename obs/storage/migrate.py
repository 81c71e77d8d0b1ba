"""Migrating a file to the current schema: safe if the process is killed, and if two processes start at once."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from sqlite_utils import Database, Migrations

from obs.errors import ServiceError
from obs.storage.connection import busy, explained, open_reader, open_writer, unavailable
from obs.storage.folders import sync_folder


class NewerFileError(ServiceError):
    """The file was migrated by a newer version of the service."""

    def __init__(self, path: Path, unknown: set[str]) -> None:
        super().__init__(
            "storage_unavailable",
            f"{path.name} was written by a newer version of the service ({', '.join(sorted(unknown))}).",
            hint="Start the newer version.",
            headers={"Retry-After": "60"},
        )


def migrate(path: Path, migrations: Migrations, busy_seconds: float, *, creates: bool = True) -> None:
    """Apply the missing steps of `migrations` to the file at `path`, which is created if it is missing and `creates`.

    Each step is one transaction, which includes the record that the step was applied. When this returns, the file and
    its name are on disk. Raises NewerFileError, or ServiceError (503) for a file that is locked, damaged or cannot be
    opened.
    """
    with explained(path.parent):
        if path.exists() and _is_current(path, migrations, busy_seconds):
            return
        with locked(path.parent):
            if creates:
                path.touch(mode=0o600)
            connection = open_writer(path, busy_seconds)
            try:
                migrations.apply(Database(connection, execute_plugins=False))
            finally:
                connection.close()
            sync_folder(path.parent)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Prevent other processes from migrating or renaming files in `folder` meanwhile. Raises ServiceError (503)."""
    lock = FileLock(folder / ".migrate.lock", timeout=60)
    try:
        lock.acquire()
    except Timeout as error:
        raise busy(f"Another process is migrating the files in {folder.name}.", 5) from error
    except OSError as error:
        raise unavailable(f"The files in {folder.name} cannot be locked: {error.strerror}.") from error
    try:
        yield
    finally:
        lock.release()


def _is_current(path: Path, migrations: Migrations, busy_seconds: float) -> bool:
    every_step = {step.name for step in migrations.pending(Database(memory=True, execute_plugins=False))}
    connection = open_reader(path, busy_seconds)
    try:
        applied = {step.name for step in migrations.applied(Database(connection, execute_plugins=False))}
    finally:
        connection.close()
    if unknown := applied - every_step:
        raise NewerFileError(path, unknown)
    return applied == every_step
