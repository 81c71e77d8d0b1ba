"""A protocol has its own paths, credentials and responses, and can record several heartbeats of one request."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pytest
from flask import Flask
from werkzeug.test import Client, TestResponse

from obs.errors import ServiceError
from obs.heartbeat.runs import Heartbeat, Kind
from obs.heartbeat.store.record import JobHeartbeat, Recorded, record
from obs.ingest.endpoint import HeartbeatEndpoint
from obs.ingest.protocol import Response, Route, Submission
from obs.server.bodies import read_body
from obs.services import services
from obs.tenancy.auth import Tenancy, authenticate
from tests.conftest import KeyClient
from tests.heartbeat.conftest import BASE

Rows = Callable[..., list[dict[str, Any]]]


class LinesProtocol:
    """``/lines/KEY/JOB``, any method: each line of the body is a log message, and the response is text."""

    def route(self, path: str) -> Route | None:
        match path.split("/"):
            case ["", "lines", key, job]:
                return Route("lines", (), partial(self._read, key, job))
        return None

    def respond(self, submission: Submission, recorded: Sequence[Recorded]) -> Response:
        return Response(201, {"Content-Type": "text/plain"}, f"{len(recorded)} lines".encode())

    def refuse(self, error: ServiceError) -> Response:
        return Response(error.status, {"Content-Type": "text/plain"}, error.error.encode())

    def _read(self, key: str, job: str, tenancy: Tenancy, environ: Mapping[str, Any]) -> Submission:
        caller = authenticate(tenancy, {**environ, "HTTP_X_API_KEY": key}, "heartbeat:write")
        lines = read_body(environ).decode().splitlines()
        heartbeats = [Heartbeat(Kind.LOG, caller.now_ms, message=line) for line in lines]
        return Submission(caller, [JobHeartbeat(job, heartbeat) for heartbeat in heartbeats])


@pytest.fixture
def send_lines(app: Flask, client: KeyClient) -> Callable[..., TestResponse]:
    tenancy = services(app).tenancy
    endpoint = HeartbeatEndpoint(tenancy, [LinesProtocol()], services(app).heartbeats.queue)
    lines = Client(partial(endpoint.answer_heartbeats, app.wsgi_app))

    def post(body: bytes, key: str | None = client.key, method: str = "POST") -> TestResponse:
        return lines.open(f"/lines/{key}/backup", method=method, data=body)

    return post


def test_a_key_in_the_path_and_a_response_in_text(send_lines: Callable[..., TestResponse], rows: Rows) -> None:
    response = send_lines(b"one\ntwo\nthree")
    assert (response.status_code, response.text, response.mimetype) == (201, "3 lines", "text/plain")
    assert [row["message"] for row in rows("SELECT message FROM events ORDER BY id")] == ["one", "two", "three"]


def test_errors_have_the_format_of_the_protocol(send_lines: Callable[..., TestResponse], rows: Rows) -> None:
    response = send_lines(b"one", key="unknown")
    assert (response.status_code, response.text, response.mimetype) == (401, "unauthorized", "text/plain")
    assert send_lines(b"x" * ((1 << 20) + 1)).text == "body_too_large"
    assert rows("SELECT * FROM jobs") == []


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "OPTIONS", "BREW"])
def test_a_route_without_methods_takes_every_method(
    send_lines: Callable[..., TestResponse], rows: Rows, method: str
) -> None:
    response = send_lines(b"one", method=method)
    assert response.status_code == 201
    assert response.headers["Content-Length"] == "7"
    assert response.text == ("" if method == "HEAD" else "1 lines")
    assert len(rows("SELECT id FROM events")) == 1


def test_all_heartbeats_of_a_request_are_recorded_or_none(
    send_lines: Callable[..., TestResponse], rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(db: Any, sent: JobHeartbeat, *rest: Any) -> Recorded:
        if sent.heartbeat.message == "two":
            raise ServiceError("storage_full")
        return record(db, sent, *rest)

    monkeypatch.setattr("obs.ingest.endpoint.record", broken)
    assert send_lines(b"one\ntwo").status_code == 503
    assert rows("SELECT * FROM events") == []


def test_a_request_without_heartbeats_succeeds(send_lines: Callable[..., TestResponse], rows: Rows) -> None:
    assert send_lines(b"").text == "0 lines"
    assert rows("SELECT * FROM jobs") == []


def test_other_paths_go_on_to_the_next_application(app: Flask, client: KeyClient) -> None:
    tenancy = services(app).tenancy
    endpoint = HeartbeatEndpoint(tenancy, [LinesProtocol()], services(app).heartbeats.queue)
    passed_on = Client(partial(endpoint.answer_heartbeats, app.wsgi_app))
    response = passed_on.post(f"{BASE}/backup/ping", headers={"X-API-Key": str(client.key)})
    assert json.loads(response.text)["job"] == "backup"
