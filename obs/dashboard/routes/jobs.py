"""The overview of all jobs: the start page."""

import json
from collections.abc import Sequence
from typing import Any

from flask import Blueprint, flash, get_template_attribute, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from markupsafe import Markup

from obs.dashboard import bars, store
from obs.dashboard.overview import SORTS, Choice, version
from obs.dashboard.sessions import keep_new_key, require_admin, take_new_key, viewer
from obs.heartbeat.runs import STATES
from obs.heartbeat.store.jobs import Job
from obs.services import services
from obs.tenancy import service
from obs.tenancy.auth import Caller

blp = Blueprint("jobs", __name__)
_MOST_BYTES = 22_000  # of rows; with their order and the counts, a response stays below 30 KB


@blp.get("/")
def page() -> ResponseReturnValue:
    """All jobs with their states; if there are none, how to send the first heartbeat."""
    caller = viewer()
    overview = services().overviews.of(caller.org).show(caller, _choice())
    assert overview is not None
    if not overview.everything:
        ingest_url = services().tenancy.ingest.url(caller.org.slug)
        return render_template("jobs/empty.html", ingest_url=ingest_url, key=take_new_key())
    return render_template("jobs/page.html", overview=overview, rows=_rows(caller, overview.jobs))


@blp.get("/jobs/changes")
def changes() -> ResponseReturnValue:
    """The changes since the page that the browser shows, whose rows it sends as ids and versions in X-Have.

    A response contains at most _MOST_BYTES of rows; "more" says that there are more changes to fetch. `since` is the
    "version" of the last complete response: the response is 204 while no job has changed.
    """
    caller, bytes_left = viewer(), _MOST_BYTES
    overview = services().overviews.of(caller.org).show(caller, _choice(), request.args.get("since", ""))
    if overview is None:
        return "", 204
    shown = dict(entry.split(":", 1) for entry in request.headers.get("X-Have", "").split(",") if ":" in entry)
    now = {str(job.id): version(job) for job in overview.jobs}
    draw_row = get_template_attribute("jobs/table.html", "job_row")
    rows: dict[str, str] = {}
    differing = [job for job in overview.jobs if shown.get(str(job.id)) != now[str(job.id)]]
    for job, drawn in _rows(caller, differing):
        html = draw_row(job, drawn, caller.now_ms)
        bytes_left -= len(json.dumps(html))
        if bytes_left < 0 and rows:
            break
        rows[str(job.id)] = html
    changed: dict[str, Any] = {"rows": rows}
    order = [number for number in now if number in shown or number in rows]
    if order != list(shown):
        changed["order"] = order
    if bytes_left < 0:
        changed["more"] = True
    else:
        changed["version"] = str(overview.version)
        changed["summary"] = get_template_attribute("jobs/table.html", "summary")(overview)
        changed["trouble"] = overview.in_trouble
    return changed


@blp.route("/jobs/delete", methods=["GET", "POST"])
def delete() -> ResponseReturnValue:
    """Ask whether to delete the jobs with a prefix, stating their number; then delete them."""
    caller, prefix = require_admin(), request.values.get("prefix", "")
    counted = services().heartbeats.delete_jobs(caller, prefix, dry_run=request.method == "GET")
    if request.method == "GET" or counted["remaining"]:
        return render_template("jobs/delete.html", prefix=prefix, **counted)
    flash(f"Jobs deleted: {counted['deleted']:,}.")
    return redirect(url_for("dashboard.jobs.page"))


@blp.post("/first-key")
def create_first_key() -> ResponseReturnValue:
    """Create a key; the page of an organization without jobs then shows it in its command."""
    keep_new_key(service.create_key(services().tenancy, viewer().org, "first heartbeat", actor=viewer().actor).key)
    return redirect(url_for("dashboard.jobs.page"))


def _rows(caller: Caller, jobs: Sequence[Job]) -> list[tuple[Job, Markup]]:
    """Jobs with their last runs as bars."""
    with caller.read() as db:
        runs = store.recent_runs(db, [job.id for job in jobs], bars.SHOWN)
    return [(job, bars.of_job(job, runs[job.id], caller.now_ms)) for job in jobs]


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
