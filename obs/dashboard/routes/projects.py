"""Projects with their services and hosts."""

from flask import Blueprint, render_template
from flask.typing import ResponseReturnValue

from obs.dashboard.projects import roll_up
from obs.dashboard.viewer import viewer
from obs.heartbeat.states import STATES
from obs.heartbeat.store import jobs as job_store

blp = Blueprint("projects", __name__, url_prefix="/projects")
_MOST_JOBS = 100_000


@blp.get("")
def page() -> ResponseReturnValue:
    """A row a project, which opens to its services and hosts."""
    looking = viewer()
    with looking.read() as db:
        jobs = job_store.jobs(db, looking.now_ms, q=None, after=None, limit=_MOST_JOBS)
    return render_template("projects.html", projects=roll_up(jobs), states=STATES)
