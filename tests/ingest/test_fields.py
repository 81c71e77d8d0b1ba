"""The table of fields: both forms accept and reject the same values, and the OpenAPI document states the bounds."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from flask import Flask

from obs.heartbeat.runs import KINDS, STATUSES, Kind
from obs.ingest.fields import FIELDS, HEADERS, Field
from tests.conftest import KeyClient
from tests.heartbeat.conftest import BASE, Sender

Rows = Callable[..., list[dict[str, Any]]]


class Value(NamedTuple):
    """A value of a field, and the status of the response to it."""

    field: str
    sent: Any
    status: int = 200


VALUES = [
    Value("run_id", "", 422),
    Value("run_id", "a"),
    Value("run_id", "ü" * 64),
    Value("run_id", "a" * 65, 422),
    Value("message", ""),
    Value("message", "a" * 10_240),
    Value("message", "a" * 10_241, 413),
    Value("message", "ü" * 5_121, 413),
    Value("time", "2026-06-21T10:10:00Z"),
    Value("time", "2026-06-21T10:10:00.001Z", 422),
    Value("time", "2026-03-23T10:00:00Z"),
    Value("time", "2026-03-23T09:59:59.999Z", 422),
    Value("time", "yesterday", 422),
    *(Value("status", word) for word in ("ok", "success", "fail", "failed", "error")),
    Value("status", "OK", 422),
    Value("status", "lost", 422),
    Value("status", "", 422),
    Value("exit_code", -1, 422),
    Value("exit_code", 0),
    Value("exit_code", 255),
    Value("exit_code", 256, 422),
    Value("exit_code", "", 422),
    Value("exit_code", "one", 422),
    Value("exit_code", 1.5, 422),
    Value("duration_ms", -1, 422),
    Value("duration_ms", 0),
    Value("duration_ms", 2_678_400_000),
    Value("duration_ms", 2_678_400_001, 422),
    Value("duration_ms", 10**40, 422),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{value.field} {str(value.sent)[:30]}")
def test_both_forms_agree_on_every_value(by_path: Sender, by_body: Sender, rows: Rows, value: Value) -> None:
    responses = [by_path("end", "one", **{value.field: value.sent}), by_body("end", "two", **{value.field: value.sent})]
    assert [response.status_code for response in responses] == [value.status] * 2
    assert len(rows("SELECT id FROM events")) == (2 if value.status == 200 else 0)
    if value.status == 422:
        errors = [response.json["errors"] for response in responses]
        assert errors[0]["query"] == errors[1]["json"]
        assert errors[0]["query"].keys() == {value.field}


def test_the_body_form_accepts_query_parameters(client: KeyClient, rows: Rows) -> None:
    path, body = "/api/v1/heartbeat/end", {"name": "backup", "duration_ms": 5}
    assert client.post(f"{path}?exit_code=2", json=body).json["run_status"] == "failed"
    assert rows("SELECT exit_code, duration_ms FROM runs") == [{"exit_code": 2, "duration_ms": 5}]
    assert client.post(f"{path}?exit_code=300", json=body).status_code == 422
    twice = client.post(f"{path}?duration_ms=6", json=body)
    errors = {"query": {"duration_ms": ["The body has another value."]}}
    assert (twice.status_code, twice.json["errors"]) == (422, errors)
    assert client.post(f"{path}?name=other", json=body).status_code == 422
    assert client.post(f"{path}?duration_ms=5&exit_code=0", json={**body, "exit_code": None}).status_code == 200
    assert client.post("/api/v1/heartbeat/log?message=text", json={"name": "backup"}).status_code == 200
    assert len(rows("SELECT id FROM runs")) == 2


@pytest.mark.parametrize("value", [Value("exit_code", "1"), Value("duration_ms", "1"), Value("exit_code", True)])
def test_a_number_in_json_is_not_text(by_body: Sender, value: Value) -> None:
    assert by_body("end", **{value.field: value.sent}).status_code == 422


def test_a_whole_number_in_json_may_have_a_fraction_of_zero(by_body: Sender, rows: Rows) -> None:
    by_body("start")
    assert by_body("end", exit_code=5.0, duration_ms=1500.0).status_code == 200
    assert rows("SELECT exit_code, duration_ms FROM runs") == [{"exit_code": 5, "duration_ms": 1500}]


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_null_in_json_is_the_same_as_not_sent(by_body: Sender, field: Field) -> None:
    sent: dict[str, Any] = {field.name: None}
    assert by_body("end", **sent).status_code == 200


def test_every_field_has_a_value_at_and_beyond_its_bounds() -> None:
    for field in FIELDS:
        statuses = {value.status == 200 for value in VALUES if value.field == field.name}
        assert statuses == {True, False}, field.name


@pytest.fixture
def document(app: Flask) -> dict[str, Any]:
    found = app.test_client().get("/api/openapi.json").json
    assert isinstance(found, dict)
    return found


def _parameters(operation: dict[str, Any], place: str) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in operation["parameters"] if one["in"] == place}


@pytest.mark.parametrize("kind", Kind, ids=KINDS)
@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_the_document_states_every_field_in_both_forms(document: dict[str, Any], kind: Kind, field: Field) -> None:
    bounds = field.schema
    by_path = document["paths"][f"{BASE}/{{job_name}}/{KINDS[kind]}"]
    query = _parameters(by_path["post"], "query")
    json_form = document["components"]["schemas"][KINDS[kind].capitalize()]
    if kind not in field.kinds:
        assert field.name not in query
        assert field.name not in json_form["properties"]
        return

    described = json_form["properties"][field.name]
    required = kind in field.required
    assert (field.name in json_form["required"]) == required
    assert described["description"] == field.help
    assert described["example"] == field.example
    assert described["type"] == (bounds["type"] if required else [bounds["type"], "null"])
    for name in bounds.keys() - {"type", "enum"}:
        assert described[name] == bounds[name]
    assert [word for word in described.get("enum", []) if word] == bounds.get("enum", [])

    if field.name == "message":
        content = by_path["post"]["requestBody"]["content"]
        assert content.keys() == {"text/plain", "application/octet-stream"}
        assert content["text/plain"] == {"schema": bounds, "example": field.example}
    else:
        assert query[field.name]["schema"] == bounds
        assert query[field.name]["description"] == field.help
    if "get" in by_path:
        assert _parameters(by_path["get"], "query")[field.name]["schema"] == bounds


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(("post", f"{BASE}/{{job_name}}/{event}") for event in KINDS),
        *(("post", f"{BASE}/{event}") for event in KINDS),
        ("get", f"{BASE}/{{job_name}}/ping"),
    ],
)
def test_the_document_describes_every_operation(document: dict[str, Any], method: str, path: str) -> None:
    operation = document["paths"][path][method]
    assert operation["summary"]
    assert operation["tags"] == ["heartbeats"]
    assert (operation["x-scope"], operation["security"]) == ("heartbeat:write", [{"ApiKey": []}, {"Bearer": []}])
    assert {"200", "413", "422", "503", "default"} <= operation["responses"].keys()
    assert operation["responses"]["200"] == {"$ref": "#/components/responses/Recorded"}
    answer = document["components"]["responses"]["Recorded"]["content"]["application/json"]
    recorded = document["components"]["schemas"][answer["schema"]["$ref"].rpartition("/")[2]]
    assert {"job", "event", "run_id", "run_status", "time"} == recorded["properties"].keys()
    assert recorded["properties"]["event"]["enum"] == list(KINDS)
    assert recorded["properties"]["run_status"]["anyOf"][0]["enum"] == list(STATUSES)
    assert all("example" in described for described in recorded["properties"].values())
    assert _parameters(operation, "header").keys() == set(HEADERS)
    assert {one["schema"]["maxLength"] for one in _parameters(operation, "header").values()} == {200}
    if "{job_name}" in path:
        (name,) = document["paths"][path]["parameters"]
        assert (name["in"], name["name"], name["schema"]["maxLength"]) == ("path", "job_name", 200)
        assert ("requestBody" in operation) == (method == "post")
    else:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        body = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        assert body["properties"]["name"]["maxLength"] == 200
        assert "name" in body["required"]
        assert body["additionalProperties"] is False


def test_the_response_has_the_documented_fields(document: dict[str, Any], client: KeyClient) -> None:
    response = client.post(f"{BASE}/backup/ping").json
    assert response is not None
    assert response.keys() == document["components"]["schemas"]["Recorded"]["properties"].keys()
