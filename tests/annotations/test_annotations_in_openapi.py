"""What the OpenAPI document says of the annotations."""

import pytest
from flask import Flask

from tests.conftest import KeyClient

PATH = "/api/v1/annotations"


@pytest.mark.parametrize(
    ("path", "method", "statuses"),
    [
        (PATH, "get", {"200"}),
        (PATH, "post", {"200", "201"}),
        (f"{PATH}/prefixes", "get", {"200"}),
        (f"{PATH}/{{annotation_id}}", "get", {"200", "304", "404"}),
        (f"{PATH}/{{annotation_id}}", "put", {"200", "404", "412"}),
        (f"{PATH}/{{annotation_id}}", "delete", {"204", "404", "412"}),
    ],
)
def test_every_route_has_a_summary_its_answers_and_an_example(
    app: Flask, path: str, method: str, statuses: set[str]
) -> None:
    operation = KeyClient(app).get("/api/openapi.json").json["paths"][path][method]
    assert operation["summary"]
    assert statuses <= set(operation["responses"])
    for status in statuses & {"200", "201"}:
        assert operation["responses"][status]["content"]["application/json"]["example"]
