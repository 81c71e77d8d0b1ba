"""Migrating a file to the current schema: safe if the process is killed, and if two processes start at once."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from sqlite_utils import Database, Migrations

from obs.storage.connection import MissingFileError, busy, explained, open_reader, open_writer, unavailable
from obs.storage.folders import sync_folder


def migrate(path: Path, migrations: Migrations, busy_seconds: float, *, creates: bool = True) -> None:
    """Apply the missing steps of `migrations` to the file at `path`, which is created if it is missing and `creates`.

    Each step is one transaction, which includes the record that the step was applied. When this returns, the file and
    its name are on disk. Raises ServiceError (503) for a file that is missing, locked, damaged, cannot be opened, or
    was migrated by a newer version of the service.
    """
    if not creates and not path.exists():
        raise MissingFileError()
    with explained(path.parent):
        if path.exists() and _is_current(path, migrations, busy_seconds):
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


def steps(connection: sqlite3.Connection, migrations: Migrations) -> tuple[set[str], set[str]]:
    """The names of the steps that a file lacks, and of those that it has but this version does not know."""
    every_step = {step.name for step in migrations.pending(Database(memory=True, execute_plugins=False))}
    applied = {step.name for step in migrations.applied(Database(connection, execute_plugins=False))}
    return every_step - applied, applied - every_step


def _is_current(path: Path, migrations: Migrations, busy_seconds: float) -> bool:
    with closing(open_reader(path, busy_seconds)) as connection:
        missing, unknown = steps(connection, migrations)
    if unknown:
        message = f"{path.name} was written by a newer version of the service ({', '.join(sorted(unknown))})."
        raise unavailable(message, "Start the newer version.")
    return not missing
