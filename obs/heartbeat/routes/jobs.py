"""Jobs and runs over HTTP."""

from typing import Any

from obs.api import Blueprint, decode_cursor, encode_cursor
from obs.errors import ServiceError
from obs.heartbeat import schemas
from obs.heartbeat.service import no_job
from obs.heartbeat.store import jobs as store
from obs.services import services
from obs.tenancy.auth import caller, requires

jobs_blp = Blueprint("jobs", __name__, url_prefix="/api/v1/jobs", description="Jobs, their state and their runs.")
runs_blp = Blueprint("runs", __name__, url_prefix="/api/v1/runs", description="Runs with their timelines.")


@jobs_blp.route("", methods=["GET"])
@requires("query:read")
@jobs_blp.arguments(schemas.JobPageSchema, location="query")
@jobs_blp.response(200, schemas.JobListSchema)
def list_jobs(page: dict[str, Any]) -> dict[str, Any]:
    """List jobs by name

    States and overdue flags are those of this moment.
    """
    after = decode_cursor(page["cursor"], str)[0] if page["cursor"] else None
    with caller().read() as db:
        found = store.jobs(db, caller().now_ms, q=page["q"], after=after, limit=page["limit"] + 1)
    shown = found[: page["limit"]]
    return {"jobs": shown, "next_cursor": encode_cursor(shown[-1].name) if len(found) > len(shown) else None}


@jobs_blp.route("/<job_name:job_name>", methods=["GET"])
@requires("query:read")
@jobs_blp.response(200, schemas.JobSchema)
def get_job(job_name: str) -> store.Job:
    """A job with its state at this moment"""
    with caller().read() as db:
        job = store.job(db, job_name, caller().now_ms)
    if job is None:
        raise no_job(job_name)
    return job


@jobs_blp.route("/<job_name:job_name>", methods=["DELETE"])
@requires("admin")
@jobs_blp.response(204)
def delete_job(job_name: str) -> None:
    """Delete a job with its runs and timelines

    A heartbeat that comes afterwards makes a new job of the name.
    """
    services().heartbeats.delete_job(caller(), job_name)


@jobs_blp.route("/<job_name:job_name>/runs", methods=["GET"])
@requires("query:read")
@jobs_blp.arguments(schemas.RunPageSchema, location="query")
@jobs_blp.response(200, schemas.RunListSchema)
def list_runs(page: dict[str, Any], job_name: str) -> dict[str, Any]:
    """List the runs of a job, newest start first"""
    before = decode_cursor(page["cursor"], int, int) if page["cursor"] else None
    with caller().read() as db:
        job_id = store.job_id(db, job_name)
        if job_id is None:
            raise no_job(job_name)
        found = store.runs_of(db, job_id, before=before, limit=page["limit"] + 1)
    shown = found[: page["limit"]]
    more = len(found) > len(shown)
    return {"runs": shown, "next_cursor": encode_cursor(shown[-1].started_at, shown[-1].id) if more else None}


@runs_blp.route("/<int(max=9223372036854775807):number>", methods=["GET"])
@requires("query:read")
@runs_blp.response(200, schemas.RunWithTimelineSchema)
def get_run(number: int) -> dict[str, Any]:
    """A run with its timeline"""
    with caller().read() as db:
        run = store.run(db, number)
        timeline = store.timeline(db, number)
    if run is None:
        raise ServiceError("run_not_found", f"There is no run {number}.")
    return {**{name: getattr(run, name) for name in store.Run.__slots__}, "timeline": timeline}
