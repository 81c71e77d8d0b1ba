"""What the OpenAPI document says of the annotations."""

import pytest
from flask import Flask

from obs.times import format_ms
from tests.conftest import Clock, KeyClient

PATH = "/api/v1/annotations"


@pytest.mark.parametrize(
    ("path", "method", "statuses"),
    [
        (PATH, "get", {"200"}),
        (PATH, "post", {"200", "201"}),
        (f"{PATH}/prefixes", "get", {"200"}),
        (f"{PATH}/{{annotation_id}}", "get", {"200", "404"}),
        (f"{PATH}/{{annotation_id}}", "put", {"200", "404", "412"}),
        (f"{PATH}/{{annotation_id}}", "delete", {"204", "404", "412"}),
    ],
)
def test_every_route_has_a_summary_and_its_answers(app: Flask, path: str, method: str, statuses: set[str]) -> None:
    operation = KeyClient(app).get("/api/openapi.json").json["paths"][path][method]
    assert operation["summary"]
    assert statuses <= set(operation["responses"])


def test_the_examples_of_the_fields_are_a_valid_request(client: KeyClient, clock: Clock) -> None:
    schemas = client.get("/api/openapi.json").json["components"]["schemas"]
    new, changes, stored = (
        {
            name: field.get("example", format_ms(clock.now_ms) if field.get("format") == "date-time" else None)
            for name, field in schemas[schema]["properties"].items()
        }
        for schema in ("AnnotationRequest", "AnnotationChanges", "Annotation")
    )
    created = client.post(PATH, json=new)
    assert created.status_code == 201
    assert {**created.json, "id": 42, "by_service": None} == stored
    assert client.put(f"{PATH}/1", json=changes).status_code == 200
