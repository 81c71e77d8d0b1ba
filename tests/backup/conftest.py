"""An instance with data in two organizations, the command line on it, and what is stored in a file."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Clock, KeyClient
from tests.tenancy.conftest import obs, tenancy

__all__ = ["obs", "tenancy"]


@pytest.fixture
def instance(tmp_path: Path, client: KeyClient, other_client: KeyClient, clock: Clock) -> Path:
    """The folder of an instance that the application has open, with a few runs, and settings."""
    for number in range(3):
        clock.advance(minutes=10)
        client.post("/api/v1/heartbeat/nightly/start")
        clock.advance(seconds=5)
        client.post(f"/api/v1/heartbeat/nightly/log?message=copied {number} files")
        client.post(f"/api/v1/heartbeat/nightly/end?status={'failed' if number else 'success'}")
        other_client.post("/api/v1/heartbeat/other/ping")
    client.post("/api/v1/annotations", json={"name": "deploy", "title": "Release \x00 \N{SNOWMAN}"})
    (tmp_path / "instance" / "config.toml").write_text("port = 9999\n")
    return tmp_path / "instance"


@pytest.fixture
def backups(tmp_path: Path) -> Path:
    """An empty folder for backups."""
    folder = tmp_path / "backups"
    folder.mkdir()
    return folder


def stored(path: Path) -> dict[str, Any]:
    """All rows of all tables of a file by table, the internal tables of the index included."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {table: sorted(map(repr, db.execute(f"SELECT * FROM {table}"))) for table in tables}


def file_of(folder: Path, org: str) -> Path:
    """The current file of an organization: the one with the highest id."""
    return max((folder / "tenants").glob(f"{org}.*.db"), key=lambda path: int(path.name.split(".")[1]))
