"""Deleting an organization and creating another with the same name, even while a server has the file open."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from obs.heartbeat.store import jobs
from obs.services import services
from obs.storage.databases import Org
from obs.tenancy import service, store
from obs.tenancy.auth import Tenancy
from tests.conftest import ACME, KeyClient
from tests.tenancy.conftest import Obs

PING = "/api/v1/heartbeat/backup/ping"
JOBS = "/api/v1/jobs"


def _client(app: Flask, key: str) -> KeyClient:
    client = app.test_client()
    assert isinstance(client, KeyClient)
    client.key = key
    return client


def _new_key(obs: Obs, tenancy: Tenancy) -> str:
    created = obs("key", "create", "acme", "--label", "x", "--scope", "admin")
    assert created.exit_code == 0, created.output
    tenancy.keyring.reload()
    return created.stdout.strip()


def _names(client: KeyClient) -> list[str]:
    answer = client.get(JOBS)
    assert answer.json is not None
    return [job["name"] for job in answer.json["jobs"]]


def test_deleting_removes_the_keys_and_the_file(obs: Obs, client: KeyClient, tenancy: Tenancy, tmp_path: Path) -> None:
    client.post(PING)
    assert obs("org", "delete", "acme", "--yes").exit_code == 0
    tenancy.keyring.reload()
    assert client.post(PING).status_code == 401
    assert not list((tmp_path / "instance" / "tenants").glob("acme.*"))


def test_a_recreated_organization_is_empty_while_the_old_file_is_open(
    app: Flask, obs: Obs, client: KeyClient, tenancy: Tenancy
) -> None:
    client.post(PING)
    obs("org", "delete", "acme", "--yes")
    obs("org", "create", "acme")
    again = _client(app, _new_key(obs, tenancy))
    assert _names(again) == []
    assert again.post("/api/v1/heartbeat/new/ping").status_code == 200
    assert _names(again) == ["new"]


def test_the_data_of_a_recreated_organization_survives_a_restart(
    make_app: Callable[..., Flask], app: Flask, obs: Obs, client: KeyClient, tenancy: Tenancy
) -> None:
    """The server has the old file open, and its write-ahead log by name, until it closes it."""
    client.post(PING)
    with tenancy.databases.read(ACME):  # a slow reader of the old file, which is still open after the change
        obs("org", "delete", "acme", "--yes")
        obs("org", "create", "acme")
        key = _new_key(obs, tenancy)
        _client(app, key).post("/api/v1/heartbeat/one/ping")
    for name in ("two", "three"):
        assert _client(app, key).post(f"/api/v1/heartbeat/{name}/ping").status_code == 200
    other = make_app()
    assert _names(_client(other, key)) == ["one", "three", "two"]
    tenancy.close()
    assert _names(_client(make_app(), key)) == ["one", "three", "two"]


def test_a_query_of_a_recreated_organization_does_not_read_the_old_file(
    make_app: Callable[..., Flask], obs: Obs, client: KeyClient
) -> None:
    app = make_app(QUERY_WORKERS=1)
    tenancy = services(app).tenancy
    statement = {"query": "SELECT job FROM runs LAST 1h"}
    client.post("/api/v1/heartbeat/backup/end?duration_ms=1500")
    try:
        before = _client(app, str(client.key))
        assert [before.post("/api/v1/dsl", json=statement).json["rows"] for _ in range(2)] == [[["backup"]]] * 2
        obs("org", "delete", "acme", "--yes")
        obs("org", "create", "acme")
        again = _client(app, _new_key(obs, tenancy))
        assert again.post("/api/v1/dsl", json=statement).json["rows"] == []
        again.post("/api/v1/heartbeat/new/end?duration_ms=1500")
        assert again.post("/api/v1/dsl", json=statement).json["rows"] == [["new"]]
    finally:
        services(app).queries.workers.close()


def test_an_organization_gets_its_file_although_the_transaction_is_repeated(
    tenancy: Tenancy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As happens if another write in the same transaction fails."""
    write = tenancy.control.write

    def repeated(unit: Callable[[sqlite3.Connection], Any]) -> Any:
        def both(db: sqlite3.Connection) -> Any:
            db.execute("SAVEPOINT before")
            unit(db)
            db.execute("ROLLBACK TO before")
            return unit(db)

        return write(both)

    with service.filled_organization(tenancy, "restored") as filled:
        tenancy.databases.create(filled)
        tenancy.databases.write(filled, lambda db: jobs.add_job(db, "photos", tenancy.clock()))
        monkeypatch.setattr(tenancy.control, "write", repeated)
    with tenancy.databases.read(service.find_organization(tenancy, "restored")) as db:
        assert jobs.count_jobs(db) == 1


def test_an_organization_whose_file_cannot_be_removed_is_not_deleted(
    obs: Obs, client: KeyClient, tenancy: Tenancy
) -> None:
    """Otherwise a new organization with that name would find the file."""
    tenancy.databases.forget(ACME)
    tenancy.databases.path(ACME).unlink()
    tenancy.databases.path(ACME).mkdir()
    refused = obs("org", "delete", "acme", "--yes")
    assert refused.exit_code == 1
    assert refused.stderr.startswith("Error: ")
    assert obs("org", "list").stdout.startswith("acme\t")


def test_the_first_start_creates_nothing_when_there_are_organizations(client: KeyClient, tenancy: Tenancy) -> None:
    assert service.create_first_organization(tenancy) is None
    assert not tenancy.databases.path(Org("default", 1)).exists()


def test_two_simultaneous_first_starts_create_one_organization(tenancy: Tenancy, other_process: Tenancy) -> None:
    created = [service.create_first_organization(each) for each in (tenancy, other_process)]
    assert created[0] is not None
    assert created[1] is None
    assert tenancy.databases.path(Org("default", 1)).exists()
    with tenancy.control.read() as db:
        assert [organization.slug for organization in store.organizations(db)] == ["default"]


def test_a_first_start_that_was_interrupted_is_continued(tenancy: Tenancy) -> None:
    service.create_organization(tenancy, service.FIRST_ORG)
    created = service.create_first_organization(tenancy)
    assert created is not None
    assert tenancy.keyring.find(created[0], tenancy.clock()) is not None
    assert service.create_first_organization(tenancy) is None


@pytest.mark.parametrize("folder", ["tenants", "."])
def test_the_files_are_readable_by_their_owner_only(client: KeyClient, tmp_path: Path, folder: str) -> None:
    client.post(PING)
    secret = tmp_path / "instance" / "secret_key"
    assert secret.stat().st_mode & 0o077 == 0
    assert (tmp_path / "instance" / "tenants").stat().st_mode & 0o077 == 0
