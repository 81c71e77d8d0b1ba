"""Every error response under /api/ has the same shape, whatever its cause."""

import logging
import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from werkzeug.http import HTTP_STATUS_CODES
from werkzeug.test import TestResponse

from obs.errors import ERROR_CODES
from obs.heartbeat.runs import KINDS
from obs.services import services
from obs.tenancy.auth import Tenancy
from tests.conftest import ACME, Clock, KeyClient

OPTIONAL = {"errors": dict, "hint": str, "request_id": str}
PING = "/api/v1/heartbeat/backup/ping"
VALUES = {"job_name": "backup", "version": "v3"}
OPEN_TO_ALL = ("/api/docs", "/api/openapi.json")


def assert_shape(answer: TestResponse, status: int, code: str | None = None) -> dict[str, Any]:
    """Check every field of an error response; returns its JSON object."""
    body = answer.json
    assert isinstance(body, dict), answer.get_data()
    assert answer.status_code == status, body
    assert answer.mimetype == "application/json"
    assert (body["code"], body["status"]) == (status, HTTP_STATUS_CODES[status])
    assert ERROR_CODES[body["error"]][0] == status
    assert code is None or body["error"] == code
    assert body["message"]
    assert isinstance(body["message"], str)
    for name in body.keys() - {"code", "status", "error", "message"}:
        assert isinstance(body[name], OPTIONAL[name])
        assert body[name]
    return body


def _routes(app: Flask) -> Iterator[tuple[str, str]]:
    """The method and path of every route under /api/ that needs a key."""
    for rule in app.url_map.iter_rules():
        if rule.rule.startswith("/api/") and not rule.rule.startswith(OPEN_TO_ALL):
            path = re.sub(r"<(?:[^:<>]*:)?(\w+)>", lambda found: VALUES.get(found[1], "1"), rule.rule)
            for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}:
                yield method, path
    for kind in KINDS:  # handled before Flask
        yield "POST", f"/api/v1/heartbeat/backup/{kind}"
        yield "POST", f"/api/v1/heartbeat/{kind}"
    yield "GET", PING


def test_routes_are_found(app: Flask) -> None:
    found = set(_routes(app))
    assert {("POST", PING), ("GET", PING), ("GET", "/api/v1/jobs/backup/runs"), ("DELETE", "/api/v1/keys/1")} <= found
    assert len(found) >= 17


def test_every_route_rejects_a_request_without_a_valid_key(make_app: Callable[..., Flask]) -> None:
    app = make_app(WRONG_KEYS_PER_MINUTE=1_000)
    for method, path in _routes(app):
        for headers in ({}, {"X-API-Key": ""}, {"X-API-Key": "obs_acme_" + "0" * 32}):
            answer = app.test_client().open(path, method=method, headers=headers)
            assert_shape(answer, 401, "unauthorized")
            assert answer.headers["WWW-Authenticate"] == "ApiKey"


def test_every_route_rejects_the_ingest_address_of_another_organization(
    app: Flask, new_client: Callable[..., KeyClient]
) -> None:
    client = new_client("acme", "admin")
    for method, path in _routes(app):
        assert_shape(client.open(f"/in/globex{path}", method=method), 403, "wrong_organization")


def test_every_route_rejects_unsupported_methods(app: Flask, new_client: Callable[..., KeyClient]) -> None:
    client = new_client("acme", "admin")
    for path in {path for _, path in _routes(app)}:
        answer = client.open(path, method="TRACE")
        assert_shape(answer, 405, "method_not_allowed")
        taken = {method for method, other in _routes(app) if other == path}
        assert taken <= set(re.split(", *", answer.headers["Allow"]))


def test_every_route_with_a_body_rejects_anything_but_a_json_object(
    app: Flask, new_client: Callable[..., KeyClient]
) -> None:
    client = new_client("acme", "admin")
    with_json = {
        (method, path)
        for method, path in _routes(app)
        if method in ("POST", "PUT", "PATCH") and not re.search(r"/heartbeat/backup/|/(test|retry|acknowledge)$", path)
    }
    assert ("POST", "/api/v1/keys") in with_json
    for method, path in with_json:
        send = {"path": path, "method": method}
        assert_shape(client.open(data=b"{", content_type="application/json", **send), 400, "invalid_json")
        assert_shape(client.open(data=b"{}", content_type="text/plain", **send), 415, "unsupported_media_type")
        if path.startswith("/api/v1/"):  # fields of other APIs that are not known here are not used
            assert_shape(client.open(json={"no such field": 1}, **send), 422, "invalid_field")
        big = b'{"name": "' + b"x" * (1 << 20) + b'"}'
        assert_shape(client.open(data=big, content_type="application/json", **send), 413, "body_too_large")


