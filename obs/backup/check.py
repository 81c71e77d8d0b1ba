"""``obs check``: the files of an instance or of a backup, and what is derived in them."""

from contextlib import closing
from pathlib import Path

import click
from sqlite_utils import Migrations

import migrations.control
import migrations.tenant
from obs.backup import files
from obs.heartbeat.store import upkeep
from obs.storage.connection import damages, explained, open_writer
from obs.storage.file import steps

_TENANT = migrations.tenant.migrations


@click.command("check")
@click.option("--repair", is_flag=True, help="Correct what is derived. The server must be stopped.")
def check(repair: bool, folder: Path) -> None:
    """Check the files of the instance, or of a backup: damage, schema, and whether derived data agrees with the rows.

    The exit code is 1 if something is wrong. Nothing is changed without --repair.
    """
    code = 0
    control = folder / files.CONTROL
    paths = list(files.organizations(folder, leaves_no_log=True).values())
    if (folder / files.SUMS).exists():
        files.require_unchanged(folder)
    if repair:
        with files.alone(folder / files.SERVER_LOCK, f"A server is running on {folder}. Stop it first."):
            for path in paths:
                with explained(), closing(open_writer(path, 5)) as db:
                    db.execute("BEGIN IMMEDIATE")
                    for difference in upkeep.differences(db, repair=True):
                        click.echo(f"Repaired {path}: {difference}", err=True)
                    db.execute("COMMIT")
    for path in (control, *paths):
        for problem in _problems(path, _TENANT if path in paths else migrations.control.migrations):
            click.echo(f"{path}: {problem}")
            code = 1
    click.echo(f"Checked {len(paths) + 1} files.", err=True)
    raise SystemExit(code)


def _problems(path: Path, schema: Migrations) -> list[str]:
    found: list[str] = []
    for leaves_no_log in (True, False):  # the second look is for a file that a server opened during the first
        try:
            with files.opened(path, leaves_no_log=leaves_no_log) as db:
                db.execute("BEGIN")
                missing, unknown = steps(db, schema)
                found = [f"the step {name} of the schema is missing or unknown" for name in sorted(missing | unknown)]
                found = damages(db) or found or (upkeep.differences(db) if schema is _TENANT else [])
        except click.ClickException as error:
            found = [error.message]
        if not found:
            break
    return found
