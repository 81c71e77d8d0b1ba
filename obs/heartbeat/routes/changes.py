"""Changes to jobs, and maintenance windows, over HTTP."""

from typing import Any

from obs.api import Blueprint
from obs.heartbeat import schemas
from obs.heartbeat.routes.jobs import jobs_blp
from obs.heartbeat.store import maintenance
from obs.heartbeat.store.jobs import Job
from obs.services import services
from obs.tenancy.auth import caller, requires

maintenance_blp = Blueprint(
    "maintenance",
    __name__,
    url_prefix="/api/v1/maintenance",
    description="Planned silence of the whole organization.",
)


@jobs_blp.route("/<job_name:job_name>", methods=["PATCH"])
@requires("admin")
@jobs_blp.arguments(schemas.JobChangesSchema)
@jobs_blp.response(200, schemas.JobSchema)
def change_job(fields: dict[str, Any], job_name: str) -> Job:
    """Change a job

    Pin a schedule or give it back to the learner, pause and resume, rename, set how many failures make an incident.
    Only what is sent changes.
    """
    return services().heartbeats.change_job(caller(), job_name, fields)


@maintenance_blp.route("", methods=["GET"])
@requires("query:read")
@maintenance_blp.response(200, schemas.WindowListSchema)
def list_windows() -> dict[str, Any]:
    """List maintenance windows, the latest first"""
    with caller().read() as db:
        return {"maintenance_windows": maintenance.windows(db)}


@maintenance_blp.route("", methods=["POST"])
@requires("admin")
@maintenance_blp.arguments(schemas.WindowSchema)
@maintenance_blp.response(201, schemas.WindowSchema)
def add_window(fields: dict[str, Any]) -> maintenance.Window:
    """Plan silence

    Nothing becomes overdue from start_time to end_time, nor before each job has had its lateness once more.
    """
    return services().heartbeats.add_window(caller(), **fields)


@maintenance_blp.route("/<int(max=9223372036854775807):window_id>", methods=["DELETE"])
@requires("admin")
@maintenance_blp.response(204)
def delete_window(window_id: int) -> None:
    """Delete a maintenance window"""
    services().heartbeats.delete_window(caller(), window_id)
