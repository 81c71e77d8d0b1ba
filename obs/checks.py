"""Jobs as the management API of Healthchecks shows them, versions 1 to 3, for its clients and dashboards: reading."""

import re
import sqlite3
from typing import Any

import marshmallow as ma
from flask import request

from obs.alerts.store.incidents import IncidentKind, incidents
from obs.api import Blueprint, Schema
from obs.heartbeat.pins import Cron, Interval
from obs.heartbeat.runs import TROUBLE
from obs.heartbeat.schedule.words import Description
from obs.heartbeat.service import no_job
from obs.heartbeat.store import jobs as store
from obs.services import services
from obs.tenancy.auth import caller, operation
from obs.times import DAY_MS, MAX_MS, format_ms, format_optional_ms

_PREFIX = "/api/<any(v1, v2, v3):version>/checks"
blp = Blueprint("checks", __name__, url_prefix=_PREFIX, description="Jobs as the API of Healthchecks shows them.")

_STATUSES = {"paused": "paused", "new": "new", "late": "grace", **dict.fromkeys(TROUBLE, "down")}
_TYPES = {"success": "success", "failed": "fail"}
_UNKNOWN = dict.fromkeys(("scheme", "remote_addr", "method", "ua"), "")
_NOT_USED: dict[str, Any] = {"desc": "", "methods": "", "manual_resume": False}


class FlipsQuerySchema(Schema):
    seconds = ma.fields.Int(load_default=None, validate=ma.validate.Range(0))
    start = ma.fields.Int(load_default=None)
    end = ma.fields.Int(load_default=None)


@operation(blp, "GET /", "query:read")
def list_checks(version: str) -> dict[str, Any]:
    """List jobs as checks: those with this slug, or with all of these tags (projects, services or hosts), if sent"""
    tags, slug = set(request.args.getlist("tag")), request.args.get("slug")
    with caller().read() as db:
        found, open_runs = store.jobs_by_id(db, None, caller().now_ms), store.jobs_with_open_runs(db)
    checks = [_check(job, version, open_runs) for job in found.values()]
    return {"checks": [one for one in checks if tags <= set(one["tags"].split()) and slug in (None, one["slug"])]}


@operation(blp, "GET /<check>", "query:read")
def get_check(version: str, check: str) -> dict[str, Any]:
    """Get a job as a check, by the UUID of its ping URL or by its unique_key"""
    return caller().fetch(lambda db: _check(_job(db, check), version, store.jobs_with_open_runs(db)))


@operation(blp, "GET /<check>/pings/", "query:read")
def list_pings(check: str, **_: str) -> dict[str, Any]:
    """List the last 100 runs of a job as pings, the newest first"""
    runs = caller().fetch(lambda db: store.runs_of(db, _job(db, check).id, limit=100))
    pings = (
        {"type": _TYPES.get(run.status, "start"), "date": format_ms(run.ended_at or run.started_at), "n": run.id}
        | {"rid": run.run_id, "duration": run.duration_ms and run.duration_ms / 1000, **_UNKNOWN}
        for run in runs
    )
    return {"pings": list(pings)}


@operation(blp, "GET /<check>/flips/", "query:read", query=FlipsQuerySchema)
def list_flips(query: dict[str, int | None], check: str, **_: str) -> list[dict[str, Any]]:
    """List when a job went down and up, from its last 100 incidents, the newest first

    seconds limits the list to the last so many seconds; start and end are seconds since 1970.
    """
    now = caller().now_ms // 1000
    found = caller().fetch(lambda db: incidents(db, limit=100, job_id=_job(db, check).id))
    down = [(one.started_at, one.ended_at or MAX_MS) for one in found if one.kind is not IncidentKind.TOO_OFTEN]
    flips = {flip for start, end in down for flip in ((start, 0), (end, 1))}
    first = max(query["start"] or 0, 0 if query["seconds"] is None else now - query["seconds"])
    last = now if query["end"] is None else min(now, query["end"])
    return [
        {"timestamp": format_ms(time), "up": up}
        for time, up in sorted(flips, reverse=True)
        if first <= time // 1000 <= last and not any(start < time < end for start, end in down)
    ]


def _job(db: sqlite3.Connection, check: str) -> store.Job:
    """The job with that UUID or unique_key. Raises ServiceError (404)."""
    job_id = int(check, 16) if re.fullmatch("0{25}[0-9a-f]{15}", check) else 0
    if name := store.name_of_uuid(db, check.lower()):
        job_id = store.job_id(db, name) or 0
    if not (found := store.jobs_by_id(db, [job_id], caller().now_ms)):
        raise no_job(check)
    return found[job_id]


def _check(job: store.Job, version: str, open_runs: set[int]) -> dict[str, Any]:
    ping_url = services().heartbeats.ping_url(caller(), job.id, creates=False)
    status, is_started = _STATUSES.get(job.status, "up"), job.id in open_runs
    schedule: dict[str, Any] = {"timeout": (job.interval_ms or DAY_MS) // 1000}
    match job.pin or job.learned:
        case Cron(expression, zone) | Description(cron=str(expression), zone=zone):
            schedule = {"schedule": expression, "tz": zone}
        case Interval(interval_ms):
            schedule = {"timeout": interval_ms // 1000}
    return {
        "name": job.name,
        "slug": re.sub(r"[^a-z0-9_]+", "-", job.name.lower()).strip("-"),
        "tags": " ".join("-".join(place.split()) for place in (job.project, job.service, job.host) if place),
        "grace": (job.overdue_at - job.expected_at) // 1000 if job.overdue_at and job.expected_at else 0,
        "n_pings": job.run_count,
        "status": "started" if version == "v1" and is_started and job.status != "overrunning" else status,
        "started": is_started,
        "last_ping": format_optional_ms(job.last_heartbeat_at),
        "next_ping": format_optional_ms(job.expected_at),
        "last_duration": job.last_duration_ms and job.last_duration_ms // 1000,
        **_NOT_USED,
        "unique_key": f"{job.id:040x}",
        **({"uuid": ping_url.rpartition("/")[2], "ping_url": ping_url} if ping_url else {}),
        **schedule,
    }
