"""``obs restore``: an instance, or one organization of an instance that may be in use. The previous data is kept."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import click

from obs.backup import files
from obs.storage.folders import make_folder, sync_folder
from obs.tenancy import service
from obs.tenancy.cli import instance_option, opened, reported_errors


@click.command("restore")
@click.argument("source", type=click.Path(path_type=Path, exists=True))
@click.option("--org", help="Restore only this organization. The server may run.")
@click.option("--as", "new_name", help="The name that the organization gets. Default: the same.")
@instance_option
def restore(source: Path, org: str | None, new_name: str | None, folder: Path) -> None:
    """Restore the backup SOURCE: the instance, or one organization. The previous data is kept.

    SOURCE is the folder of a backup, or, with --org, the file of one organization.
    """
    with reported_errors():
        if org is None:
            previous = _restore(source, folder)
        else:
            previous = _restore_organization(source, folder, org, new_name or org)
    kept = "" if previous is None else f" The previous data is in {previous}."
    click.echo(f"Restored {new_name or org or folder} from {source}.{kept}", err=True)


def _restore(source: Path, instance: Path) -> Path | None:
    """Replace all files of the instance; returns the folder to which the previous ones were moved."""
    make_folder(instance, 0o700)
    with files.alone(instance / files.SERVER_LOCK, f"A server is running on {instance}. Stop it first."):
        restored, previous = instance / ".restored", instance / f"previous-{datetime.now(UTC):%Y-%m-%dT%H%M%SZ}"
        shutil.rmtree(restored, ignore_errors=True)
        shutil.copytree(source, restored)
        files.require_unchanged(restored)
        for path in restored.rglob("*"):
            path.chmod(0o700 if path.is_dir() else 0o600)
        before = [path for path in instance.iterdir() if not path.name.startswith((".", "previous-"))]
        for path in before:
            previous.mkdir(mode=0o700, exist_ok=True)
            path.rename(previous / path.name)
        for path in sorted(restored.iterdir(), key=lambda path: path.name == files.CONTROL):  # without it, no instance
            if path.name != files.SUMS:
                path.rename(instance / path.name)
        shutil.rmtree(restored)
        sync_folder(instance)
    return previous if before else None


def _restore_organization(source: Path, instance: Path, org: str, new_name: str) -> Path | None:
    """Give an organization a copy of the file in the backup; returns its previous file, which stays where it is."""
    if source.is_dir():
        files.require_unchanged(source)
        source = files.organization(source, org)
    previous = files.organizations(instance).get(new_name)
    with (
        opened(instance) as tenancy,
        files.alone(instance / ".backup.lock", f"A backup of {instance} is running."),
        service.filled_organization(tenancy, new_name) as copied,
    ):
        files.copy_verified(source, tenancy.databases.path(copied))
        tenancy.databases.update(copied)
    return previous
