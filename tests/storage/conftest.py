"""Fixtures: organizations' files with a table of numbers, independent of the rest of the service."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlite_utils import Database, Migrations

from obs.storage.databases import Databases
from obs.storage.file import FileOptions
from tests.conftest import ACME

MakeDatabases = Callable[..., Databases]


def numbers() -> Migrations:
    """A schema in two steps."""
    migrations = Migrations("numbers")

    @migrations()
    def first(db: Database) -> None:
        db.execute("CREATE TABLE numbers (number INTEGER PRIMARY KEY) STRICT")

    @migrations()
    def second(db: Database) -> None:
        db.execute("CREATE TABLE texts (text TEXT) STRICT")

    return migrations


@pytest.fixture
def make_databases(tmp_path: Path) -> Iterator[MakeDatabases]:
    created: list[Databases] = []

    def make(*, busy_seconds: float = 5, most_waiting: int = 100, most_files: int = 10) -> Databases:
        created.append(Databases(tmp_path, FileOptions(numbers(), busy_seconds, most_waiting), most_files))
        return created[-1]

    yield make
    for databases in created:
        databases.close()


@pytest.fixture
def databases(make_databases: MakeDatabases) -> Databases:
    """Databases with a file for ``acme``."""
    created = make_databases()
    created.create(ACME)
    return created
