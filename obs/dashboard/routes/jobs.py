"""The overview of all jobs, the start page."""

import json
from typing import Any

from flask import Blueprint, Response, get_template_attribute, jsonify, render_template, request
from flask.typing import ResponseReturnValue

from obs.dashboard import bars, store
from obs.dashboard.overview import SORTS, Choice, Overview, Row, look
from obs.dashboard.viewer import Viewer, viewer
from obs.heartbeat.states import STATES
from obs.heartbeat.store import jobs as job_store
from obs.services import services
from obs.tenancy import service

blp = Blueprint("jobs", __name__)
_MOST_JOBS = 100_000
_MOST_BYTES = 22_000  # of rows; with their order and the counts an answer stays below 30 KB


@blp.get("/")
def page() -> ResponseReturnValue:
    """All jobs with their states; how to send a first heartbeat where there are none."""
    looking = viewer()
    seen = _overview(looking)
    if not seen.total:
        return render_template("jobs/empty.html", ingest_url=services().tenancy.ingest.url(looking.org))
    return render_template("jobs/page.html", seen=seen, columns=_COLUMNS)


@blp.get("/jobs/changes")
def changes() -> Response:
    """What differs from the page that the browser holds: of its rows it sends id and version in X-Have.

    Where that is much, the answer is a part of it and says that there is more.
    """
    looking, bytes_left = viewer(), _MOST_BYTES
    seen = _overview(looking)
    held = dict(entry.split(":", 1) for entry in request.headers.get("X-Have", "").split(",") if ":" in entry)
    now = {str(row.id): row for row in seen.rows}
    draw_row = get_template_attribute("jobs/table.html", "job_row")
    rows: dict[str, str] = {}
    differing = [number for number, row in now.items() if held.get(number) != row.version]
    for number in differing:
        rows[number] = draw_row(now[number], looking.now_ms)
        bytes_left -= len(json.dumps(rows[number]))
        if bytes_left < 0:
            if len(rows) > 1:
                del rows[number]
            break
    answer: dict[str, Any] = {"rows": rows}
    order = [number for number in now if number in held or number in rows]
    if order != list(held):
        answer["order"] = order
    if len(rows) < len(differing):
        answer["more"] = True
    elif rows or "order" in answer:
        answer["summary"] = get_template_attribute("jobs/table.html", "summary")(seen)
        answer["trouble"] = seen.in_trouble
    response = jsonify(answer)
    response.headers["Cache-Control"] = "no-store"
    return response


@blp.post("/first-key")
def make_first_key() -> ResponseReturnValue:
    """The page of an organization without jobs once more, with a new key filled in."""
    looking = viewer()
    created = service.create_key(services().tenancy, looking.org, "first heartbeat")
    ingest_url = services().tenancy.ingest.url(looking.org)
    return render_template("jobs/empty.html", ingest_url=ingest_url, key=created.secret)


_COLUMNS = (
    ("state", "State"),
    ("name", "Job"),
    ("outcome", "Last outcome"),
    ("last", "Last run"),
    ("next", "Next expected"),
    ("interval", "Schedule"),
    ("duration", "Average"),
    ("runs", "Count"),
)


def _overview(looking: Viewer) -> Overview:
    with looking.read() as db:
        jobs = job_store.jobs(db, looking.now_ms, q=None, after=None, limit=_MOST_JOBS)
        recent = store.recent_runs(db, bars.SHOWN)
    rows = [
        Row(last.job_id, job, last.runs, last.version) for job in jobs if (last := recent.get(job.name)) is not None
    ]
    return look(rows, _choice())


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
        descending=bool(get("desc")),
        page=int(number) if number.isascii() and number.isdigit() and len(number) < 6 else 1,
    )
