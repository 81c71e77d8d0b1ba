"""The heartbeat endpoint over HTTP: methods, paths, sizes of bodies, errors, metrics."""

import sqlite3
from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from obs.services import services
from obs.storage.databases import Org
from tests.conftest import ACME, KeyClient
from tests.heartbeat.conftest import BASE

Rows = Callable[..., list[dict[str, Any]]]
MB = 1 << 20
PING, START, PING_BY_NAME = f"{BASE}/backup/ping", f"{BASE}/backup/start", f"{BASE}/ping"


@pytest.mark.parametrize(
    ("method", "path"),
    [(method, PING) for method in ("PUT", "PATCH", "DELETE", "TRACE", "BREW")]
    + [
        (method, path)
        for method in ("GET", "HEAD", "PUT", "PATCH", "DELETE")
        for path in (START, f"{BASE}/backup/log", f"{BASE}/backup/end", PING_BY_NAME, f"{BASE}/end")
    ],
)
def test_a_method_that_is_not_supported(client: KeyClient, rows: Rows, method: str, path: str) -> None:
    allowed = "GET, HEAD, OPTIONS, POST" if path == PING else "OPTIONS, POST"
    response = client.open(path, method=method)
    assert response.status_code == 405
    assert response.headers["Allow"] == allowed
    assert response.headers["Content-Type"] == "application/json"
    if method == "HEAD":
        assert response.data == b""
    else:
        assert response.json == {
            "code": 405,
            "status": "Method Not Allowed",
            "error": "method_not_allowed",
            "message": f"{path} does not support {method}.",
            "hint": f"Supported methods: {allowed}.",
        }
    assert rows("SELECT * FROM jobs") == []


@pytest.mark.parametrize(("path", "allowed"), [(PING, "GET, HEAD, OPTIONS, POST"), (START, "OPTIONS, POST")])
def test_options_lists_the_methods_without_a_key(app: Flask, path: str, allowed: str) -> None:
    response = app.test_client().options(path)
    assert (response.status_code, response.headers["Allow"], response.data) == (200, allowed, b"")


def test_head_on_a_ping_records_it_as_get_does(client: KeyClient, rows: Rows) -> None:
    response = client.head(PING)
    assert (response.status_code, response.data) == (200, b"")
    assert int(response.headers["Content-Length"]) > 0
    assert len(rows("SELECT id FROM events")) == 1


@pytest.mark.parametrize("path", [PING, START])
def test_every_method_in_allow_is_supported(client: KeyClient, path: str) -> None:
    for method in client.put(path).headers["Allow"].split(", "):
        assert client.open(path, method=method).status_code == 200


