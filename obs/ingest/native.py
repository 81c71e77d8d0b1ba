"""The heartbeat API of obs. In the path form, the name of the job is in the path, the fields are query parameters, and
the body is the message: /nightly-backup/end?status=success. In the body form, a JSON object has the name and the rest.
"""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

from obs.api import json_object
from obs.errors import ServiceError, invalid_field
from obs.heartbeat.names import valid_name
from obs.heartbeat.runs import KINDS, STATUSES, Heartbeat, Kind
from obs.heartbeat.store.record import JobHeartbeat, Recorded
from obs.ingest import fields
from obs.ingest.protocol import SCOPE, HeartbeatProtocol, Response, Route, Submission
from obs.server.bodies import read_body
from obs.tenancy.auth import Caller, Tenancy, authenticate
from obs.times import format_ms

PREFIX = "/api/v1/heartbeat/"
METHODS = {**dict.fromkeys(Kind, ("POST",)), Kind.PING: ("GET", "POST")}
"""The methods of each heartbeat in the path form. A ping is also a GET, for clients that can only fetch a URL."""

_HEADERS = {"Content-Type": "application/json", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class NativeProtocol(HeartbeatProtocol):
    def __init__(self) -> None:
        self._routes: dict[tuple[str, str], Route] = {}
        for kind, event in zip(Kind, KINDS, strict=True):
            by_path, by_body = partial(self._read_path, kind), partial(self._read_body, kind)
            self._routes[event, "by_path"] = Route(f"heartbeats.{event}_by_path", METHODS[kind], by_path)
            self._routes[event, "by_body"] = Route(f"heartbeats.{event}_by_body", ("POST",), by_body)

    def route(self, path: str) -> Route | None:
        if not path.startswith(PREFIX):
            return None
        _, slash, event = path[len(PREFIX) :].rpartition("/")
        return self._routes.get((event, "by_path" if slash else "by_body"))

    def respond(self, submission: Submission, recorded: Sequence[Recorded]) -> Response:
        (sent,) = submission.heartbeats
        (done,) = recorded
        answer = {
            "job": sent.job,
            "event": KINDS[sent.heartbeat.kind],
            "run_id": done.run_id,
            "run_status": None if done.run_status is None else STATUSES[done.run_status],
            "time": format_ms(done.time),
        }
        return Response(200, _HEADERS, json.dumps(answer).encode())

    def refuse(self, error: ServiceError) -> Response:
        return Response(error.status, {**_HEADERS, **error.headers}, json.dumps(error.body()).encode())

    def _read_path(self, kind: Kind, tenancy: Tenancy, environ: Mapping[str, Any]) -> Submission:
        caller = authenticate(tenancy, environ, SCOPE)
        body = read_body(environ, fields.message_too_large)
        name = fields.read_name_in_path(environ["PATH_INFO"][len(PREFIX) : -len(KINDS[kind]) - 1])
        values = fields.read_values(kind, _query_parameters(environ), "query", caller)
        if body and "message" in values:
            raise invalid_field("query", "message", "Sent in the body as well.")
        if body or (kind is Kind.LOG and "message" not in values):
            values["message"] = fields.read_message(body)
        return _submission(caller, name, kind, values, environ)

    def _read_body(self, kind: Kind, tenancy: Tenancy, environ: Mapping[str, Any]) -> Submission:
        caller = authenticate(tenancy, environ, SCOPE)
        sent = json_object(read_body(environ), environ.get("CONTENT_TYPE") or "")
        if "name" not in sent:
            raise invalid_field("json", "name", fields.MISSING)
        name = valid_name(sent.pop("name"), "json", "name")
        values = fields.read_values(kind, sent, "json", caller)
        others = fields.read_values(kind, _query_parameters(environ), "query", caller)  # of which none is to get lost
        if differing := {field for field in values.keys() & others.keys() if values[field] != others[field]}:
            raise invalid_field("query", min(differing), "The body has another value.")
        values |= others
        for missing in (each for each in fields.FIELDS if kind in each.required and each.name not in values):
            raise invalid_field("json", missing.name, fields.MISSING)
        return _submission(caller, name, kind, values, environ)


def _submission(caller: Caller, name: str, kind: Kind, sent: dict[str, Any], environ: Mapping[str, Any]) -> Submission:
    heartbeat = Heartbeat(kind, sent.pop("time", caller.now_ms), **sent)
    key = fields.read_header(environ, "Idempotency-Key")
    return Submission(caller, (JobHeartbeat(name, heartbeat, fields.read_attribution(environ), key),))


def _query_parameters(environ: Mapping[str, Any]) -> dict[str, str]:
    """The parameters in the query string. Raises ServiceError (422) for one that appears twice."""
    parameters: dict[str, str] = {}
    for name, value in parse_qsl(fields.read_query(environ), keep_blank_values=True):
        if name in parameters:
            raise invalid_field("query", name, "Appears more than once.")
        parameters[name] = value
    return parameters
