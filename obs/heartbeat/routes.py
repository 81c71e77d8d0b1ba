"""Jobs, runs and maintenance windows over HTTP."""

from functools import partial
from typing import Any

from flask import Response, current_app, url_for
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from obs.api import ROW_ID, Blueprint, list_of, page_of, time_of_query
from obs.heartbeat import schemas
from obs.heartbeat.names import valid_name
from obs.heartbeat.runs import OUTCOMES, TROUBLE
from obs.heartbeat.service import known_job, no_job
from obs.heartbeat.store import expectations, jobs as store, maintenance
from obs.services import services
from obs.tenancy.auth import caller, operation

jobs_blp = Blueprint("jobs", __name__, url_prefix="/api/v1/jobs", description="Jobs, their states and their runs.")
runs_blp = Blueprint("runs", __name__, url_prefix="/api/v1/runs", description="Runs with their timelines.")
maintenance_blp = Blueprint("maintenance", __name__, url_prefix="/api/v1/maintenance", description="Maintenance.")
metrics_blp = Blueprint(
    "metrics", __name__, template_folder="templates", url_prefix="/api/v1", description="Jobs as metrics of Prometheus."
)
BLUEPRINTS = (jobs_blp, runs_blp, maintenance_blp, metrics_blp)

_WINDOW = schemas.MaintenanceWindowSchema
_NEW = {"Location": {"description": "The path of the job.", "schema": {"type": "string"}}}


@operation(jobs_blp, "GET", "query:read", list_of("jobs", schemas.JobSchema, paged=True), query=schemas.JobPageSchema)
def list_jobs(page: dict[str, Any]) -> dict[str, Any]:
    """List jobs by name, with their states at the time of the request"""
    return caller().fetch(lambda db: page_of("jobs", page, partial(store.jobs, db, caller().now_ms), "name"))


@operation(
    jobs_blp, "POST", "admin", schemas.JobSchema, status=201, headers=_NEW, body=schemas.NewJobSchema, errors=(409,)
)
def create_job(fields: dict[str, Any]) -> tuple[store.Job, dict[str, str]]:
    """Register a job before its first heartbeat

    It is `new` until then. With a pin it becomes overdue like any other job; the pin counts from now.
    """
    job, _ = services().heartbeats.change_job(caller(), fields["name"], fields, adds=True)
    return job, {"Location": url_for("jobs.get_job", job_name=job.name)}


@operation(jobs_blp, "DELETE", "admin", schemas.DeletedJobsSchema, query=schemas.JobPrefixSchema)
def delete_jobs(jobs: dict[str, Any]) -> dict[str, int]:
    """Delete all jobs whose names start with a prefix

    A request deletes for about 20 seconds. Repeat it until no job remains.
    """
    return services().heartbeats.delete_jobs(caller(), **jobs)


@operation(jobs_blp, "GET /<job_name:job_name>", "query:read", schemas.JobWithPingUrlSchema)
def get_job(job_name: str) -> dict[str, Any]:
    """Get a job with its state at the time of the request"""
    with caller().read() as db:
        job = known_job(db, job_name, caller().now_ms)
        hosts = expectations.streams_of(db, job.id)
    values = {name: getattr(job, name) for name in store.Job.__slots__}
    return {**values, "hosts": hosts, "ping_url": services().heartbeats.ping_url(caller(), job.id)}


@operation(jobs_blp, "PATCH /<job_name:job_name>", "admin", schemas.JobSchema, body=schemas.JobChangesSchema)
def change_job(fields: dict[str, Any], job_name: str) -> store.Job:
    """Change a job

    Pin its schedule or return it to the learned one, pause or resume it, rename it, or set how many failures in a row
    open an incident. Only the fields that are sent change.
    """
    return services().heartbeats.change_job(caller(), job_name, fields)[0]


