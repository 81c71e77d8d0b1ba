"""The overview of all jobs, which is the start page, and their projects with services and hosts."""

import time
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

from flask import Blueprint, Response, abort, get_template_attribute, render_template, request
from flask.typing import ResponseReturnValue
from markupsafe import Markup

from obs.api import PLACE, load
from obs.dashboard import drawings, forms, store
from obs.dashboard.overview import SORTS, Choice, select, version
from obs.dashboard.sessions import require_admin, take_new_key, viewer
from obs.errors import ServiceError
from obs.heartbeat.runs import PROBLEMS, STATES, TROUBLE
from obs.heartbeat.schemas import JobChangesSchema
from obs.heartbeat.store.jobs import Job
from obs.services import services

blp = Blueprint("jobs", __name__)
projects = Blueprint("projects", __name__, url_prefix="/projects")
PAUSES = {"+1h": "1 hour", "+1d": "1 day", "+7d": "1 week", "": "until I resume it"}
_BULK_SECONDS = 20.0  # about how long one request changes jobs: proxies end a request that takes a minute


@blp.get("/")
def page() -> ResponseReturnValue:
    overview = services().overviews(viewer().org).show(viewer(), _choice())
    if not overview.everything:
        return render_template("jobs/empty.html", key=take_new_key())
    return render_template("jobs/page.html", overview=overview, rows=_rows(overview.jobs), pauses=PAUSES)


@blp.get("/jobs/changes")
def changes() -> ResponseReturnValue:
    """What differs from the rows in X-Have (ids and versions); 204 if no job has changed since the version `since`."""
    overview = services().overviews(viewer().org).show(viewer(), _choice())
    if request.args.get("since") == str(overview.version):
        return "", 204
    shown = dict(entry.split(":", 1) for entry in request.headers.get("X-Have", "").split(",") if ":" in entry)
    now = {str(job.id): version(job) for job in overview.jobs}
    draw_row = get_template_attribute("jobs/table.html", "job_row")
    differing = [job for job in overview.jobs if shown.get(str(job.id)) != now[str(job.id)]]
    changed: dict[str, Any] = {
        "version": str(overview.version),
        "summary": get_template_attribute("jobs/table.html", "summary")(overview),
        "rows": {str(job.id): draw_row(job, *rest, viewer()) for job, *rest in _rows(differing)},
    }
    if list(now) != list(shown):
        changed["order"] = list(now)
    return changed


def page_version(*shown: object) -> str:
    """The version of a page, which changes with what it shows. Ends the request with 204 if the browser has it."""
    found = version(services().overviews(viewer().org).show(viewer()).in_trouble, *shown)  # of the title too
    if request.headers.get("X-Have") == found:
        abort(Response(status=204))
    return found


@blp.get("/jobs/trouble")
def trouble() -> str:
    return str(services().overviews(viewer().org).show(viewer()).in_trouble)


@blp.route("/jobs/delete", methods=["GET", "POST"])
def delete() -> ResponseReturnValue:
    caller, prefix = require_admin(), request.values.get("prefix", "")
    counted = services().heartbeats.delete_jobs(caller, prefix, dry_run=request.method == "GET") if prefix else {}
    if not prefix or request.method == "GET" or counted["remaining"]:
        return render_template("jobs/delete.html", prefix=prefix, **counted)
    return forms.saved(f"Jobs deleted: {counted['deleted']:,}.", "dashboard.jobs.page")


@blp.post("/jobs/selected/<any(pause, resume, delete):action>")
def change_selected(action: str) -> ResponseReturnValue:
    """Pause, resume or delete the selected jobs, or all that match the filters, for a limited time."""
    caller, choice = viewer(), _choice()
    everything = services().overviews(caller.org).show(caller).everything
    ids = set(request.form.getlist("job", type=int))
    if "all" in request.form:  # jobs that are paused or resumed already stay as they are
        everything = [job for job in everything if action == "delete" or job.paused is not (action == "pause")]
        ids = set(select(choice, everything)[0])
    jobs = [job for job in everything if job.id in ids]
    if "confirmed" not in request.form and (action == "delete" or not (jobs or "all" in request.form)):
        return render_template("jobs/delete.html", jobs=jobs, choice=choice)
    until = forms.chosen_time("until", PAUSES) if action == "pause" else None
    changes = load(JobChangesSchema, {"paused": action == "pause"} | ({"paused_until": until} if until else {}))
    end, names, heartbeats = time.monotonic() + _BULK_SECONDS, [job.name for job in jobs], services().heartbeats
    change = heartbeats.delete_job if action == "delete" else partial(heartbeats.change_job, changes=changes)
    while names and time.monotonic() < end:
        try:
            change(caller, names.pop(0))
        except ServiceError as error:
            if error.error != "job_not_found":  # somebody has deleted or renamed it meanwhile
                raise
    message = f"Jobs {action.removesuffix('e')}ed: {len(jobs) - len(names):,}."
    message += f" {len(names):,} remain: do it again." if names else ""
    return forms.saved(message, "dashboard.jobs.page", **choice.parameters())


def _rows(jobs: Sequence[Job]) -> list[tuple[Job, Markup, str | None]]:
    with viewer().read() as db:
        runs = store.recent_runs(db, [job.id for job in jobs], drawings.BARS)
        troubled = [job.id for job in jobs if job.status in PROBLEMS]
        last = {job_id: run.id for job_id in troubled for run in runs[job_id] if run.status in PROBLEMS}
        errors = store.error_lines(db, last) if last else {}
    return [(job, drawings.bars_of_job(job, runs[job.id], viewer().now_ms), errors.get(job.id)) for job in jobs]


def _choice() -> Choice:
    get = request.args.get
    state, sort, number = get("state", ""), get("sort", "state"), get("page", "1")
    return Choice(
        state=state if state in STATES else "",
        q=get("q", "").strip(),
        **{name: get(name, "") for name in PLACE},
        sort=sort if sort in SORTS else "state",
        desc="1" if get("desc") else "",
        page=int(number) if number.isascii() and number.isdigit() and len(number) < 6 else 1,
    )


@projects.get("", endpoint="page")
def projects_page() -> ResponseReturnValue:
    jobs = sorted(services().overviews(viewer().org).show(viewer()).everything, key=lambda job: job.name)
    return render_template("projects.html", jobs=jobs, parts=_parts, states=STATES, trouble=TROUBLE)


def _parts(jobs: Sequence[Job], attribute: str) -> list[tuple[str | None, list[Job]]]:
    """Jobs by their project, service or host; those with most jobs in trouble first, those without a name last."""
    found = defaultdict[str | None, list[Job]](list)
    for job in sorted(jobs, key=lambda job: (getattr(job, attribute) or "").casefold()):
        found[getattr(job, attribute)].append(job)
    return sorted(found.items(), key=lambda part: (part[0] is None, -sum(job.status in TROUBLE for job in part[1])))
