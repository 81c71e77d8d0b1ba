"""``obs export`` and ``obs import export``: an organization as a folder with a file of JSON lines for each table.

Each table is exported as it is stored, with its ids, except derived and internal ones and the audit log.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import click
from sqlite_utils import Database

from obs.backup import files
from obs.backup.copies import unnamed
from obs.heartbeat.store.expectations import note_copied
from obs.storage.connection import damages, open_writer
from obs.tenancy import service
from obs.tenancy.cli import opened

LEFT_OUT = (  # how the names of tables begin that are not exported
    *("sqlite_", "_sqlite_", "audit", "event_messages", "indexed_"),
    *("rolled_", "series", "fits", "memories", "host_", "unknown_times", "job_changes", "deliver"),
)


@click.command("export")
@click.argument("org")
@click.argument("target", type=click.Path(path_type=Path))
def export(org: str, target: Path, folder: Path) -> None:
    """Write the data of the organization ORG into the new folder TARGET: one file of JSON lines for each table."""
    if target.exists():
        raise click.ClickException(f"{target} exists already.")
    with files.opened(files.organization(folder, org)) as connection, unnamed(folder, target.parent) as path:
        connection.execute("BEGIN")
        for table, rows in _tables(connection).items():
            with (path / f"{table}.ndjson").open("w") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
        files.digests(path)  # syncs the files
        path.rename(target)


@click.group("import")
def import_group() -> None:
    """Import data into an organization."""


@import_group.command("export")
@click.argument("source", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--org", required=True, help="The organization; created if it does not exist.")
def import_export(source: Path, org: str, folder: Path) -> None:
    """Import the folder SOURCE, which "obs export" has written, into an organization without data: all or nothing."""
    if not any(source.glob("*.ndjson")):
        raise click.ClickException(f"{source} is not an export.")
    with opened(folder) as tenancy:
        if existing := files.organizations(folder).get(org):
            with files.opened(existing) as connection:
                if any(next(rows, None) for rows in _tables(connection).values()):
                    raise click.ClickException(f"{org} has data already; choose another with --org.")
        with service.filled_organization(tenancy, org, may_exist=True) as imported:
            tenancy.databases.create(imported)
            with closing(open_writer(tenancy.databases.path(imported), 5)) as connection:
                connection.execute("PRAGMA foreign_keys = OFF")  # so that the order of the tables does not matter
                try:
                    for table in _tables(connection):
                        rows = _rows(source / f"{table}.ndjson")
                        Database(connection, execute_plugins=False).table(table).insert_all(rows)
                except (ValueError, TypeError, OverflowError, sqlite3.Error) as error:
                    raise click.ClickException(f"{source / table}.ndjson: {error}") from error
                if found := damages(connection):
                    raise click.ClickException(f"{source} is not complete: {found[0]}.")
            tenancy.databases.write(imported, lambda db: note_copied(db, tenancy.clock()))


def _tables(connection: sqlite3.Connection) -> dict[str, Iterator[dict[str, Any]]]:
    db = Database(connection, execute_plugins=False)
    return {name: iter(db.table(name).rows) for name in db.table_names() if not name.startswith(LEFT_OUT)}


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open() if path.exists() else nullcontext(()) as file:  # the table is newer than the export
        for number, line in enumerate(file, 1):
            try:
                row = dict(json.loads(line))
            except (ValueError, TypeError, RecursionError) as error:
                raise ValueError(f"Line {number} is not a JSON object.") from error
            row.pop("learned_event_id", None)  # the schedule is learned again
            row.pop("changed", None)  # numbered by job_changes
            yield row
