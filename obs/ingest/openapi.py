"""The heartbeat operations in the OpenAPI document, generated from the table of fields."""

from collections.abc import Mapping
from typing import Any

from apispec import APISpec

from obs.api import SECURITY
from obs.client.run import MOST_MESSAGE_BYTES
from obs.heartbeat.names import JOB_NAME
from obs.heartbeat.runs import KINDS, STATUSES, Kind
from obs.ingest.fields import FIELDS_OF, HEADERS, LONGEST_HEADER, Field
from obs.ingest.native import PREFIX, methods
from obs.ingest.protocol import SCOPE

_TAG = "heartbeats"
_NAME_HELP = "The name of the job."
_NAME_EXAMPLE = "nightly-backup"
_SUMMARIES: Mapping[Kind, str] = {
    Kind.START: "Report the start of a run",
    Kind.LOG: f"Add a log message of at most {MOST_MESSAGE_BYTES // 1024} KB",
    Kind.END: "Report the end of a run",
    Kind.PING: "Report a complete run, or that the open run is alive",
}
_SUMMARY_OF_GET = "The same as POST, for clients that can only send GET"
_RECORDED = {
    "type": "object",
    "properties": {
        "job": {"type": "string", "example": _NAME_EXAMPLE},
        "event": {"type": "string", "enum": list(KINDS), "example": "ping"},
        "run_id": {
            "type": ["integer", "null"],
            "description": "The number of the run that the heartbeat belongs to.",
            "example": 42,
        },
        "run_status": {"type": ["string", "null"], "enum": [*STATUSES, None], "example": "success"},
        "time": {"type": "string", "format": "date-time", "example": "2026-06-21T10:00:00.000Z"},
    },
    "additionalProperties": False,
}


def describe(spec: APISpec) -> None:
    spec.tag({"name": _TAG, "description": "Sent by scheduled jobs. The job's name is in the path or in the body."})
    spec.components.schema("Recorded", _RECORDED)
    name = _parameter("path", "job_name", {"type": "string", **JOB_NAME}, _NAME_HELP, required=True)
    for kind in Kind:
        event = KINDS[kind]
        by_path = {method.lower(): _path_operation(kind, method) for method in methods(kind, in_path=True)}
        spec.components.schema(event.capitalize(), _body_schema(kind))
        spec.path(path=f"{PREFIX}{{job_name}}/{event}", operations=by_path, parameters=[name])
        schema = {"$ref": f"#/components/schemas/{event.capitalize()}"}
        by_body = _operation(_SUMMARIES[kind])
        by_body["operationId"] = f"{event}HeartbeatByBody"
        by_body["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
        spec.path(path=f"{PREFIX}{event}", operations={"post": by_body})


def _parameter(place: str, name: str, schema: Mapping[str, Any], description: str, **more: Any) -> dict[str, Any]:
    return {"in": place, "name": name, "schema": dict(schema), "description": description, **more}


def _path_operation(kind: Kind, method: str) -> dict[str, Any]:
    """The operation of the path form: fields are query parameters, and the message is the body unless it is a GET."""
    body_is_message = method != "GET"
    operation = _operation(_SUMMARIES[kind] if body_is_message else _SUMMARY_OF_GET)
    operation["operationId"] = f"{KINDS[kind]}Heartbeat" + ("" if body_is_message else "ByGet")
    operation["parameters"] += [
        _parameter("query", name, field.schema, field.help, example=field.example)
        for name, field in FIELDS_OF[kind].items()
        if name != "message" or not body_is_message
    ]
    if body_is_message:
        message = FIELDS_OF[kind]["message"]
        text = {"schema": message.schema, "example": message.example}
        operation["requestBody"] = {"required": False, "content": {"text/plain": text}}
    return operation


def _operation(summary: str) -> dict[str, Any]:
    """What both forms have in common."""
    answer = {"schema": {"$ref": "#/components/schemas/Recorded"}}
    text = {"type": "string", "maxLength": LONGEST_HEADER}
    return {
        "summary": summary,
        "tags": [_TAG],
        "security": SECURITY,
        "x-scope": SCOPE,
        "parameters": [_parameter("header", header.name, text, header.help) for header in HEADERS],
        "responses": {
            "200": {"description": "The heartbeat is on disk.", "content": {"application/json": answer}},
            **dict.fromkeys(("413", "422", "429", "503", "507", "default"), "DEFAULT_ERROR"),
        },
    }


def _body_schema(kind: Kind) -> dict[str, Any]:
    fields = FIELDS_OF[kind].values()
    return {
        "type": "object",
        "properties": {
            "name": {"type": "string", **JOB_NAME, "description": _NAME_HELP, "example": _NAME_EXAMPLE},
            **{field.name: _property(field, required=kind in field.required) for field in fields},
        },
        "required": ["name", *(field.name for field in fields if kind in field.required)],
        "additionalProperties": False,
    }


def _property(field: Field, *, required: bool) -> dict[str, Any]:
    """The JSON schema of a field in the body form; null is the same as not sent."""
    schema = dict(field.schema)
    if not required:
        schema["type"] = [schema["type"], "null"]
        if "enum" in schema:
            schema["enum"] = [*schema["enum"], None]
    return {**schema, "description": field.help, "example": field.example}
