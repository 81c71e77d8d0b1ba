"""The ping protocol of Healthchecks: /ping/UUID, or /ping/KEY/nightly-backup.

Alone it reports success. It may be followed by ``/start``, ``/fail``, ``/log`` or an exit status. The method makes no
difference. The body, of any type, is the output of the job.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs
from uuid import UUID

from obs.client.run import messages
from obs.errors import ServiceError, invalid_field
from obs.heartbeat.names import UUID_PATTERN
from obs.heartbeat.runs import Heartbeat, Kind, Status
from obs.heartbeat.store.record import JobHeartbeat, Recorded
from obs.ingest.fields import read_attribution, read_name_in_path
from obs.ingest.protocol import HeartbeatProtocol, PingUuid, Response, Route, Submission
from obs.server.bodies import read_end
from obs.tenancy.auth import Tenancy, authenticate_ping

PREFIX = "/ping/"
MOST_OUTPUT_BYTES = 100_000  # how much of the body is kept: its end, because that is where errors are

_ACTIONS: Mapping[str, tuple[Kind, Status | None]] = {
    "": (Kind.END, Status.SUCCESS),
    "start": (Kind.START, None),
    "fail": (Kind.END, Status.FAILED),
    "log": (Kind.LOG, None),
}
_EXIT_STATUS = re.compile(r"-?[0-9]{1,10}")
_RUN_ID = re.compile(r"[0-9a-f]{32}", re.IGNORECASE)
_HEADERS = {
    "Content-Type": "text/plain; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Access-Control-Allow-Origin": "*",
    "Ping-Body-Limit": str(MOST_OUTPUT_BYTES),
}


class HealthchecksProtocol(HeartbeatProtocol):
    def route(self, path: str) -> Route | None:
        return Route("healthchecks.ping", (), self._read) if path.startswith(PREFIX) else None

    def respond(self, submission: Submission, recorded: Sequence[Recorded]) -> Response:
        status, body = (201, b"Created") if recorded[0].job_created else (200, b"OK")
        return Response(status, _HEADERS, body)

    def refuse(self, error: ServiceError) -> Response:
        known = {400: b"invalid url format", 404: b"not found", 422: b"invalid url format"}
        status = 400 if error.status == 422 else error.status
        return Response(status, {**_HEADERS, **error.headers}, known.get(error.status, error.message.encode()))

    def _read(self, tenancy: Tenancy, environ: Mapping[str, Any]) -> Submission:
        secret, _, rest = environ["PATH_INFO"][len(PREFIX) :].removesuffix("/").partition("/")
        if not UUID_PATTERN.fullmatch(secret):
            name, _, action = rest.rpartition("/")
            if "/" not in rest or (action not in _ACTIONS and not _EXIT_STATUS.fullmatch(action)):
                name, action = rest, ""
            job = read_name_in_path(name)
        else:
            secret = job = PingUuid(secret.lower())
            action = rest
        caller = authenticate_ping(tenancy, environ, secret, is_uuid=isinstance(job, PingUuid))
        output, left_out = read_end(environ, MOST_OUTPUT_BYTES)
        heartbeat = _heartbeat(action, caller.now_ms, _run_id(environ.get("QUERY_STRING") or ""), output, left_out)
        return Submission(caller, (JobHeartbeat(job, heartbeat, read_attribution(environ)),))


def _heartbeat(action: str, now_ms: int, run_id: str | None, output: bytes, left_out: int) -> Heartbeat:
    """What a ping reports. Raises ServiceError (422) for an unknown `action`."""
    note = f"(The first {left_out:,} bytes were left out.)\n".encode() if left_out else b""
    *earlier, message = messages(note + output) or [""]
    if action not in _ACTIONS and (not _EXIT_STATUS.fullmatch(action) or not 0 <= int(action) <= 255):
        raise invalid_field("path", "exit_status", "Must be a whole number from 0 to 255.")
    kind, status = _ACTIONS.get(action, (Kind.END, None))
    exit_code = None if action in _ACTIONS else int(action)
    return Heartbeat(kind, now_ms, run_id, status, exit_code, message=message or None, output=earlier)


def _run_id(query: str) -> str | None:
    """The run id in the query string, in one spelling. Raises ServiceError (422)."""
    sent = parse_qs(query).get("rid") if query else None
    if not sent:
        return None
    if not (UUID_PATTERN.fullmatch(sent[0]) or _RUN_ID.fullmatch(sent[0])):
        raise invalid_field("query", "rid", "Not a UUID.")
    return str(UUID(sent[0]))
