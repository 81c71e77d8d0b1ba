"""Scopes: every route needs one, and admin includes all of them."""

import re
from collections.abc import Callable

import pytest
from flask import Flask

from obs.tenancy.keys import ANY, SCOPES
from tests.conftest import KeyClient

HEARTBEAT = "/api/v1/heartbeat"
ROUTES = [
    *(("POST", f"{HEARTBEAT}/backup/{kind}", "heartbeat:write") for kind in ("start", "log", "end", "ping")),
    ("GET", f"{HEARTBEAT}/backup/ping", "heartbeat:write"),
    *(("POST", f"{HEARTBEAT}/{kind}", "heartbeat:write") for kind in ("start", "log", "end", "ping")),
    ("GET", "/api/v1/jobs", "query:read"),
    ("GET", "/api/v1/jobs/backup", "query:read"),
    ("GET", "/api/v1/jobs/backup/runs", "query:read"),
    ("GET", "/api/v1/runs/1", "query:read"),
    ("DELETE", "/api/v1/jobs/backup", "admin"),
    ("GET", "/api/v1/keys", "admin"),
    ("POST", "/api/v1/keys", "admin"),
    ("DELETE", "/api/v1/keys/999", "admin"),
]


@pytest.mark.parametrize("scope", SCOPES)
def test_a_scope_allows_its_routes_and_no_others(new_client: Callable[..., KeyClient], scope: str) -> None:
    client = new_client("acme", scope)
    for method, path, needed in ROUTES:
        answer = client.open(path, method=method)
        if scope in (needed, "admin"):
            assert answer.status_code not in (401, 403), (method, path)
        else:
            assert answer.status_code == 403, (method, path)
            assert answer.json is not None
            assert answer.json["error"] == "missing_scope"
            assert needed in answer.json["message"]


@pytest.mark.parametrize("scope", SCOPES)
def test_a_key_can_ask_what_it_may_do(new_client: Callable[..., KeyClient], scope: str) -> None:
    answer = new_client("acme", scope).get("/api/v1/me").json
    assert answer["organization"] == "acme"
    assert answer["key"]["scopes"] == [scope]
    assert "key" not in answer["key"]


def test_a_ping_key_can_only_ping(new_client: Callable[..., KeyClient]) -> None:
    refused = new_client("acme", "ping").get("/api/v1/me")
    assert refused.status_code == 403
    assert refused.json["message"] == "The key lacks the scope query:read."
    assert "--scope query:read" in refused.json["hint"]


def test_the_default_scopes_are_all_but_admin(client: KeyClient) -> None:
    for method, path, needed in ROUTES:
        refused = client.open(path, method=method).status_code == 403
        assert refused == (needed == "admin"), (method, path)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/api/openapi.json", "/api/docs/"])
def test_public_paths_need_no_key(app: Flask, path: str) -> None:
    assert app.test_client().get(path).status_code in (200, 503)


def test_the_document_names_the_scope_of_every_operation(app: Flask) -> None:
    document = app.test_client().get("/api/openapi.json").json
    assert document is not None
    for method, path, needed in ROUTES:
        shape = path.replace("/backup", "/{job_name}").replace("/runs/1", "/runs/{number}").replace("/999", "/{key_id}")
        assert document["paths"][shape][method.lower()]["x-scope"] == needed


def test_every_operation_rejects_a_key_with_all_other_scopes(app: Flask, new_client: Callable[..., KeyClient]) -> None:
    document = app.test_client().get("/api/openapi.json").json
    assert document is not None
    clients = {
        scope: new_client("acme", *(other for other in SCOPES if other not in (scope, "admin"))) for scope in SCOPES
    }
    checked = 0
    for shape, operations in document["paths"].items():
        for method, operation in operations.items():
            if method in ("get", "post", "put", "patch", "delete") and operation["x-scope"] != ANY:
                path = re.sub(r"{\w+}", "1", shape.replace("{version}", "v3"))
                assert clients[operation["x-scope"]].open(path, method=method).status_code == 403, (method, shape)
                checked += 1
    assert checked >= len(ROUTES)
