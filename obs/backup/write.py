"""``obs backup``: copies of the files while the server runs. A backup gets its name once it is complete and on disk."""

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import click

from obs.backup import files
from obs.storage.folders import sync_folder, write_once
from obs.tenancy.cli import instance_option, reported_errors


@click.command("backup")
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--org", help="Back up only this organization, into the file TARGET.")
@click.option("--keep", type=click.IntRange(min=1), help="Then delete all but this many backups in TARGET.")
@instance_option
def backup(target: Path, org: str | None, keep: int | None, folder: Path) -> None:
    """Back up the instance, while the server runs, into a new folder in the folder TARGET.

    Prints nothing but errors, unless on a terminal.
    """
    with reported_errors():
        if org is None:
            _back_up(folder, target, keep)
        else:
            with unnamed(folder, target.parent) as temporary:
                files.copy_verified(files.organization(folder, org), temporary / target.name)
                (temporary / target.name).replace(target)


@contextmanager
def unnamed(instance: Path, folder: Path) -> Iterator[Path]:
    """A new folder in `folder`, in which to write something that gets its name when it is complete.

    One process at a time can do that for an instance. What an earlier call has left is deleted.
    """
    files.organizations(instance)  # or it is not an instance
    if not folder.is_dir():  # it is not created: what is missing may be the disk that it is on
        raise click.ClickException(f"There is no folder {folder}. Create it, or mount the disk that it is on.")
    temporary = folder / f".obs-{hashlib.sha256(str(instance.resolve()).encode()).hexdigest()[:8]}.partial"
    with files.alone(instance / ".backup.lock", f"Another backup of {instance} is running."):
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(mode=0o700)
        try:
            yield temporary
            sync_folder(folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _back_up(instance: Path, folder: Path, keep: int | None) -> None:
    with unnamed(instance, folder) as temporary:
        _copy_files(instance, temporary)
        digests = files.digests(temporary)
        write_once(temporary / files.SUMS, "".join(f"{digests[name]}  {name}\n" for name in sorted(digests)))
        temporary.rename(folder / datetime.now(UTC).strftime("obs-%Y-%m-%dT%H%M%SZ"))
        sync_folder(folder)
        for old in sorted(folder.glob("obs-????-??-??T??????Z"))[:-keep] if keep else ():
            old.rename(temporary)  # what is being deleted has no name either
            shutil.rmtree(temporary)


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
