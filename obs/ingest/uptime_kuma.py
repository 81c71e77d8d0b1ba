"""The push protocol of Uptime Kuma: ``/api/push/<uuid>?status=up|down&msg=OK&ping=123``, with any method."""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

from obs.client.run import messages
from obs.errors import ServiceError
from obs.heartbeat.runs import Heartbeat, Kind, Status
from obs.heartbeat.store.record import JobHeartbeat, Recorded
from obs.ingest.fields import read_attribution, read_duration, read_query
from obs.ingest.protocol import HeartbeatProtocol, PingUuid, Response, Route, Submission
from obs.tenancy.auth import Tenancy, authenticate_ping

_PREFIX = "/api/push/"
_HEADERS = {"Content-Type": "application/json", "Cache-Control": "no-store", "Access-Control-Allow-Origin": "*"}


class UptimeKumaProtocol(HeartbeatProtocol):
    """Reads pushes, each a complete run: as Uptime Kuma does, every status but ``up`` is a failure."""

    def route(self, path: str) -> Route | None:
        return Route("uptime_kuma.push", (), self._read) if path.startswith(_PREFIX) else None

    def respond(self, submission: Submission, recorded: Sequence[Recorded]) -> Response:
        return Response(200, _HEADERS, b'{"ok": true}')

    def refuse(self, error: ServiceError) -> Response:
        message = "Monitor not found or not active." if error.status == 404 else error.message
        body = json.dumps({"ok": False, "msg": message}).encode()
        return Response(error.status, {**_HEADERS, **error.headers}, body)

    def _read(self, tenancy: Tenancy, environ: Mapping[str, Any]) -> Submission:
        uuid = PingUuid(environ["PATH_INFO"][len(_PREFIX) :].removesuffix("/").lower())
        caller = authenticate_ping(tenancy, environ, uuid, is_uuid=True)
        sent = {name: values[0] for name, values in parse_qs(read_query(environ)).items()}
        *output, last = messages(sent.get("msg", "").encode()) or [""]
        status = Status.SUCCESS if sent.get("status", "up") == "up" else Status.FAILED
        outcome: dict[str, Any] = {"status": status, "duration_ms": read_duration(sent.get("ping"), 1)}
        heartbeat = Heartbeat(Kind.END, caller.now_ms, message=last or None, output=output, **outcome)
        return Submission(caller, (JobHeartbeat(uuid, heartbeat, read_attribution(environ)),))
