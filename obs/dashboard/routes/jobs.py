"""The overview of all jobs: the start page."""

import json
from typing import Any

from flask import Blueprint, Response, get_template_attribute, jsonify, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from obs.dashboard import bars, store
from obs.dashboard.overview import SORTS, Choice, Overview, Row, select
from obs.dashboard.sessions import keep_new_key, take_new_key, viewer
from obs.heartbeat.states import STATES
from obs.heartbeat.store import jobs as job_store
from obs.services import services
from obs.tenancy import service
from obs.tenancy.auth import Caller

blp = Blueprint("jobs", __name__)
_MOST_JOBS = 100_000
_MOST_BYTES = 22_000  # of rows; with their order and the counts, a response stays below 30 KB


@blp.get("/")
def page() -> ResponseReturnValue:
    """All jobs with their states; if there are none, how to send the first heartbeat."""
    caller = viewer()
    overview = _overview(caller)
    if not overview.total:
        ingest_url = services().tenancy.ingest.url(caller.org.slug)
        return render_template("jobs/empty.html", ingest_url=ingest_url, key=take_new_key())
    return render_template("jobs/page.html", overview=overview, columns=_COLUMNS)


@blp.get("/jobs/changes")
def changes() -> Response:
    """The changes since the page that the browser shows, whose rows it sends as ids and versions in X-Have.

    A response contains at most _MOST_BYTES of rows; "more" says that there are more changes to fetch.
    """
    caller, bytes_left = viewer(), _MOST_BYTES
    overview = _overview(caller)
    shown = dict(entry.split(":", 1) for entry in request.headers.get("X-Have", "").split(",") if ":" in entry)
    now = {str(row.job.id): row for row in overview.rows}
    draw_row = get_template_attribute("jobs/table.html", "job_row")
    rows: dict[str, str] = {}
    differing = [number for number, row in now.items() if shown.get(number) != row.version]
    for number in differing:
        rows[number] = draw_row(now[number], caller.now_ms)
        bytes_left -= len(json.dumps(rows[number]))
        if bytes_left < 0:
            if len(rows) > 1:
                del rows[number]
            break
    changed: dict[str, Any] = {"rows": rows}
    order = [number for number in now if number in shown or number in rows]
    if order != list(shown):
        changed["order"] = order
    if len(rows) < len(differing):
        changed["more"] = True
    elif rows or "order" in changed:
        changed["summary"] = get_template_attribute("jobs/table.html", "summary")(overview)
        changed["trouble"] = overview.in_trouble
    response = jsonify(changed)
    response.headers["Cache-Control"] = "no-store"
    return response


@blp.post("/first-key")
def create_first_key() -> ResponseReturnValue:
    """Create a key; the page of an organization without jobs then shows it in its command."""
    keep_new_key(service.create_key(services().tenancy, viewer().org, "first heartbeat", actor=viewer().actor).key)
    return redirect(url_for("dashboard.jobs.page"))


_COLUMNS = (
    ("state", "Status"),
    ("name", "Job"),
    ("outcome", "Last result"),
    ("last", "Last run"),
    ("next", "Next expected"),
    ("interval", "Schedule"),
    ("duration", "Typical duration"),
    ("runs", "Runs"),
)


def _overview(caller: Caller) -> Overview:
    with caller.read() as db:
        jobs = job_store.jobs(db, caller.now_ms, q=None, after=None, limit=_MOST_JOBS)
        recent = store.recent_runs(db, bars.SHOWN)
    return select([Row(job, *recent[job.id]) for job in jobs if job.id in recent], _choice())


def _choice() -> Choice:
    get = request.args.get
    state, sort, number = get("state", ""), get("sort", "state"), get("page", "1")
    return Choice(
        state=state if state in STATES else "",
        q=get("q", "").strip(),
        project=get("project", ""),
        service=get("service", ""),
        host=get("host", ""),
        sort=sort if sort in SORTS else "state",
        desc="1" if get("desc") else "",
        page=int(number) if number.isascii() and number.isdigit() and len(number) < 6 else 1,
    )
