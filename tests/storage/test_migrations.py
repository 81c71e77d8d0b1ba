"""Migrating a file: after a kill, by several processes at once, and a file of a newer version."""

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask
from sqlite_utils import Database, Migrations

import migrations.tenant
from obs.errors import ServiceError
from obs.services import services
from obs.storage.databases import Databases, Org
from obs.storage.file import migrate
from tests.conftest import ACME, KeyClient
from tests.storage.conftest import MakeDatabases, numbers

PING = "/api/v1/heartbeat/backup/ping"


def _tables(path: Path) -> set[str]:
    connection = sqlite3.connect(path)
    try:
        return {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    finally:
        connection.close()


def _add_step(databases: Databases, org: Org, name: str) -> None:
    """Record a step as applied, as a newer version of the service would."""
    databases.write(
        org,
        lambda db: db.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at)"
            " SELECT migration_set, ?, applied_at FROM _sqlite_migrations LIMIT 1",
            (name,),
        ),
    )


def test_a_missing_file_is_created(tmp_path: Path) -> None:
    migrate(tmp_path / "a.db", numbers(), 5)
    assert {"numbers", "texts"} <= _tables(tmp_path / "a.db")


def test_a_current_file_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    migrate(path, numbers(), 5)
    before = path.read_bytes()
    migrate(path, numbers(), 5)
    assert path.read_bytes() == before


def test_opening_a_file_applies_the_missing_steps(make_databases: MakeDatabases) -> None:
    databases = make_databases()
    older = Migrations("numbers")

    @older()
    def first(db: Database) -> None:
        db.execute("CREATE TABLE numbers (number INTEGER PRIMARY KEY) STRICT")
        db.execute("INSERT INTO numbers VALUES (7)")

    migrate(databases.path(ACME), older, 5)
    assert "texts" not in _tables(databases.path(ACME))
    with databases.read(ACME) as db:
        assert db.execute("SELECT number FROM numbers").fetchone()[0] == 7
    assert "texts" in _tables(databases.path(ACME))


def test_a_failing_step_is_rolled_back(tmp_path: Path) -> None:
    failing = numbers()

    @failing()
    def third(db: Database) -> None:
        db.execute("CREATE TABLE halves (half TEXT)")
        raise RuntimeError("in the middle")

    path = tmp_path / "a.db"
    with pytest.raises(RuntimeError, match="in the middle"):
        migrate(path, failing, 5)
    assert {"numbers", "texts"} <= _tables(path)
    assert "halves" not in _tables(path)
    migrate(path, numbers(), 5)


KILLED = """
import os, signal, sys
from pathlib import Path
import migrations.tenant
from obs.storage.file import migrate
steps = migrations.tenant.migrations

@steps()
def last(db):
    db.execute("CREATE TABLE halves (half TEXT)")
    db.execute("ALTER TABLE jobs ADD COLUMN half TEXT")
    os.kill(os.getpid(), signal.SIGKILL)

migrate(Path(sys.argv[1]), steps, 5)
"""


def test_a_kill_in_the_middle_of_a_step_rolls_it_back(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr

    migrate(path, migrations.tenant.migrations, 5)
    assert {"annotations", "jobs", "runs", "events"} <= _tables(path)
    assert "halves" not in _tables(path)
    connection = sqlite3.connect(path)
    assert "half" not in {row[1] for row in connection.execute("PRAGMA table_info(jobs)")}
    connection.close()


TWICE = """
import sys
from pathlib import Path
import migrations.tenant
from obs.storage.file import migrate
print("ready", flush=True)
sys.stdin.readline()
for number in range(20):
    migrate(Path(sys.argv[1]) / f"{number}.db", migrations.tenant.migrations, 5)
"""


@pytest.mark.slow
def test_several_processes_migrate_at_once(tmp_path: Path) -> None:
    started = [
        subprocess.Popen(
            [sys.executable, "-c", TWICE, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in started:
        errors = process.communicate(timeout=60)[1]
        assert process.returncode == 0, errors
    for number in range(20):
        assert {"annotations", "jobs", "runs", "events"} <= _tables(tmp_path / f"{number}.db")


def test_a_file_of_a_newer_version_is_rejected_and_not_changed(databases: Databases) -> None:
    databases.write(ACME, lambda db: db.execute("INSERT INTO numbers VALUES (1)"))
    _add_step(databases, ACME, "from_the_future")
    databases.forget(ACME)
    before = databases.path(ACME).read_bytes()
    with pytest.raises(ServiceError, match="from_the_future") as rejected:
        databases.write(ACME, lambda db: db.execute("INSERT INTO numbers VALUES (2)"))
    assert (rejected.value.status, rejected.value.error) == (503, "storage_unavailable")
    with pytest.raises(ServiceError), databases.read(ACME):
        pass
    assert databases.path(ACME).read_bytes() == before


@pytest.mark.parametrize("problem", ["newer", "damaged"])
def test_over_http_only_that_organization_is_affected(
    app: Flask, client: KeyClient, other_client: KeyClient, problem: str
) -> None:
    databases: Databases = services(app).tenancy.databases
    assert client.post(PING).status_code == 200
    if problem == "newer":
        _add_step(databases, ACME, "from_the_future")
    databases.forget(ACME)
    if problem == "damaged":
        databases.path(ACME).write_bytes(b"not a database at all" * 1_000)
    answer = client.post(PING)
    assert answer.status_code == 503
    assert answer.json is not None
    assert answer.json["error"] == "storage_unavailable"
    assert answer.headers["Retry-After"]
    assert other_client.post(PING).status_code == 200
    assert other_client.get("/api/v1/jobs").status_code == 200


def test_a_control_file_of_a_newer_version_prevents_startup(make_app: Callable[..., Flask]) -> None:
    app = make_app()
    control = services(app).tenancy.control
    control.write(
        lambda db: db.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at)"
            " SELECT migration_set, 'from_the_future', applied_at FROM _sqlite_migrations LIMIT 1"
        )
    )
    with pytest.raises(ServiceError, match=r"control\.db was written by a newer version"):
        make_app()


def test_an_unusable_lock_file_is_a_503(tmp_path: Path) -> None:
    (tmp_path / ".migrate.lock").mkdir()
    with pytest.raises(ServiceError) as rejected:
        migrate(tmp_path / "a.db", numbers(), 5)
    assert (rejected.value.status, rejected.value.error) == (503, "storage_unavailable")
