"""What a person changes of a job: its schedule, its name, whether it is watched at all; and deleting it."""

from typing import Any

from flask import Blueprint, flash, redirect, request, url_for
from flask.typing import ResponseReturnValue

from obs import times
from obs.dashboard.viewer import viewer
from obs.errors import invalid_field
from obs.services import services

blp = Blueprint("job_changes", __name__, url_prefix="/job")


@blp.post("/pin")
def pin() -> ResponseReturnValue:
    """Pin a cron line, an interval or "never overdue", or give the schedule back to the learner."""
    said = _pin()
    _change({"pin": said})
    return _back("Learning the schedule again." if said is None else "Pinned the schedule.")


@blp.post("/pause")
def pause() -> ResponseReturnValue:
    """Pause a job, for a time or until it is resumed."""
    until = request.form.get("until", "")
    if until not in ("", "+1h", "+1d", "+7d"):
        raise invalid_field("form", "until", "Not one of the choices.")
    _change({"paused_until": times.parse_time(until, viewer().now_ms)} if until else {"paused": True})
    return _back("Paused.")


@blp.post("/resume")
def resume() -> ResponseReturnValue:
    """Resume a job."""
    _change({"paused": False})
    return _back("Resumed.")


@blp.post("/rename")
def rename() -> ResponseReturnValue:
    """Give a job another name; its history stays."""
    name = request.form.get("new_name", "").strip()
    _change({"name": name})
    flash(f"Renamed to {name}. Heartbeats under the old name make a new job.")
    return redirect(url_for("dashboard.job.page", name=name))


@blp.post("/delete")
def delete() -> ResponseReturnValue:
    """Delete a job with its runs."""
    name = request.form.get("name", "")
    services().heartbeats.delete_job(viewer().as_caller(), name)
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
        return said
    except ValueError as error:
        raise invalid_field("form", "schedule", str(error)) from error


def _seconds(field: str, otherwise: str) -> int:
    text = request.form.get(field, "").strip() or otherwise
    if not text.isascii() or not text.isdigit() or len(text) > 7:
        raise ValueError(f"The {field} must be a whole number of minutes.")
    return int(text) * 60


def _change(fields: dict[str, Any]) -> None:
    services().heartbeats.change_job(viewer().as_caller(), request.form.get("name", ""), fields)


def _back(words: str) -> ResponseReturnValue:
    flash(words)
    return redirect(url_for("dashboard.job.page", name=request.form.get("name", "")))
