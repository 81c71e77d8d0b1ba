"""Incidents, open ones first, and maintenance windows."""

from flask import Blueprint, render_template
from flask.typing import ResponseReturnValue

from obs.alerts.store import incidents
from obs.api import ROW_ID, load
from obs.dashboard import forms
from obs.dashboard.forms import Form
from obs.dashboard.routes import page_version
from obs.dashboard.sessions import viewer
from obs.heartbeat.schemas import MaintenanceWindowSchema
from obs.heartbeat.store import maintenance
from obs.services import services

blp = Blueprint("incidents", __name__, url_prefix="/incidents")
_FIELDS = ("title", "start_time", "end_time")


@blp.get("")
def page(form: Form | None = None) -> str:
    caller = viewer()
    with caller.read() as db:
        windows = maintenance.windows(db)
        found = incidents.incidents(db, limit=200)
        version = page_version([(one.id, one.ended_at, one.notified) for one in found], windows)
    return render_template(
        "incidents.html",
        found=found,
        windows=windows,
        form=form or Form({"title": "Maintenance"}),
        version=None if form else version,
    )


@blp.post("/maintenance")
@forms.shown_again(page)
def add_window() -> ResponseReturnValue:
    window = load(MaintenanceWindowSchema, forms.entered(_FIELDS, times=("start_time", "end_time")))
    services().heartbeats.add_window(viewer(), **window)
    return forms.saved("Maintenance scheduled.", "dashboard.incidents.page")


@blp.post(f"/maintenance/<{ROW_ID}:number>/delete")
def delete_window(number: int) -> ResponseReturnValue:
    services().heartbeats.delete_window(viewer(), number)
    return forms.saved("Maintenance window deleted.", "dashboard.incidents.page")
