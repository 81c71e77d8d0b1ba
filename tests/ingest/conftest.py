"""Fixtures: heartbeats in either form, clients of other monitors, and the rows that they leave."""

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from obs.services import services
from obs.tenancy import service
from tests.conftest import ACME, KeyClient
from tests.heartbeat.conftest import by_body, by_path, rows, run_of, send

__all__ = ["by_body", "by_path", "rows", "run_of", "send"]
Rows = Callable[..., list[dict[str, Any]]]
ID = "6ba7b810-9dad-41d1-80b4-00c04fd430c8"
RUNS = "SELECT status, exit_code, duration_ms, run_id FROM runs ORDER BY id"
LOG = "SELECT kind, message FROM events ORDER BY id"


@pytest.fixture
def web(app: Flask) -> FlaskClient:
    """A client without a key."""
    return app.test_client()


@pytest.fixture
def ping_key(app: Flask, client: KeyClient) -> str:
    return service.create_key(services(app).tenancy, ACME, "pings", ["ping"]).key


@pytest.fixture
def ping_url(client: KeyClient) -> str:
    """The path of the ping URL of the job ``backup``, which has one run."""
    client.post("/api/v1/heartbeat/backup/ping")
    url: str = client.get("/api/v1/jobs/backup").json["ping_url"]
    return url[url.index("/ping/") :]


def name_and_statuses(rows: Rows) -> list[tuple[str, int]]:
    found = rows("SELECT name, status FROM runs JOIN jobs ON jobs.id = job_id ORDER BY runs.id")
    return [(row["name"], row["status"]) for row in found]
