"""Heartbeats in both request forms, for what `endpoint` does not answer itself."""

from typing import Any

from flask import Response, request

from obs.api import Blueprint
from obs.errors import ServiceError
from obs.heartbeat.runs import Kind
from obs.ingest import reading, schemas
from obs.ingest.intake import ANSWER_HEADERS, SCOPE
from obs.services import services
from obs.tenancy.auth import caller, requires

blp = Blueprint(
    "heartbeats",
    __name__,
    url_prefix="/api/v1/heartbeat",
    description="What a scheduled job sends. The job's name stands in the path, or in the body as `name`.",
)

_HEADERS = [
    {
        "in": "header",
        "name": name,
        "schema": {"type": "string", "maxLength": reading.LONGEST_HEADER},
        "description": help_text,
    }
    for name, help_text in (
        ("X-Platform-Host", "The host the job runs on."),
        ("X-Platform-Service", "The service the job belongs to."),
        ("X-Platform-Project", "The project of that service."),
        ("Idempotency-Key", "A call repeated with the same key within 24 hours is one event."),
    )
]
_QUERY = {
    "run_id": (
        {"type": "string", "minLength": 1, "maxLength": reading.LONGEST_RUN_ID},
        "The client's own id of the run.",
    ),
    "time": ({"type": "string", "format": "date-time"}, "When it happened, if not now."),
    "status": ({"type": "string", "enum": list(reading.OUTCOMES)}, "How the run went."),
    "exit_code": (
        {"type": "integer", "minimum": 0, "maximum": reading.MOST_EXIT_CODE},
        "Without a status, other than 0 is a failure.",
    ),
    "duration_ms": (
        {"type": "integer", "minimum": 0, "maximum": reading.MOST_DURATION_MS},
        "Milliseconds; without it, the time since the start.",
    ),
}


_BODIES = {
    Kind.START: schemas.HeartbeatSchema,
    Kind.LOG: schemas.LogSchema,
    Kind.END: schemas.EndSchema,
    Kind.PING: schemas.HeartbeatSchema,
}


def _documented(kind: Kind, *, in_path: bool, with_body: bool = True) -> Any:
    """What the OpenAPI document says of a heartbeat, which flask-smorest cannot read off a plain view."""
    end_only = () if kind is Kind.END else ("status", "exit_code", "duration_ms")
    doc: dict[str, Any] = {
        "parameters": [
            *_HEADERS,
            *(
                {"in": "query", "name": name, "schema": schema, "description": text}
                for name, (schema, text) in _QUERY.items()
                if in_path and name not in end_only
            ),
        ],
        "responses": {
            "200": {
                "description": "Recorded, and on disk.",
                "content": {
                    "application/json": {
                        "schema": schemas.RecordedSchema,
                        "example": {
                            "job": "nightly-backup",
                            "event": kind.name.lower(),
                            "run_id": 42,
                            "run_status": "open" if kind in (Kind.START, Kind.LOG) else "success",
                            "time": "2026-06-21T10:00:00.000Z",
                        },
                    }
                },
            },
            "413": {"$ref": "#/components/responses/DEFAULT_ERROR"},
            "422": {"$ref": "#/components/responses/DEFAULT_ERROR"},
            "503": {"$ref": "#/components/responses/DEFAULT_ERROR"},
            "default": {"$ref": "#/components/responses/DEFAULT_ERROR"},
        },
    }
    if not in_path:
        doc["requestBody"] = {"required": True, "content": {"application/json": {"schema": _BODIES[kind]}}}
    elif with_body:
        text = {"schema": {"type": "string", "maxLength": reading.MOST_MESSAGE_BYTES}, "example": "copied 412 files"}
        doc["requestBody"] = {"required": False, "content": {"text/plain": text}}
    return blp.doc(**doc)


@blp.route("/<job_name:job_name>/start", methods=["POST"])
@requires(SCOPE)
@_documented(Kind.START, in_path=True)
def start_by_path(job_name: str) -> Response:
    """A run begins"""
    return _by_path(Kind.START, job_name)


@blp.route("/<job_name:job_name>/log", methods=["POST"])
@requires(SCOPE)
@_documented(Kind.LOG, in_path=True)
def log_by_path(job_name: str) -> Response:
    """A message of the run; the body is its text, at most 10 KB"""
    return _by_path(Kind.LOG, job_name)


@blp.route("/<job_name:job_name>/end", methods=["POST"])
@requires(SCOPE)
@_documented(Kind.END, in_path=True)
def end_by_path(job_name: str) -> Response:
    """A run is over"""
    return _by_path(Kind.END, job_name)


@blp.route("/<job_name:job_name>/ping", methods=["POST"])
@requires(SCOPE)
@_documented(Kind.PING, in_path=True)
def ping_by_path(job_name: str) -> Response:
    """It ran: a whole run in one call, or a sign of life of the open run"""
    return _by_path(Kind.PING, job_name)


@blp.route("/<job_name:job_name>/ping", methods=["GET"])
@requires(SCOPE)
@_documented(Kind.PING, in_path=True, with_body=False)
def ping_by_get(job_name: str) -> Response:
    """The same as POST, for clients that can only GET"""
    if request.method == "HEAD":
        raise ServiceError(
            "method_not_allowed", "A ping is GET or POST.", hint="It takes GET, POST.", headers={"Allow": "GET, POST"}
        )
    return _by_path(Kind.PING, job_name)


@blp.route("/start", methods=["POST"])
@requires(SCOPE)
@_documented(Kind.START, in_path=False)
def start_by_body() -> Response:
    """A run begins"""
    return _by_body(Kind.START)


@blp.route("/log", methods=["POST"])
@requires(SCOPE)
@_documented(Kind.LOG, in_path=False)
def log_by_body() -> Response:
    """A message of the run"""
    return _by_body(Kind.LOG)


@blp.route("/end", methods=["POST"])
@requires(SCOPE)
@_documented(Kind.END, in_path=False)
def end_by_body() -> Response:
    """A run is over"""
    return _by_body(Kind.END)


@blp.route("/ping", methods=["POST"])
@requires(SCOPE)
@_documented(Kind.PING, in_path=False)
def ping_by_body() -> Response:
    """It ran: a whole run in one call, or a sign of life of the open run"""
    return _by_body(Kind.PING)


def _by_path(kind: Kind, job_name: str) -> Response:
    if (request.content_length or 0) > reading.MOST_MESSAGE_BYTES:
        raise reading.too_large(request.content_length or 0)
    return _taken(kind, job_name)


def _by_body(kind: Kind) -> Response:
    return _taken(kind, None)


def _taken(kind: Kind, job_name: str | None) -> Response:
    answer = services().ingest.intake.take(caller(), request.environ, request.get_data(cache=False), kind, job_name)
    return Response(answer, 200, ANSWER_HEADERS)
