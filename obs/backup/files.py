"""The files of an instance, and ``obs check``. A backup has the same layout and a file SHA256SUMS."""

import fcntl
import hashlib
import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import click

from migrations import control, tenant
from obs.errors import ServiceError
from obs.heartbeat.store import upkeep
from obs.storage.connection import copy, damages, explained, open_reader, open_writer
from obs.storage.disk import sync_folder
from obs.storage.file import steps
from obs.tenancy import store

CONTROL = "control.db"
SUMS = "SHA256SUMS"
BACKUP_LOCK, SERVER_LOCK = ".backup.lock", ".serve.lock"
_HELD = {BACKUP_LOCK: "Another backup of {} is running.", SERVER_LOCK: "A server is running on {}. Stop it first."}


@contextmanager
def opened(path: Path, *, leaves_no_log: bool = False, target: Path | None = None) -> Iterator[sqlite3.Connection]:
    """A read-only connection whose errors are ClickExceptions. With `leaves_no_log`, it creates no write-ahead log."""
    immutable = leaves_no_log and not path.with_name(f"{path.name}-wal").exists()  # with a log, it may be in use
    try:
        with explained(), closing(open_reader(path, 60, immutable=immutable)) as db:
            yield db
    except ServiceError as error:
        is_full = target is not None and error.error == "storage_full"  # it is being copied to `target`
        message = f"{target}: There is no room for the copy." if is_full else f"{path}: {error.message}"
        raise click.ClickException(message) from error


def organizations(folder: Path, *, leaves_no_log: bool = False) -> dict[str, Path]:
    """The file of each organization by slug. Raises ClickException when `folder` has no control file."""
    if not (folder / CONTROL).exists():
        raise click.ClickException(f"{folder} is not an instance: it has no {CONTROL}.")
    with opened(folder / CONTROL, leaves_no_log=leaves_no_log) as db:
        return {org.slug: folder / "tenants" / org.file_name for org in store.organizations(db)}


def organization(folder: Path, slug: str) -> Path:
    if path := organizations(folder).get(slug):
        return path
    raise click.ClickException(f"There is no organization {slug!r} in {folder}.")


@contextmanager
def alone(instance: Path, lock: str) -> Iterator[None]:
    """Hold a lock of an instance, BACKUP_LOCK or SERVER_LOCK. Raises ClickException when another process holds it."""
    with (instance / lock).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise click.ClickException(_HELD[lock].format(instance)) from error
        yield


def copy_verified(source: Path, target: Path) -> None:
    """Copy a file that others may write to. Raises ClickException when it cannot be read, or the copy is damaged."""
    bar = click.progressbar(length=100, label=source.name, file=sys.stderr, hidden=not sys.stderr.isatty())
    with opened(source, target=target) as db, bar:
        copy(db, target, lambda share: bar.update(round(100 * share) - bar.pos))
    with opened(target) as db:
        if found := damages(db):
            raise click.ClickException(f"{source} is damaged: {found[0]}.")


def digests(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file in `folder` by its path in it. Everything is synced."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file() and path.name != SUMS:
            with path.open("rb") as file:
                found[str(path.relative_to(folder))] = hashlib.file_digest(file, "sha256").hexdigest()
                os.fsync(file.fileno())
        elif path.is_dir():
            sync_folder(path)
    return found


def require_unchanged(folder: Path, backup: Path) -> None:
    """Raise ClickException unless the files in `folder` are those of `backup` as they were written, byte for byte."""
    if not (folder / SUMS).exists():
        raise click.ClickException(f"{backup} is not a backup: it has no {SUMS}.")
    written = {line[66:]: line[:64] for line in (folder / SUMS).read_text().splitlines()}
    for name, _ in sorted(written.items() ^ digests(folder).items()):
        raise click.ClickException(f"{backup / name} has changed since the backup was written. Use another backup.")


@click.command("check")
@click.option("--repair", is_flag=True, help="Correct what is derived. The server must be stopped.")
def check(repair: bool, folder: Path) -> None:
    """Check the files of the instance, or of a backup: damage, schema, and whether derived data agrees with the rows.

    The exit code is 1 if something is wrong. Nothing is changed without --repair.
    """
    paths = list(organizations(folder, leaves_no_log=True).values())
    if (folder / SUMS).exists():
        require_unchanged(folder, folder)
    if repair:
        with alone(folder, SERVER_LOCK):
            for path in paths:
                with suppress(ServiceError), explained(), closing(open_writer(path, 5)) as db:  # or it is named below
                    db.execute("BEGIN IMMEDIATE")
                    for difference in upkeep.differences(db, repair=True):
                        click.echo(f"Repaired {path}: {difference}", err=True)
                    db.execute("COMMIT")
    found = [f"{path}: {problem}" for path in (folder / CONTROL, *paths) for problem in _problems(path)]
    click.echo("".join(f"{problem}\n" for problem in found), nl=False)
    click.echo(f"Checked {len(paths) + 1} files.", err=True)
    raise SystemExit(bool(found))


def _problems(path: Path) -> list[str]:
    is_control = path.name == CONTROL
    schema = control if is_control else tenant
    for leaves_no_log in (True, False):  # the second look is for a file that a server opened during the first
        try:
            with opened(path, leaves_no_log=leaves_no_log) as db:
                db.execute("BEGIN")
                missing, unknown = steps(db, schema.migrations)
                found = [f"it lacks the step {name} of the schema, which obs serve adds" for name in sorted(missing)]
                found += [f"it has the step {name} of the schema, of a newer version" for name in sorted(unknown)]
                found = damages(db) or found or ([] if is_control else upkeep.differences(db))
        except click.ClickException as error:
            found = [error.message.removeprefix(f"{path}: ")]
        if not found:
            break
    return found
