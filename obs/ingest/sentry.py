"""The check-ins of Sentry's cron monitors: one for each URL, or as items of an envelope, which the SDKs send.

A check-in names its monitor, which is the job, and its own id, which is the run. The public key of the DSN is a ping
key; the number of the project has no meaning.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any, cast
from urllib.parse import parse_qsl

from marshmallow import ValidationError

from obs.api import json_object
from obs.errors import ServiceError, invalid_field
from obs.heartbeat.names import valid_name
from obs.heartbeat.pins import Pin
from obs.heartbeat.runs import Heartbeat, Kind, Status
from obs.heartbeat.schemas import JobChangesSchema
from obs.heartbeat.store.record import JobHeartbeat, Recorded
from obs.ingest.fields import read_attribution, read_duration, read_name_in_path, read_query
from obs.ingest.protocol import HeartbeatProtocol, Response, Route, Submission
from obs.server.bodies import read_body
from obs.tenancy.auth import Caller, Tenancy, authenticate_ping
from obs.times import SECOND_MS

_CRON = re.compile(r"/api/\d+/cron/(?P<monitor>.+)/(?P<key>[^/]+)/?", re.ASCII)
_ENVELOPE = re.compile(r"/api/\d+/envelope/?", re.ASCII)
_SENTRY_KEY = re.compile(r"\bsentry_key=([^\s,&]+)")
_CHECK_IN_ID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)
_STATUSES: Mapping[Any, tuple[Kind, Status | None]] = {
    "in_progress": (Kind.START, None),
    "ok": (Kind.END, Status.SUCCESS),
    "error": (Kind.END, Status.FAILED),
}
_UNIT_SECONDS = {"minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400, "month": 31 * 86400, "year": 366 * 86400}
_JSON = "application/json"
_HEADERS = {"Content-Type": _JSON, "Cache-Control": "no-store", "Access-Control-Allow-Origin": "*"}


class SentryProtocol(HeartbeatProtocol):
    """Reads check-ins. Other items of envelopes are accepted and dropped."""

    def route(self, path: str) -> Route | None:
        if path.startswith("/api/") and _ENVELOPE.fullmatch(path):
            return Route("sentry.envelope", ("POST",), self._read_envelope)
        return Route("sentry.cron", ("GET", "POST"), self._read_cron) if _CRON.fullmatch(path) else None

    def respond(self, submission: Submission, recorded: Sequence[Recorded]) -> Response:
        return Response(200, _HEADERS, b"{}")

    def refuse(self, error: ServiceError) -> Response:
        status, message = (403, "unknown key") if error.status == 404 else (error.status, error.message)
        status = 400 if status == 422 else status
        return Response(status, {**_HEADERS, **error.headers}, json.dumps({"detail": message}).encode())

    def _read_cron(self, tenancy: Tenancy, environ: Mapping[str, Any]) -> Submission:
        path = _CRON.fullmatch(environ["PATH_INFO"])
        assert path is not None
        caller = authenticate_ping(tenancy, environ, path["key"])
        sent: dict[str, Any] = dict(parse_qsl(read_query(environ)))
        sent |= json_object(body, _JSON) if (body := read_body(environ)) else {}
        return _submission(caller, [{**sent, "monitor_slug": read_name_in_path(path["monitor"])}], environ)

    def _read_envelope(self, tenancy: Tenancy, environ: Mapping[str, Any]) -> Submission:
        key = _SENTRY_KEY.search(environ.get("HTTP_X_SENTRY_AUTH") or environ.get("QUERY_STRING") or "")
        caller = authenticate_ping(tenancy, environ, key[1] if key else "")
        return _submission(caller, list(_check_ins(read_body(environ))), environ)


def _check_ins(envelope: bytes) -> Iterator[Mapping[str, Any]]:
    """The check-ins in an envelope: a line of headers, then for each item its headers and its payload."""
    lines = BytesIO(envelope)
    lines.readline()
    for line in filter(bytes.strip, iter(lines.readline, b"")):
        item = json_object(line, _JSON)
        length = item.get("length", -1)
        has_length = isinstance(length, int) and length >= 0
        payload = lines.read(min(length, len(envelope))) if has_length else lines.readline()
        if item.get("type") == "check_in":
            yield json_object(payload, _JSON)


def _submission(caller: Caller, check_ins: list[Mapping[str, Any]], environ: Mapping[str, Any]) -> Submission:
    attribution = read_attribution(environ)
    heartbeats = [JobHeartbeat(_job(one), _heartbeat(one, caller.now_ms), attribution) for one in check_ins]
    pins = {_job(one): pin for one in check_ins if (pin := _pin(one)) is not None}
    return Submission(caller, heartbeats, pins)


def _job(check_in: Mapping[str, Any]) -> str:
    """The job of a check-in: the monitor; outside of production with the environment. Raises ServiceError (422)."""
    monitor = valid_name(check_in.get("monitor_slug"), "json", "monitor_slug")
    environment = check_in.get("environment") or "production"
    return monitor if environment == "production" else valid_name(f"{monitor}@{environment}", "json", "environment")


def _heartbeat(check_in: Mapping[str, Any], now_ms: int) -> Heartbeat:
    """What a check-in reports. Raises ServiceError (422)."""
    status, run_id, duration = (check_in.get(name) for name in ("status", "check_in_id", "duration"))
    if not isinstance(status, str) or status not in _STATUSES:
        raise invalid_field("json", "status", f"Must be one of: {', '.join(_STATUSES)}.")
    if run_id is not None and not (isinstance(run_id, str) and _CHECK_IN_ID.fullmatch(run_id)):
        raise invalid_field("json", "check_in_id", "Not a UUID.")
    digits = (run_id or "").replace("-", "").lower()
    run_id = digits if digits.strip("0") else None  # only zeros stand for the latest check-in
    kind, outcome = _STATUSES[status]
    duration_ms = None if kind is Kind.START else read_duration(duration, SECOND_MS)
    return Heartbeat(kind, now_ms, run_id, outcome, duration_ms=duration_ms)


def _pin(check_in: Mapping[str, Any]) -> Pin | None:
    """The schedule that the monitor declares; None without a valid one, which must not cost the check-in."""
    config = check_in.get("monitor_config")
    if not isinstance(config, dict) or not isinstance(schedule := config.get("schedule"), dict):
        return None
    value, margin = schedule.get("value"), config.get("checkin_margin") or 1
    fields: dict[str, Any] = {"grace_seconds": margin * 60 if isinstance(margin, int) else margin}
    if schedule.get("type") == "crontab":
        fields |= {"cron": value, "timezone": config.get("timezone") or "UTC"}
    else:
        seconds = _UNIT_SECONDS.get(str(schedule.get("unit")))
        fields["interval_seconds"] = value * seconds if seconds and isinstance(value, int) else None
    try:
        return cast("Pin", JobChangesSchema().load({"pin": fields})["pin"])
    except ValidationError:
        return None