@operation(jobs_blp, "PUT /<job_name:job_name>", "admin", schemas.JobSchema, body=schemas.JobFieldsSchema)
@jobs_blp.alt_response(201, schema=schemas.JobSchema, headers=_NEW, description="The job is new.")
@jobs_blp.doc(requestBody={"required": False})
def put_job(fields: dict[str, Any], job_name: str) -> tuple[store.Job, int, dict[str, str]]:
    """Register a job, or replace its settings

    A pin, a pause or a failure tolerance that is not sent returns to its default. The ping URL, the host, the service
    and the project stay. A request that is repeated changes nothing.
    """
    name = valid_name(job_name, "path", "job_name")
    defaults = {"pin": None, "paused": "paused_until" in fields, "failure_tolerance": 1}
    job, is_new = services().heartbeats.change_job(caller(), name, {**defaults, **fields}, adds=True)
    return job, 201 if is_new else 200, {"Location": url_for("jobs.get_job", job_name=name)} if is_new else {}


@operation(jobs_blp, "DELETE /<job_name:job_name>", "admin", status=204)
def delete_job(job_name: str) -> None:
    """Delete a job with its runs and timelines

    A later heartbeat with its name creates a new job.
    """
    services().heartbeats.delete_job(caller(), job_name)


@operation(jobs_blp, "GET /<job_name:job_name>/runs", "query:read", schemas.RunListSchema, query=schemas.RunPageSchema)
def list_runs(page: dict[str, Any], job_name: str) -> Any:
    """List the runs of a job, newest start first

    Where there is no job with that name, the path is that of a job whose name ends with `/runs`.
    """
    times = {f"{name}_ms": time_of_query(name, page.pop(name), caller().now_ms) for name in ("start", "end")}
    with caller().read() as db:
        job_id = store.job_id(db, job_name)
        if job_id is None and store.job_id(db, f"{job_name}/runs") is None:
            raise no_job(job_name)
        if job_id is None:
            return get_job(f"{job_name}/runs")
        return page_of("runs", {**page, **times}, partial(store.runs_of, db, job_id), "started_at", "id")


@operation(runs_blp, f"GET /<{ROW_ID}:number>", "query:read", schemas.RunWithTimelineSchema)
def get_run(number: int) -> dict[str, Any]:
    """Get a run with its timeline"""
    with caller().read() as db:
        run = store.run(db, number)
        timeline, left_out = store.timeline(db, number)
    return {**{name: getattr(run, name) for name in store.Run.__slots__}, "timeline": timeline, "left_out": left_out}


@operation(maintenance_blp, "GET", "query:read", list_of("maintenance_windows", _WINDOW))
def list_windows() -> dict[str, Any]:
    """List maintenance windows, the latest start first"""
    return {"maintenance_windows": caller().fetch(maintenance.windows)}


@operation(maintenance_blp, "POST", "admin", _WINDOW, status=201, body=_WINDOW)
def add_window(fields: dict[str, Any]) -> maintenance.MaintenanceWindow:
    """Schedule maintenance

    From start_time to end_time, or for duration_seconds after each time of cron, no job that matches all of job_prefix,
    host, service and project that are sent becomes overdue, and no incident of it is opened. Runs that are due in this
    time are not waited for. A window is at most 31 days long, and recurs at most once an hour.
    """
    return services().heartbeats.add_window(caller(), fields)


@operation(maintenance_blp, f"DELETE /<{ROW_ID}:window_id>", "admin", status=204)
def delete_window(window_id: int) -> None:
    """Delete a maintenance window"""
    services().heartbeats.delete_window(caller(), window_id)


@operation(metrics_blp, "GET /metrics", "query:read")
@metrics_blp.doc(responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}})
def get_metrics() -> Response:
    """Get the jobs as metrics for Prometheus"""
    jobs = caller().fetch(lambda db: store.metrics(db, caller().now_ms))
    text = current_app.jinja_env.get_template("metrics.txt").render(jobs=jobs, outcomes=OUTCOMES, trouble=TROUBLE)
    return Response(text, content_type=CONTENT_TYPE_PLAIN_0_0_4)
