"""The heartbeat operations in the OpenAPI document, from the table of fields and the words in openapi.toml."""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from apispec import APISpec

from obs.api import SECURITY
from obs.client.run import MOST_MESSAGE_BYTES
from obs.heartbeat.names import JOB_NAME
from obs.heartbeat.runs import KINDS, Kind
from obs.ingest.fields import FIELDS_OF, HEADERS, LONGEST_HEADER, Field
from obs.ingest.native import METHODS, PREFIX
from obs.ingest.protocol import SCOPE

_TAG = "heartbeats"
_WORDS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_ANY_TYPE = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}  # for generated clients
_ERRORS = ("413", "422", "429", "503", "507", "default")


def describe(spec: APISpec) -> None:
    spec.tag({"name": _TAG, "description": _WORDS["tag"]})
    name = _parameter("path", "job_name", {"type": "string", **JOB_NAME}, _WORDS["name"], required=True)
    for kind in Kind:
        event, fields = KINDS[kind], FIELDS_OF[kind]
        summary = _WORDS["summaries"][event].format(kilobytes=MOST_MESSAGE_BYTES // 1024)
        spec.components.schema(event.capitalize(), _body_schema(kind))
        message, others = fields["message"], [field for field in fields.values() if field.name != "message"]
        text = {"text/plain": {"schema": message.schema, "example": message.example}, **_ANY_TYPE}
        by_path = {"post": _operation(f"{event}Heartbeat", summary, others, text)}
        if "GET" in METHODS[kind]:
            by_path["get"] = _operation(f"{event}HeartbeatByGet", _WORDS["get"], fields.values())
        spec.path(path=f"{PREFIX}{{job_name}}/{event}", operations=by_path, parameters=[name])
        body = {"application/json": {"schema": {"$ref": f"#/components/schemas/{event.capitalize()}"}}}
        by_body = _operation(f"{event}HeartbeatByBody", summary, (), body, is_required=True)
        spec.path(path=f"{PREFIX}{event}", operations={"post": by_body})


def _parameter(place: str, name: str, schema: Mapping[str, Any], description: str, **more: Any) -> dict[str, Any]:
    return {"in": place, "name": name, "schema": dict(schema), "description": description, **more}


def _operation(
    name: str, summary: str, query: Iterable[Field], body: Mapping[str, Any] | None = None, *, is_required: bool = False
) -> dict[str, Any]:
    """An operation with the fields in `query` as parameters, and with the contents of its body, if it has one."""
    text = {"type": "string", "maxLength": LONGEST_HEADER}
    operation = {
        "operationId": name,
        "summary": summary,
        "tags": [_TAG],
        "security": SECURITY,
        "x-scope": SCOPE,
        "parameters": [
            *(_parameter("header", header, text, _WORDS["headers"][header]) for header in HEADERS),
            *(_parameter("query", field.name, field.schema, field.help, example=field.example) for field in query),
        ],
        "responses": {"200": "Recorded", "414": "LongURL", **dict.fromkeys(_ERRORS, "DEFAULT_ERROR")},
    }
    return operation if body is None else {**operation, "requestBody": {"required": is_required, "content": body}}


def _body_schema(kind: Kind) -> dict[str, Any]:
    name = {"type": "string", **JOB_NAME, "description": _WORDS["name"], "example": "nightly-backup"}
    required, properties = ["name"], dict[str, Any](name=name)
    for field in FIELDS_OF[kind].values():
        schema = properties[field.name] = {**field.schema, "description": field.help, "example": field.example}
        if kind in field.required:
            required.append(field.name)
        else:  # null is the same as not sent
            schema["type"] = [schema["type"], "null"]
            if "enum" in schema:
                schema["enum"] = [*schema["enum"], None]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
