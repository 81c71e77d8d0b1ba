"""What all operations of the API have in common."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema_rs
import pytest
from flask import Flask

from tests.conftest import KeyClient

PING = "/api/v1/heartbeat/backup/ping"


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
@pytest.mark.parametrize("path", [PING, "/api/v1/jobs"])
def test_a_key_can_be_a_bearer_token(app: Flask, client: KeyClient, path: str, scheme: str) -> None:
    web = app.test_client()
    assert web.get(path, headers={"Authorization": f"{scheme} {client.key}"}).status_code == 200
    for wrong in (f"Basic {client.key}", str(client.key), scheme, f"{scheme} wrong"):
        assert web.get(path, headers={"Authorization": wrong}).status_code == 401


def test_the_api_key_header_comes_first(app: Flask, client: KeyClient, new_client: Callable[..., KeyClient]) -> None:
    headers = {"X-API-Key": str(client.key), "Authorization": "Basic dXNlcjpwYXNz"}
    assert app.test_client().get(PING, headers=headers).status_code == 200


def test_every_response_has_its_own_request_id(client: KeyClient) -> None:
    paths = (PING, "/api/v1/jobs", "/api/v1/nothing", "/sign-in", "/healthz", f"{PING}?status=x", "/ping/wrong/x")
    ids = [client.get(path).headers.get_all("X-Request-Id") for path in paths]
    assert all(len(found) == 1 and re.fullmatch("[0-9a-f]{32}", found[0]) for found in ids)
    assert len({found[0] for found in ids}) == len(paths)


def test_every_operation_has_a_readable_id(app: Flask) -> None:
    document = app.test_client().get("/api/openapi.json").json
    assert document is not None
    operations = [
        operation
        for path in document["paths"].values()
        for method, operation in path.items()
        if method in ("get", "post", "put", "patch", "delete")
    ]
    ids = [operation["operationId"] for operation in operations]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-z]+([A-Z][a-z]+)*", one) for one in ids), ids
    assert {"createAnnotation", "listJobs", "startHeartbeat", "pingHeartbeatByGet"} <= set(ids)
    assert all(operation["security"] == [{"ApiKey": []}, {"Bearer": []}] for operation in operations)
    assert document["info"]["license"]["identifier"] == "MIT"
    assert document["servers"][0]["url"] == "/"


def test_patterns_in_the_document_are_anchored_and_mean_the_same_elsewhere(app: Flask) -> None:
    """JSON Schema searches for a pattern anywhere, in the dialect of JavaScript, which has no \\Z and no flags."""
    patterns: set[str] = set()

    def collect(found: object) -> object:
        if isinstance(found, dict) and isinstance(found.get("pattern"), str):
            patterns.add(found["pattern"])
        return found

    json.loads(app.test_client().get("/api/openapi.json").data, object_hook=collect)
    (of_uuids,) = (pattern for pattern in patterns if "{8}" in pattern)
    assert all(re.fullmatch(r"\^.*\$(\(\?!\\n\))?", pattern) for pattern in patterns)
    for uuid in ("6ba7b810-9dad-41d1-80b4-00c04fd430c8", "6BA7B810-9DAD-41D1-80B4-00C04FD430C8"):
        assert re.search(of_uuids, uuid)
        assert not re.search(of_uuids, f"x{uuid}")


METHODS = ("get", "post", "put", "patch", "delete")


def test_the_document_is_complete(app: Flask) -> None:
    """What generators of clients reject: a response without a description, a tag that is not described."""
    document: Any = app.test_client().get("/api/openapi.json").json
    described = {tag["name"] for tag in document["tags"] if tag["description"]}
    operations = [path[method] for path in document["paths"].values() for method in METHODS if method in path]
    assert len(operations) > 40
    for operation in operations:
        assert operation["summary"]
        assert set(operation["tags"]) <= described
        for status, response in operation["responses"].items():
            assert "$ref" in response or response["description"], (operation["operationId"], status)


def examples(found: Any) -> Iterator[tuple[dict[str, Any], Any]]:
    """All schemas in a part of the document that have an example, with the example."""
    if isinstance(found, dict):
        if "example" in found and not isinstance(found["example"], dict):
            yield found.get("schema", found), found["example"]
        for value in found.values():
            yield from examples(value)
    elif isinstance(found, list):
        for value in found:
            yield from examples(value)


def test_every_example_in_the_document_is_valid(app: Flask) -> None:
    document: Any = app.test_client().get("/api/openapi.json").json
    found = list(examples(document))
    assert len(found) > 100
    for schema, example in found:
        whole = {**schema, "components": document["components"]}
        assert jsonschema_rs.validator_for(whole, validate_formats=True).is_valid(example), (schema, example)


def test_an_error_that_names_a_limit_is_as_documented(
    make_app: Callable[..., Flask], new_client: Callable[..., KeyClient]
) -> None:
    app = make_app(MAX_JOBS=1, MAX_HEARTBEATS_PER_MINUTE=2)
    client = new_client("acme", app=app)
    assert client.post(PING).status_code == 200
    refused = [
        client.post("/api/v1/dsl", json={"query": "SELECT count(*) FROM runs EVERY 1s LAST 90d"}),
        client.post("/api/v1/heartbeat/second/ping"),
        client.post(PING),
    ]
    assert [(one.status_code, one.json["limit"]) for one in refused] == [
        (422, "max_rows"),
        (507, "max_jobs"),
        (429, "max_heartbeats_per_minute"),
    ]
    document: Any = app.test_client().get("/api/openapi.json").json
    schema = {"$ref": "#/components/schemas/Error", "components": document["components"]}
    for one in refused:
        jsonschema_rs.validate(schema, one.json)