def test_every_route_reports_a_missing_file(
    app: Flask, new_client: Callable[..., KeyClient], caplog: pytest.LogCaptureFixture
) -> None:
    client = new_client("acme", "admin")
    tenancy: Tenancy = services(app).tenancy
    tenancy.databases.path(ACME).unlink()
    for method, path in _routes(app):
        if method in ("GET", "DELETE") and not path.startswith(("/api/v1/keys", "/api/v1/me", "/api/v1/channels")):
            prefix = "?prefix=a" if (method, path) == ("DELETE", "/api/v1/jobs") else ""
            answer = client.open(path + prefix, method=method)
            assert_shape(answer, 503, "storage_unavailable")
            assert int(answer.headers["Retry-After"]) > 0
    answer = client.post(PING)
    assert_shape(answer, 503, "storage_unavailable")
    assert "acme.1.db: The file acme.1.db is missing or empty." in caplog.text
    assert len(caplog.records) <= 2, "a problem is logged once, not at every request"


def _of_another_format(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[44:48] = b"\0\0\0\x7f"
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [lambda path: path.write_bytes(b""), _of_another_format])
def test_a_damaged_file_is_neither_used_nor_replaced(
    app: Flask, make_app: Callable[..., Flask], new_client: Callable[..., KeyClient], damage: Callable[[Path], object]
) -> None:
    assert new_client().post(PING).status_code == 200
    path = services(app).tenancy.databases.path(ACME)
    services(app).tenancy.close()
    damage(path)
    content = path.read_bytes()
    client = new_client(app=make_app())
    assert_shape(client.post(PING), 503, "storage_unavailable")
    assert_shape(client.get("/api/v1/jobs"), 503, "storage_unavailable")
    assert (client.get("/readyz").json or {})["unusable_organizations"] == 1
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "path", ["/api/", "/api/v1", "/api/v1/nothing", "/api/v2/jobs", "/api/v1/jobs/", "/api/v1//jobs"]
)
def test_unknown_paths(client: KeyClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code in (404, 405, 422)
    assert_shape(answer, answer.status_code)


def test_an_unknown_path_is_404_without_a_key(app: Flask) -> None:
    body = assert_shape(app.test_client().get("/api/v1/nothing"), 404, "not_found")
    assert "/api/v1/nothing" in body["message"]


def test_an_unexpected_error_has_a_request_id_and_no_stack_trace(
    app: Flask, client: KeyClient, caplog: pytest.LogCaptureFixture
) -> None:
    tenancy: Tenancy = services(app).tenancy
    tenancy.databases.write(ACME, lambda db: db.execute("ALTER TABLE jobs RENAME TO elsewhere"))
    with caplog.at_level(logging.ERROR):
        answer = client.post(PING)
    body = assert_shape(answer, 500, "internal_error")
    assert body["request_id"] in body["message"]
    assert answer.headers["X-Request-Id"] == body["request_id"]
    assert "Traceback" not in answer.get_data(as_text=True)
    assert "no such table" not in answer.get_data(as_text=True)
    assert body["request_id"] in caplog.text
    assert "no such table" in caplog.text


def test_a_locked_file(make_app: Callable[..., Flask], new_client: Callable[..., KeyClient]) -> None:
    app = make_app(BUSY_SECONDS=0)
    client = new_client("acme", app=app)
    assert client.post(PING).status_code == 200
    holder = sqlite3.connect(services(app).tenancy.databases.path(ACME), isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    answer = client.post(PING)
    assert_shape(answer, 503, "storage_busy")
    assert int(answer.headers["Retry-After"]) > 0
    holder.execute("ROLLBACK")
    holder.close()
    assert client.post(PING).status_code == 200


def test_a_service_that_is_shutting_down(app: Flask, client: KeyClient) -> None:
    services(app).tenancy.databases.close()
    answer = client.post(PING)
    assert_shape(answer, 503, "shutting_down")
    assert int(answer.headers["Retry-After"]) > 0


def test_a_key_that_lacks_the_scope(new_client: Callable[..., KeyClient]) -> None:
    body = assert_shape(new_client("acme", "query:read").post(PING), 403, "missing_scope")
    assert "heartbeat:write" in body["message"]


def test_an_invalid_field_is_named_with_its_place(client: KeyClient, clock: Clock) -> None:
    body = assert_shape(client.post(f"{PING}?exitcode=1"), 422, "invalid_field")
    assert body["errors"] == {"query": {"exitcode": ["Unknown field."]}}
    assert "exitcode" in body["message"]


def test_outside_the_api_an_error_is_a_page(app: Flask) -> None:
    answer = app.test_client().get("/nothing")
    assert (answer.status_code, answer.mimetype) == (404, "text/html")


def test_errors_at_an_ingest_address_have_the_same_shape(client: KeyClient) -> None:
    assert_shape(client.get("/in/acme/api/v1/nothing"), 404, "not_found")
    assert_shape(client.put("/in/acme/api/v1/jobs"), 405, "method_not_allowed")
