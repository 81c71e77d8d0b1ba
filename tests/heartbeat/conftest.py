"""Heartbeats in either path form, and what became of them: over HTTP, and as rows of the organization's file."""

from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from obs.services import services
from obs.tenancy import auth
from tests.conftest import ACME, KeyClient

BASE = "/api/v1/heartbeat"


class Sender:
    """Sends heartbeats in one path form: ``send("end", "backup", status="fail")``."""

    def __init__(self, client: KeyClient, form: str) -> None:
        self.client = client
        self.form = form

    def __call__(self, kind: str, job: str = "backup", headers: dict[str, str] | None = None, **fields: Any) -> Any:
        if self.form == "path":
            url = f"{BASE}/{quote(job, safe='/')}/{kind}?{urlencode(fields)}"
            return self.client.post(url, headers=headers)
        return self.client.post(f"{BASE}/{kind}", json={"name": job, **fields}, headers=headers)


@pytest.fixture(params=["path", "body"])
def send(request: pytest.FixtureRequest, client: KeyClient) -> Sender:
    """Sends heartbeats of ``acme``; a test that asks for it is run once for each path form."""
    return Sender(client, request.param)


@pytest.fixture
def by_path(client: KeyClient) -> Sender:
    return Sender(client, "path")


@pytest.fixture
def by_body(client: KeyClient) -> Sender:
    return Sender(client, "body")


@pytest.fixture
def rows(app: Flask) -> Callable[..., list[dict[str, Any]]]:
    """Reads rows of the file of ``acme``: ``rows("SELECT * FROM runs")``."""
    tenancy: auth.Tenancy = services(app).tenancy

    def read(sql: str, *values: Any) -> list[dict[str, Any]]:
        with tenancy.databases.read(ACME) as db:
            return [dict(row) for row in db.execute(sql, values)]

    return read


@pytest.fixture
def sweep(app: Flask) -> Callable[[], None]:
    """Does at once what the service does every second: learn, and flag what did not come."""
    return partial(services(app).background.run, "sweep")


@pytest.fixture
def run_of(client: KeyClient) -> Callable[[TestResponse], dict[str, Any]]:
    """The run, with its timeline, that the answer to a heartbeat speaks of."""

    def get(answer: TestResponse) -> dict[str, Any]:
        assert answer.json is not None
        found = client.get(f"/api/v1/runs/{answer.json['run_id']}")
        assert found.status_code == 200, found.json
        assert isinstance(found.json, dict)
        return found.json

    return get
