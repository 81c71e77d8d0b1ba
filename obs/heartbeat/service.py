"""Changes to jobs and maintenance windows. Every route, page and command goes through here."""

import sqlite3
from typing import Any

from obs.errors import ServiceError, invalid_field
from obs.heartbeat import pins
from obs.heartbeat.names import name_problem
from obs.heartbeat.store import changes, jobs, maintenance
from obs.heartbeat.store.jobs import Job
from obs.heartbeat.store.maintenance import Window
from obs.heartbeat.sweep import Watch
from obs.storage.batches import in_batches
from obs.tenancy.auth import Caller


class HeartbeatService:
    """Changes jobs and maintenance windows, and wakes the sweep afterwards."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def change_job(self, caller: Caller, name: str, fields: dict[str, Any]) -> Job:
        """Change the job `name`; only the fields that are given change. Returns the job as it is afterwards.

        `fields` are those of JobChangesSchema. Raises ServiceError: 404, 409 for a name that is taken, 422.
        """
        _check(fields, caller.now_ms)

        def unit(db: sqlite3.Connection) -> Job:
            job_id = _job_id(db, name)
            _apply(db, job_id, fields, caller.now_ms)
            changed = jobs.job(db, fields.get("name", name), caller.now_ms)
            assert changed is not None
            return changed

        job = caller.write(unit)
        self.watch.note(caller.org)
        return job

    def delete_job(self, caller: Caller, name: str) -> None:
        """Delete the job `name` with its runs and events. Raises ServiceError (404)."""
        with caller.read() as db:
            job_id = _job_id(db, name)
        in_batches(caller.databases, caller.org, lambda db, limit: jobs.delete_runs(db, job_id, limit))
        if not caller.write(lambda db: jobs.delete_job(db, job_id)):
            raise no_job(name)
        self.watch.note(caller.org)

    def add_window(self, caller: Caller, start_time: int, end_time: int, title: str) -> Window:
        """Schedule maintenance; times are milliseconds since the epoch. Raises ServiceError (422)."""
        if end_time <= start_time:
            raise invalid_field("json", "end_time", "Must be after start_time.")
        window = caller.write(lambda db: maintenance.add(db, start_time, end_time, title))
        self.watch.note(caller.org)
        return window

    def delete_window(self, caller: Caller, window_id: int) -> None:
        """Delete a maintenance window. Raises ServiceError (404)."""
        if not caller.write(lambda db: maintenance.delete(db, window_id)):
            raise ServiceError("window_not_found", f"There is no maintenance window {window_id}.")
        self.watch.note(caller.org)


def no_job(name: str) -> ServiceError:
    """The 404 for a job that does not exist."""
    return ServiceError("job_not_found", f"There is no job named {name!r}.", hint="List them with GET /api/v1/jobs.")


def _job_id(db: sqlite3.Connection, name: str) -> int:
    job_id = jobs.job_id(db, name)
    if job_id is None:
        raise no_job(name)
    return job_id


def _check(fields: dict[str, Any], now_ms: int) -> None:
    """Raise ServiceError (422) for a change that makes no sense."""
    if not fields:
        raise invalid_field("json", "_schema", "Nothing to change.")
    if "name" in fields and (problem := name_problem(fields["name"])) is not None:
        raise invalid_field("json", "name", problem)
    if fields.get("pin") is not None:
        try:
            fields["pin"] = pins.to_dict(pins.from_dict(fields["pin"]))
        except ValueError as error:
            raise invalid_field("json", "pin", str(error)) from error
    if "paused_until" in fields:
        if fields.get("paused") is False:
            raise invalid_field("json", "paused_until", "Cannot be combined with paused: false.")
        if fields["paused_until"] <= now_ms:
            raise invalid_field("json", "paused_until", "Must be in the future.")


def _apply(db: sqlite3.Connection, job_id: int, fields: dict[str, Any], now_ms: int) -> None:
    if "name" in fields:
        try:
            changes.rename(db, job_id, fields["name"])
        except changes.NameTakenError as error:
            raise ServiceError("conflict", f"There is another job named {fields['name']!r}.") from error
    if "pin" in fields:
        changes.pin(db, job_id, fields["pin"])
    if fields.get("paused") is False:
        changes.resume(db, job_id, now_ms)
    elif fields.get("paused") or "paused_until" in fields:
        changes.pause(db, job_id, now_ms, fields.get("paused_until"))
    if "failure_tolerance" in fields:
        changes.tolerate(db, job_id, fields["failure_tolerance"])
