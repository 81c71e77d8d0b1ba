"""Rules that the OpenAPI document cannot express: between fields, for times relative to now, and for statements.

A request that should succeed gets values that follow these rules, so that any response other than 2xx is a bug. A
request that should be rejected is sent unchanged.
"""

import os
from datetime import UTC, datetime, timedelta
from time import time_ns
from typing import Any
from uuid import uuid4

import schemathesis
from requests import Response

OWN_KEY = os.environ["OBS_TEST_KEY_ID"]
STATEMENTS = (
    "SELECT count(*) FROM runs LAST 1h",
    "SELECT job, max(duration_ms) FROM runs WHERE status = 'failed' BY job LAST 7d",
    "SELECT count(*) FROM events EVERY 1m LAST 1h",
    "SELECT time, title FROM annotations ORDER BY time DESC LIMIT 10 LAST 90d",
)
PINS: tuple[dict[str, Any], ...] = (
    {"cron": "0 2 * * 1-5", "timezone": "Europe/Berlin"},
    {"interval_seconds": 3600, "grace_seconds": 60},
    {"never": True},
)


@schemathesis.hook
def before_call(context: schemathesis.HookContext, case: schemathesis.Case[Any], kwargs: dict[str, Any]) -> None:
    """Apply the rules, and do not let a request revoke the key of this run."""
    if case.path_parameters and str(case.path_parameters.get("key_id")) == OWN_KEY:
        case.path_parameters["key_id"] = int(OWN_KEY) + 1
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    if isinstance(case.headers, dict) or case.headers:
        case.headers.pop("If-Match", None)  # no annotation has a generated ETag
    for place in (case.query, case.body):
        if isinstance(place, dict):
            _apply_rules(place, is_channel="/channels" in case.path)
            if "/alerts" in case.path and place.get("query"):
                place["query"] = STATEMENTS[0]  # it returns one number
            if case.path.startswith("/api/annotations"):
                place.update(text="Web 2.14.0 is out", time=time_ns() // 1_000_000, timeEnd=None)
    if "/maintenance" in case.path and isinstance(case.body, dict):
        _choose_times(case.body)


@schemathesis.hook
def after_call(context: schemathesis.HookContext, case: schemathesis.Case[Any], response: Response) -> None:
    """Count the request, for long runs."""
    path = os.environ.get("OBS_TEST_COUNT")
    if path:
        with open(path, "ab") as counted:
            counted.write(b".")


def _choose_times(window: dict[str, Any]) -> None:
    """Have a maintenance window begin once, or again and again."""
    if any(window.pop(name, None) is not None for name in ("cron", "timezone", "duration_seconds")):
        window.pop("start_time", None)
        window.pop("end_time", None)
        window |= {"cron": "0 22 * * 6", "timezone": "Europe/Berlin", "duration_seconds": 28_800}
    else:
        now = datetime.now(UTC)
        window |= {"start_time": now.isoformat(), "end_time": (now + timedelta(hours=1)).isoformat()}


def _apply_rules(fields: dict[str, Any], *, is_channel: bool) -> None:
    now = datetime.now(UTC)
    later = (now + timedelta(hours=1)).isoformat()
    if fields.get("cursor") is not None:
        del fields["cursor"]  # only values from a response are valid
    if fields.get("query") is not None:
        fields["query"] = STATEMENTS[len(fields["query"]) % len(STATEMENTS)]
        if fields.get("params") is not None:
            fields |= {"query": "SELECT count(*) FROM runs WHERE job = :job LAST 1h", "params": {"job": "backup"}}
    if fields.get("ping_uuid") is not None:
        fields["ping_uuid"] = str(uuid4())
    if "ping" in (fields.get("scopes") or ()):
        fields["scopes"] = ["ping"]  # it allows no other scope
    if isinstance(fields.get("pin"), dict):
        fields["pin"] = PINS[len(fields["pin"]) % len(PINS)]
    if fields.get("paused_until") is not None and fields.get("paused") is False:
        del fields["paused"]
    if fields.get("end_time") is not None and "start_time" in fields and fields["start_time"] is None:
        del fields["start_time"]
    times = dict.fromkeys(("time", "start_time", "schedule_changed_at"), now.isoformat()) | {"end_time": later}
    for name, value in times.items():
        if fields.get(name) is not None:
            fields[name] = value
    if fields.get("end_time") is not None and "title" in fields:
        fields["start_time"] = now.isoformat()
    for name in ("expires_at", "paused_until"):
        if fields.get(name) is not None:
            fields[name] = later
    for name, value in (("start", "-24h"), ("end", "now"), ("for", "5m"), ("every", "5m"), ("last", "1h")):
        if fields.get(name) is not None:
            fields[name] = value
    if fields.get("url") is not None:
        fields["url"] = "json://example.com" if is_channel else "https://ci.example.com/builds/8121"
    if isinstance(fields.get("webhook"), dict):
        fields["webhook"] = {**fields["webhook"], "url": "https://example.com/hooks/obs"}
        fields.pop("url", None)  # a channel has one or the other
    elif is_channel and "name" in fields:  # a new one has one of them
        fields["url"] = "json://example.com"
    if isinstance(fields.get("quiet_hours"), dict):
        fields["quiet_hours"] = {"from": "22:00", "until": "07:00", "timezone": "Europe/Berlin"}
