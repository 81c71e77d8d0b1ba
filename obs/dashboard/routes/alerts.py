"""Incidents, those that last first, and planned silence."""

from flask import Blueprint, flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from obs import times
from obs.alerts import store
from obs.alerts.kinds import KINDS_BY_SEVERITY
from obs.dashboard.viewer import viewer
from obs.errors import invalid_field
from obs.heartbeat.store import maintenance
from obs.services import services

blp = Blueprint("alerts", __name__, url_prefix="/alerts")
_INCIDENTS_SHOWN = 200
_LONGEST_TITLE = 500


@blp.get("")
def page() -> ResponseReturnValue:
    """What lasts, what is past, and the maintenance windows."""
    looking = viewer()
    with looking.read() as db:
        found = store.incidents(db, limit=_INCIDENTS_SHOWN)
        windows = maintenance.windows(db)
    return render_template(
        "alerts.html",
        open=sorted((one for one in found if one.ended_at is None), key=lambda one: KINDS_BY_SEVERITY.index(one.kind)),
        past=[one for one in found if one.ended_at is not None],
        windows=windows,
    )


@blp.post("/maintenance")
def add_window() -> ResponseReturnValue:
    """Plan silence."""
    looking, form = viewer(), request.form
    title = form.get("title", "").strip() or "Maintenance"
    try:
        start, end = (times.parse_time(form.get(name, ""), looking.now_ms) for name in ("start", "end"))
    except ValueError as error:
        raise invalid_field("form", "time", str(error)) from error
    if len(title) > _LONGEST_TITLE:
        raise invalid_field("form", "title", "500 characters at most.")
    services().heartbeats.add_window(looking.as_caller(), start, end, title)
    flash("Planned.")
    return redirect(url_for("dashboard.alerts.page"))


@blp.post("/maintenance/<int(max=9223372036854775807):number>/delete")
def delete_window(number: int) -> ResponseReturnValue:
    """Delete a maintenance window."""
    services().heartbeats.delete_window(viewer().as_caller(), number)
    flash("Deleted.")
    return redirect(url_for("dashboard.alerts.page"))
