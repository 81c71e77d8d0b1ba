"""What a person changes: a job's schedule, pause, name and tolerance, and maintenance windows."""

import sqlite3
from typing import Any

from obs.api import Blueprint
from obs.errors import ServiceError, invalid_field
from obs.heartbeat import pins, reading, schemas
from obs.heartbeat.routes.heartbeats import watch
from obs.heartbeat.routes.jobs import jobs_blp, no_job
from obs.heartbeat.store import changes as store
from obs.heartbeat.store import jobs, maintenance
from obs.heartbeat.store.jobs import Job
from obs.tenancy.auth import Caller, caller, requires

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
    sender = caller()
    _check(fields, sender.now_ms)

    def unit(db: sqlite3.Connection) -> Job:
        job_id = jobs.job_id(db, job_name)
        if job_id is None:
            raise no_job(job_name)
        _apply(db, job_id, fields, sender)
        changed = jobs.job(db, fields.get("name", job_name), sender.now_ms)
        assert changed is not None
        return changed

    job = sender.write(unit)
    watch().note(sender.org)
    return job


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
    if fields["end_time"] <= fields["start_time"]:
        raise invalid_field("json", "end_time", "Must be after start_time.")
    window = caller().write(lambda db: maintenance.add(db, fields["start_time"], fields["end_time"], fields["title"]))
    watch().note(caller().org)
    return window


@maintenance_blp.route("/<int(max=9223372036854775807):window_id>", methods=["DELETE"])
@requires("admin")
@maintenance_blp.response(204)
def delete_window(window_id: int) -> None:
    """Delete a maintenance window"""
    if not caller().write(lambda db: maintenance.delete(db, window_id)):
        raise ServiceError("window_not_found", f"There is no maintenance window {window_id}.")
    watch().note(caller().org)


def _check(fields: dict[str, Any], now_ms: int) -> None:
    """Raise ServiceError (422) for a change that makes no sense."""
    if not fields:
        raise invalid_field("json", "_schema", "Nothing to change.")
    if "name" in fields and (problem := reading.name_problem(fields["name"])) is not None:
        raise invalid_field("json", "name", problem)
    if fields.get("pin") is not None:
        try:
            fields["pin"] = pins.to_dict(pins.from_dict(fields["pin"]))
        except ValueError as error:
            raise invalid_field("json", "pin", str(error)) from error
    if "paused_until" in fields:
        if fields.get("paused") is False:
            raise invalid_field("json", "paused_until", "Cannot stand beside paused: false.")
        if fields["paused_until"] <= now_ms:
            raise invalid_field("json", "paused_until", "Must be in the future.")


def _apply(db: sqlite3.Connection, job_id: int, fields: dict[str, Any], sender: Caller) -> None:
    if "name" in fields:
        try:
            store.rename(db, job_id, fields["name"])
        except store.NameTakenError as error:
            raise ServiceError("conflict", f"There is another job named {fields['name']!r}.") from error
    if "pin" in fields:
        store.pin(db, job_id, fields["pin"])
    if fields.get("paused") is False:
        store.resume(db, job_id, sender.now_ms)
    elif fields.get("paused") or "paused_until" in fields:
        store.pause(db, job_id, sender.now_ms, fields.get("paused_until"))
    if "failure_tolerance" in fields:
        store.tolerate(db, job_id, fields["failure_tolerance"])
