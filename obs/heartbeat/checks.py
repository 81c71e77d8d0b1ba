"""Jobs as the management API of Healthchecks shows them, versions 1 to 3, for its clients and dashboards: reading."""

import re
from typing import Any

from flask import request

from obs.api import Blueprint
from obs.heartbeat.pins import Cron, Interval
from obs.heartbeat.runs import TROUBLE
from obs.heartbeat.schedule import Description
from obs.heartbeat.service import no_job
from obs.heartbeat.store import jobs as store
from obs.heartbeat.store.jobs import Job
from obs.services import services
from obs.tenancy.auth import caller, operation
from obs.times import DAY_MS, format_optional_ms

_PREFIX = "/api/<any(v1, v2, v3):version>/checks"
blp = Blueprint("checks", __name__, url_prefix=_PREFIX, description="Jobs as the API of Healthchecks shows them.")

_STATUSES = {"paused": "paused", "new": "new", "late": "grace", **dict.fromkeys(TROUBLE, "down")}
_NOT_USED: dict[str, Any] = {"desc": "", "methods": "", "manual_resume": False}


@operation(blp, "GET /", "query:read")
def list_checks(version: str) -> dict[str, Any]:
    """List jobs as checks; with tag, which can be repeated, those in all of these projects, services or hosts"""
    tags = set(request.args.getlist("tag"))
    with caller().read() as db:
        checks = [_check(job, version) for job in store.jobs_by_id(db, None, caller().now_ms).values()]
    return {"checks": [check for check in checks if tags <= set(check["tags"].split())]}


@operation(blp, "GET /<check>", "query:read")
def get_check(version: str, check: str) -> dict[str, Any]:
    """Get a job as a check, by the UUID of its ping URL or by its unique_key"""
    with caller().read() as db:
        job_id = int(check, 16) if re.fullmatch("0{25}[0-9a-f]{15}", check) else 0
        if name := store.name_of_uuid(db, check.lower()):
            job_id = store.job_id(db, name) or 0
        found = store.jobs_by_id(db, [job_id], caller().now_ms)
    if not found:
        raise no_job(check)
    return _check(found[job_id], version)


def _check(job: Job, version: str) -> dict[str, Any]:
    ping_url = services().heartbeats.ping_url(caller(), job.id, creates=False)
    status, is_started = _STATUSES.get(job.status, "up"), job.status in ("running", "overrunning")
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
        "status": "started" if version == "v1" and job.status == "running" else status,
        "started": is_started,
        "last_ping": format_optional_ms(job.last_heartbeat_at),
        "next_ping": format_optional_ms(job.expected_at),
        "last_duration": job.last_duration_ms and job.last_duration_ms // 1000,
        **_NOT_USED,
        "unique_key": f"{job.id:040x}",
        **({"uuid": ping_url.rpartition("/")[2], "ping_url": ping_url} if ping_url else {}),
        **schedule,
    }
