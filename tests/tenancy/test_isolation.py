"""An organization cannot see or change the data of another."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from tests.conftest import Clock, KeyClient

SECRET = "only acme may know"


@pytest.fixture
def acme(new_client: Callable[..., KeyClient]) -> KeyClient:
    """An organization with rows in every table."""
    client = new_client("acme", "admin")
    headers = {"X-Platform-Host": SECRET, "Idempotency-Key": "k"}
    for name in ("backup", SECRET):
        for kind in ("start", "log", "end"):
            sent = client.post(f"/api/v1/heartbeat/{kind}", json={"name": name, "message": SECRET}, headers=headers)
            assert sent.status_code == 200
    assert client.post("/api/v1/keys", json={"label": SECRET}).status_code == 201
    marker = {"name": "deploy/web", "title": SECRET, "idempotency_key": "k"}
    assert client.post("/api/v1/annotations", json=marker).status_code == 201
    return client


@pytest.fixture
def globex(new_client: Callable[..., KeyClient]) -> KeyClient:
    return new_client("globex", "admin")


READING = [
    "/api/v1/jobs",
    "/api/v1/jobs/backup",
    "/api/v1/jobs/backup/runs",
    "/api/v1/runs/1",
    "/api/v1/keys",
    "/api/v1/annotations",
    "/api/v1/annotations/1",
    "/api/v1/annotations/prefixes",
]


def _visible(client: KeyClient) -> list[Any]:
    return [client.get(path).json for path in [*READING, f"/api/v1/jobs/{SECRET}"]]


@pytest.mark.parametrize("path", [*READING, f"/api/v1/jobs/{SECRET}", f"/api/v1/jobs/{SECRET}/runs"])
def test_another_organization_sees_nothing(acme: KeyClient, globex: KeyClient, path: str) -> None:
    answer = globex.get(path)
    unknown = path.replace("backup", "unknown").replace(SECRET, "unknown")
    assert answer.status_code == globex.get(unknown).status_code
    assert SECRET not in answer.get_data(as_text=True).replace(f"named '{SECRET}'", "")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/api/v1/jobs/backup"),
        ("DELETE", "/api/v1/keys/1"),
        ("DELETE", "/api/v1/keys/2"),
        ("DELETE", "/api/v1/annotations/1"),
        ("PUT", "/api/v1/annotations/1"),
        ("POST", "/api/v1/annotations"),
        *(("POST", f"/api/v1/heartbeat/backup/{kind}") for kind in ("start", "log", "end", "ping")),
    ],
)
def test_another_organization_changes_nothing(acme: KeyClient, globex: KeyClient, method: str, path: str) -> None:
    acme.get("/api/v1/keys")
    before = _visible(acme)
    body = {"json": {"name": "x", "title": "x", "idempotency_key": "k"}} if "annotations" in path else {}
    globex.open(path, method=method, headers={"Idempotency-Key": "k"}, **body)
    assert _visible(acme) == before


@pytest.mark.parametrize("source", ["runs", "events", "logs", "jobs", "annotations"])
def test_queries_read_only_the_rows_of_their_own_organization(
    acme: KeyClient, globex: KeyClient, clock: Clock, source: str
) -> None:
    clock.advance(seconds=1)
    query = {"query": f"SELECT count(*) FROM {source} LAST 1d"}
    counts = [client.post("/api/v1/dsl", json=query).json for client in (acme, globex)]
    assert counts[0] is not None
    assert counts[1] is not None
    assert counts[0]["rows"][0][0] > 0
    assert counts[1]["rows"] == [[0]]


def test_each_organization_numbers_its_own_runs(acme: KeyClient, globex: KeyClient) -> None:
    first = globex.post("/api/v1/heartbeat/backup/ping").json
    assert first is not None
    assert first["run_id"] == 1


def test_each_organization_has_its_own_file(acme: KeyClient, globex: KeyClient, app: Flask) -> None:
    globex.post("/api/v1/heartbeat/backup/ping")
    contents = {path.name: path.read_bytes() for path in Path(app.instance_path, "tenants").iterdir()}
    assert {"acme.1.db", "globex.2.db"} <= contents.keys()
    assert any(SECRET.encode() in content for name, content in contents.items() if name.startswith("acme"))
    assert not any(SECRET.encode() in content for name, content in contents.items() if name.startswith("globex"))
