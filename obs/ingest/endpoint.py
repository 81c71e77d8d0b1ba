"""The heartbeat endpoint: a WSGI middleware before Flask that handles every request under the heartbeat paths.

Routing, a request context and a response object in Flask cost five times as much as a heartbeat itself.
"""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any

from obs.api import ENDPOINT
from obs.errors import ServiceError, internal_error
from obs.heartbeat.pins import Pin
from obs.heartbeat.runs import Kind
from obs.heartbeat.service import SweepQueue
from obs.heartbeat.store import jobs
from obs.heartbeat.store.record import JobHeartbeat, Recorded, record
from obs.ingest.healthchecks import HealthchecksProtocol
from obs.ingest.native import NativeProtocol
from obs.ingest.protocol import HeartbeatProtocol, PingUuid, Response, Route, Submission
from obs.ingest.sentry import SentryProtocol
from obs.ingest.uptime_kuma import UptimeKumaProtocol
from obs.server.middleware import Wsgi, utf8
from obs.tenancy.auth import Caller, Tenancy

_NOT_STORED = "(This message was not stored: the disk or the quota of the organization is full.)"
_STATUS_LINES = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}
PROTOCOLS = (NativeProtocol(), HealthchecksProtocol(), UptimeKumaProtocol(), SentryProtocol())
"""Every heartbeat protocol, in the order in which a path is matched."""


class HeartbeatEndpoint:
    """Handles heartbeats of every protocol. A success response means that the heartbeats are on disk."""

    def __init__(self, tenancy: Tenancy, protocols: Sequence[HeartbeatProtocol], queue: SweepQueue) -> None:
        self._tenancy, self._protocols, self._queue = tenancy, tuple(protocols), queue

    def answer_heartbeats(self, flask: Wsgi, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """The layer that handles the heartbeat paths, and passes every other request to `flask`."""
        method, path = environ["REQUEST_METHOD"].upper(), environ["PATH_INFO"]
        asked = "GET" if method == "HEAD" else method  # where GET is supported, HEAD is
        for protocol in self._protocols:
            if (route := protocol.route(path)) is not None:
                environ[ENDPOINT] = route.endpoint
                status, headers, body = self._respond(protocol, route, asked, environ)
                start_response(_STATUS_LINES[status], [*headers.items(), ("Content-Length", str(len(body)))])
                return [b"" if method == "HEAD" else body]
        return flask(environ, start_response)

    def _respond(self, protocol: HeartbeatProtocol, route: Route, method: str, environ: Mapping[str, Any]) -> Response:
        try:
            if route.methods and method not in route.methods:
                return _other_method(route, method, environ["PATH_INFO"])
            submission = route.read(self._tenancy, environ)
            return protocol.respond(submission, self._record(submission))
        except ServiceError as error:
            return protocol.refuse(error)
        except Exception as error:  # noqa: BLE001 - logged; the client receives the request id
            return protocol.refuse(internal_error(error, method, environ["PATH_INFO"]))

    def _record(self, submission: Submission) -> Sequence[Recorded]:
        """Record the heartbeats; they are on disk when this returns. Raises ServiceError (429, 503, 507)."""
        caller, heartbeats, pins = submission
        if not heartbeats:
            return ()
        count = sum(1 + len(sent.heartbeat.output) for sent in heartbeats)
        if not caller.tenancy.quotas.take_heartbeats(caller.org, count):
            heartbeats = [_without_message(caller, sent) for sent in heartbeats]
        try:
            recorded = caller.write(partial(_record_all, heartbeats=heartbeats, pins=pins, caller=caller))
        except ServiceError as error:
            if error.status == 503:
                self._queue.note_refused(caller.org, caller.now_ms)
            raise
        self._queue.note(caller.org)
        return recorded


def _without_message(caller: Caller, sent: JobHeartbeat) -> JobHeartbeat:
    """What to record of a heartbeat without space for messages. Raises ServiceError (507) for a log message."""
    if sent.heartbeat.kind is Kind.LOG:  # if another one were refused, the job would seem to have failed
        caller.tenancy.quotas.check_storage(caller.org)
    message = sent.heartbeat.message and _NOT_STORED
    return sent._replace(heartbeat=replace(sent.heartbeat, message=message, output=()))


def _record_all(
    db: sqlite3.Connection, heartbeats: Sequence[JobHeartbeat], pins: Mapping[str, Pin], caller: Caller
) -> list[Recorded]:
    check_jobs, recorded = partial(caller.tenancy.quotas.check_new, caller.org, "max_jobs"), []
    for sent in heartbeats:
        name = jobs.name_of_uuid(db, sent.job) if isinstance(sent.job, PingUuid) else sent.job
        if name is None:
            raise ServiceError("not_found")
        recorded.append(record(db, sent._replace(job=name), caller.now_ms, check_jobs))
    for name, pin in pins.items():
        jobs.suggest_pin(db, name, pin)
    return recorded


def _other_method(route: Route, method: str, path: str) -> Response:
    """The response to OPTIONS. Raises ServiceError (405) for every other method."""
    allowed = ", ".join(sorted((*route.methods, "OPTIONS", *(("HEAD",) if "GET" in route.methods else ()))))
    if method == "OPTIONS":
        return Response(200, {"Allow": allowed, "Cache-Control": "no-store"}, b"")
    message = f"{utf8(path)} does not support {method}."
    raise ServiceError("method_not_allowed", message, hint=f"Supported methods: {allowed}.", headers={"Allow": allowed})
