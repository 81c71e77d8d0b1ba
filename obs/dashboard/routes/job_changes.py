"""What a person changes of a job: its schedule, its name, whether it is watched at all; and deleting it."""

import sqlite3
from collections.abc import Callable

from flask import Blueprint, flash, redirect, request, url_for
from flask.typing import ResponseReturnValue

from obs import times
from obs.dashboard.viewer import viewer
from obs.errors import ServiceError, invalid_field
from obs.heartbeat import pins, reading
from obs.heartbeat.routes.heartbeats import watch
from obs.heartbeat.store import changes
from obs.heartbeat.store import jobs as job_store
from obs.storage.batches import in_batches

blp = Blueprint("job_changes", __name__, url_prefix="/job")


@blp.post("/pin")
def pin() -> ResponseReturnValue:
    """Pin a cron line, an interval or "never overdue", or give the schedule back to the learner."""
    said = _pin()
    _change(lambda db, job_id: changes.pin(db, job_id, said))
    return _back("Learning the schedule again." if said is None else "Pinned the schedule.")


@blp.post("/pause")
def pause() -> ResponseReturnValue:
    """Pause a job, for a time or until it is resumed."""
    now_ms, until = viewer().now_ms, request.form.get("until", "")
    if until not in ("", "+1h", "+1d", "+7d"):
        raise invalid_field("form", "until", "Not one of the choices.")
    until_ms = times.parse_time(until, now_ms) if until else None
    _change(lambda db, job_id: changes.pause(db, job_id, now_ms, until_ms))
    return _back("Paused.")


@blp.post("/resume")
def resume() -> ResponseReturnValue:
    """Resume a job."""
    now_ms = viewer().now_ms
    _change(lambda db, job_id: changes.resume(db, job_id, now_ms))
    return _back("Resumed.")


@blp.post("/rename")
def rename() -> ResponseReturnValue:
    """Give a job another name; its history stays."""
    name = request.form.get("new_name", "").strip()
    problem = reading.name_problem(name)
    if problem is not None:
        raise invalid_field("form", "name", problem)
    try:
        _change(lambda db, job_id: changes.rename(db, job_id, name))
    except changes.NameTakenError as error:
        raise ServiceError("conflict", f"There is another job named {name!r}.") from error
    flash(f"Renamed to {name}. Heartbeats under the old name make a new job.")
    return redirect(url_for("dashboard.job.page", name=name))


@blp.post("/delete")
def delete() -> ResponseReturnValue:
    """Delete a job with its runs."""
    looking, name = viewer(), request.form.get("name", "")
    with looking.read() as db:
        job_id = job_store.job_id(db, name)
    if job_id is None:
        raise ServiceError("job_not_found", f"There is no job named {name!r}.")
    in_batches(looking.databases, looking.org, lambda db, limit: job_store.delete_runs(db, job_id, limit))
    looking.write(lambda db: job_store.delete_job(db, job_id))
    flash(f"Deleted {name}.")
    return redirect(url_for("dashboard.jobs.page"))


def _pin() -> dict[str, object] | None:
    """What the form says, as `pins` takes it; None for the learner."""
    form = request.form
    said: dict[str, object]
    try:
        match form.get("kind"):
            case "cron":
                zone = form.get("timezone", "").strip() or "UTC"
                said = {"cron": form.get("cron", "").strip(), "timezone": zone, "grace_seconds": _seconds("grace", "1")}
            case "interval":
                said = {"interval_seconds": _seconds("interval", ""), "grace_seconds": _seconds("grace", "1")}
            case "never":
                said = {"never": True}
            case _:
                return None
        return pins.to_dict(pins.from_dict(said))
    except ValueError as error:
        raise invalid_field("form", "schedule", str(error)) from error


def _seconds(field: str, otherwise: str) -> int:
    text = request.form.get(field, "").strip() or otherwise
    if not text.isascii() or not text.isdigit() or len(text) > 7:
        raise ValueError(f"The {field} must be a whole number of minutes.")
    return int(text) * 60


def _change(change: Callable[[sqlite3.Connection, int], None]) -> None:
    looking, name = viewer(), request.form.get("name", "")

    def unit(db: sqlite3.Connection) -> None:
        job_id = job_store.job_id(db, name)
        if job_id is None:
            raise ServiceError("job_not_found", f"There is no job named {name!r}.")
        change(db, job_id)

    looking.write(unit)
    watch().note(looking.org)


def _back(words: str) -> ResponseReturnValue:
    flash(words)
    return redirect(url_for("dashboard.job.page", name=request.form.get("name", "")))
