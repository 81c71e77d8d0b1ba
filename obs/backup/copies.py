"""``obs backup`` and ``obs restore``: a backup gets its name once it is complete; restoring keeps the previous data."""

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import click

from obs.backup import files
from obs.heartbeat.store.expectations import note_copied
from obs.storage.disk import make_folder, sync_folder, write_once
from obs.tenancy import service
from obs.tenancy.cli import opened


@click.command("backup")
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--org", help="Back up only this organization, into the file TARGET.")
@click.option("--keep", type=click.IntRange(min=1), help="Afterwards, keep only this many backups in TARGET.")
def backup(target: Path, org: str | None, keep: int | None, folder: Path) -> None:
    """Back up the instance, while the server runs, into a new folder in the folder TARGET.

    Prints nothing but errors, unless on a terminal.
    """
    if keep is not None and org is not None:
        raise click.UsageError("--keep does not work with --org.")
    files.organizations(folder)  # or it is not an instance
    if org is not None and target.resolve().parent in (folder.resolve(), folder.resolve() / "tenants"):
        raise click.UsageError("TARGET cannot be in the folder of the instance, among the files that it uses.")
    with unnamed(folder, target if org is None else target.parent) as temporary:
        if org is not None:
            files.copy_verified(files.organization(folder, org), temporary / target.name)
            (temporary / target.name).replace(target)
            return
        _copy_files(folder, temporary)
        digests = files.digests(temporary)
        write_once(temporary / files.SUMS, "".join(f"{digests[name]}  {name}\n" for name in sorted(digests)))
        new = temporary.rename(target / datetime.now(UTC).strftime("obs-%Y-%m-%dT%H%M%SZ"))
        sync_folder(target)
        others = sorted(set(target.glob("obs-????-??-??T??????Z")) - {new}, reverse=True)
        for old in others[keep - 1 :] if keep else ():
            old.rename(temporary)  # what is being deleted has no name either
            shutil.rmtree(temporary)


@contextmanager
def unnamed(instance: Path, folder: Path, lock: str = files.BACKUP_LOCK) -> Iterator[Path]:
    """A new folder in `folder`, for what gets its name when it is complete. One process at a time has it."""
    if not folder.is_dir():  # it is not created: what is missing may be the disk that it is on
        raise click.ClickException(f"There is no folder {folder}. Create it, or mount the disk that it is on.")
    temporary = folder / f".obs-{hashlib.sha256(str(instance.resolve()).encode()).hexdigest()[:8]}.partial"
    with files.alone(instance, lock):
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(mode=0o700)
        try:
            yield temporary
            sync_folder(folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _copy_files(instance: Path, target: Path) -> None:
    """Copy all files. The control file comes after the others, and only what it lists is kept."""
    (target / "tenants").mkdir(mode=0o700)
    for path in files.organizations(instance).values():
        try:
            files.copy_verified(path, target / "tenants" / path.name)
        except click.ClickException:
            if path.exists():  # the organization was not deleted meanwhile
                raise
    files.copy_verified(instance / files.CONTROL, target / files.CONTROL)
    listed = files.organizations(target).values()
    for path in listed:
        if not path.exists():  # the organization was created meanwhile
            files.copy_verified(instance / "tenants" / path.name, path)
    for path in set((target / "tenants").iterdir()).difference(listed):
        path.unlink()
    for path in instance.iterdir():  # the settings, the secret key
        if path.is_file() and not path.name.startswith(".") and ".db" not in path.name:
            (target / path.name).touch(mode=0o600)
            shutil.copyfile(path, target / path.name)


@click.command("restore")
@click.argument("source", type=click.Path(path_type=Path, exists=True))
@click.option("--org", help="Restore only this organization. The server may run.")
@click.option("--as", "new_name", help="The name that the organization gets. Default: the same.")
def restore(source: Path, org: str | None, new_name: str | None, folder: Path) -> None:
    """Restore the backup SOURCE: the instance, or one organization. The previous data is kept.

    SOURCE is the folder of a backup, or, with --org, the file of one organization.
    """
    if new_name is not None and org is None:
        raise click.UsageError("--as needs --org.")
    previous = _restore(source, folder) if org is None else _restore_organization(source, folder, org, new_name or org)
    kept = "" if previous is None else f" The previous data is in {previous}."
    click.echo(f"Restored {new_name or org or folder} from {source}.{kept}", err=True)


def _restore(source: Path, instance: Path) -> Path | None:
    make_folder(instance, 0o700)
    with unnamed(instance, instance, files.SERVER_LOCK) as restored:
        previous = instance / f"previous-{datetime.now(UTC):%Y-%m-%dT%H%M%SZ}"
        for path in source.rglob("*"):
            target = restored / path.relative_to(source)
            if path.is_dir():
                target.mkdir(mode=0o700)
            else:
                target.touch(mode=0o600)
                shutil.copyfile(path, target)
        files.require_unchanged(restored, source)
        before = [path for path in instance.iterdir() if not path.name.startswith((".", "previous-"))]
        for path in before:
            previous.mkdir(mode=0o700, exist_ok=True)
            path.rename(previous / path.name)
        for path in sorted(restored.iterdir(), key=lambda path: path.name == files.CONTROL):  # without it, no instance
            if path.name != files.SUMS:
                path.rename(instance / path.name)
    return previous if before else None


def _restore_organization(source: Path, instance: Path, org: str, new_name: str) -> Path | None:
    """Give an organization a copy of the file in the backup; returns its previous file, which stays where it is."""
    if source.is_dir():
        files.require_unchanged(source, source)
        source = files.organization(source, org)
    previous = files.organizations(instance).get(new_name)
    with (
        opened(instance) as tenancy,
        files.alone(instance, files.BACKUP_LOCK),
        service.filled_organization(tenancy, new_name, may_exist=new_name == org) as copied,
    ):
        files.copy_verified(source, tenancy.databases.path(copied))
        tenancy.databases.write(copied, lambda db: note_copied(db, tenancy.clock()))  # nothing is overdue by it
    return previous