@pytest.mark.parametrize(
    "path", ["", "/", "/pong", "/backup/pong", "/backup/ping/", "/backup", "/Ping", "/backup/PING"]
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_a_path_that_is_not_a_heartbeat_does_not_exist(client: KeyClient, method: str, path: str) -> None:
    response = client.open(BASE + path, method=method)
    assert response.status_code == 404
    assert response.json is not None
    assert response.json["error"] == "not_found"


@pytest.mark.parametrize("path", ["/photos/backup/start/end", "//a//ping", "/start/ping"])
def test_only_the_last_part_of_a_path_is_the_kind(client: KeyClient, rows: Rows, path: str) -> None:
    assert client.post(BASE + path).status_code == 200
    assert rows("SELECT name FROM jobs") == [{"name": path[1:].rpartition("/")[0]}]


def test_heartbeats_do_not_reach_flask(app: Flask, client: KeyClient) -> None:
    reached: list[str] = []
    app.before_request(lambda: reached.append("flask"))
    assert client.post(PING).status_code == 200
    assert client.put(PING).status_code == 405
    assert client.post(f"{BASE}/backup/log", data="m" * 100_000).status_code == 413
    assert reached == []
    assert client.post(f"{BASE}/backup/pong").status_code == 404
    assert reached == ["flask"]


class Body:
    """A body sent with a Content-Length or in chunks."""

    def __init__(self, size: int, *, chunked: bool) -> None:
        self.stream = BytesIO(b"x" * size)
        self.environ: dict[str, Any] = {"wsgi.input": self.stream, "CONTENT_TYPE": "application/json"}
        self.environ |= {"HTTP_TRANSFER_ENCODING": "chunked"} if chunked else {"CONTENT_LENGTH": str(size)}

    def post(self, client: KeyClient, path: str) -> TestResponse:
        return client.post(path, environ_overrides=self.environ)


@pytest.mark.parametrize(
    ("path", "size", "chunked", "status", "error"),
    [
        (f"{BASE}/backup/log", 10_240, False, 200, None),
        (f"{BASE}/backup/log", 10_240, True, 200, None),
        (f"{BASE}/backup/log", 10_241, False, 413, "log_too_large"),
        (f"{BASE}/backup/log", 10_241, True, 413, "log_too_large"),
        (f"{BASE}/backup/log", MB, True, 413, "log_too_large"),
        (f"{BASE}/backup/log", MB + 1, False, 413, "log_too_large"),
        (f"{BASE}/backup/log", MB + 1, True, 413, "body_too_large"),
        (f"{BASE}/log", MB, False, 400, "invalid_json"),
        (f"{BASE}/log", MB, True, 400, "invalid_json"),
        (f"{BASE}/log", MB + 1, False, 413, "body_too_large"),
        (f"{BASE}/log", MB + 1, True, 413, "body_too_large"),
    ],
)
def test_the_size_of_a_body(
    client: KeyClient, rows: Rows, path: str, size: int, chunked: bool, status: int, error: str | None
) -> None:
    response = Body(size, chunked=chunked).post(client, path)
    assert response.status_code == status
    assert response.json is not None
    assert response.json.get("error") == error
    if error == "log_too_large":
        assert response.json["message"].startswith(f"The message has {size} bytes; the limit is 10240 bytes.")
    elif error == "body_too_large":
        size_sent = f"more than {MB}" if chunked else size
        assert response.json["message"] == f"The body has {size_sent} bytes; the limit is {MB} bytes."
    assert len(rows("SELECT id FROM events")) == (1 if status == 200 else 0)


@pytest.mark.parametrize("path", [f"{BASE}/backup/log", f"{BASE}/log"])
def test_a_body_that_is_far_too_large_is_not_read(client: KeyClient, path: str) -> None:
    body = Body(2 * MB, chunked=False)
    assert body.post(client, path).status_code == 413
    assert body.stream.tell() == 0


@pytest.mark.parametrize("path", [f"{BASE}/backup/log", f"{BASE}/log"])
def test_a_body_is_read_only_with_a_valid_key(client: KeyClient, path: str) -> None:
    client.key = "obs_acme_" + "0" * 32
    for chunked in (False, True):
        body = Body(100, chunked=chunked)
        assert body.post(client, path).status_code == 401
        assert body.stream.tell() == 0


@pytest.mark.parametrize("length", ["-1", "many", "1_0", "+5", " 5", "\u00b2"])
@pytest.mark.parametrize("path", [PING, PING_BY_NAME])
def test_an_invalid_content_length(client: KeyClient, rows: Rows, path: str, length: str) -> None:
    response = client.post(path, environ_overrides={"CONTENT_LENGTH": length})
    assert response.status_code == 400
    assert response.json is not None
    assert response.json["error"] == "bad_request"
    assert length in response.json["message"]
    assert rows("SELECT * FROM jobs") == []


def test_json_in_chunks(client: KeyClient, rows: Rows) -> None:
    body = Body(0, chunked=True)
    body.stream.write(b'{"name": "backup"}')
    body.stream.seek(0)
    assert body.post(client, PING_BY_NAME).status_code == 200
    assert rows("SELECT name FROM jobs") == [{"name": "backup"}]


def test_an_internal_error_has_the_standard_format(
    app: Flask, client: KeyClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(db: sqlite3.Connection, *rest: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("obs.ingest.endpoint.record", broken)
    response = client.post(PING)
    assert response.status_code == 500
    assert response.json is not None
    assert response.json["error"] == "internal_error"
    assert response.headers["X-Request-Id"] == response.json["request_id"]
    assert response.json["request_id"] in caplog.text
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize(
    ("method", "path", "name", "status"),
    [
        ("POST", PING, "heartbeats.ping_by_path", 200),
        ("GET", PING, "heartbeats.ping_by_path", 200),
        ("POST", PING_BY_NAME, "heartbeats.ping_by_body", 422),
        ("PUT", START, "heartbeats.start_by_path", 405),
    ],
)
def test_the_metrics_name_the_operation(client: KeyClient, method: str, path: str, name: str, status: int) -> None:
    client.open(path, method=method)
    expected = f'obs_http_request_duration_seconds_count{{endpoint="{name}",status="{status}"}} 1.0'
    assert expected in client.get("/metrics").text


def test_a_heartbeat_wakes_the_learner_of_its_organization(app: Flask, client: KeyClient) -> None:
    queue = services(app).heartbeats.queue
    queue.take([ACME, Org("globex", 2)], 0)
    queue.swept(ACME, None)
    queue.swept(Org("globex", 2), None)
    client.put(PING)
    client.post(PING, headers={"X-API-Key": "none"})
    assert queue.take([ACME, Org("globex", 2)], 0) == []
    client.post(PING)
    assert queue.take([ACME, Org("globex", 2)], 0) == [ACME]
