"""One job: what was learned of it and how its runs went; and one run with its timeline."""

from flask import Blueprint, render_template, request
from flask.typing import ResponseReturnValue

from obs.alerts import store as alert_store
from obs.dashboard import calendar, charts, marks, store
from obs.dashboard.viewer import viewer
from obs.errors import ServiceError
from obs.heartbeat.store import jobs as job_store
from obs.times import DAY_MS, HOUR_MS

blp = Blueprint("job", __name__, url_prefix="/job")
_RUNS_SHOWN = 50
_LOOSE_SHOWN = 20
_TROUBLES_SHOWN = 10
_POINTS = 600
_RANGES = {"24h": 1, "7d": 7, "30d": 30, "90d": 90}


@blp.get("")
def page() -> ResponseReturnValue:
    """The job of the name in the query string: a name may hold any character, and dots that a path would lose."""
    looking, name = viewer(), request.args.get("name", "")
    span = request.args.get("range", "")
    span = span if span in _RANGES else "30d"
    start = looking.now_ms - _RANGES[span] * DAY_MS
    with looking.read() as db:
        job, job_id = job_store.job(db, name, looking.now_ms), job_store.job_id(db, name)
        if job is None or job_id is None:
            raise ServiceError("job_not_found", f"There is no job named {name!r}.")
        runs = job_store.runs_of(db, job_id, before=_before(), limit=_RUNS_SHOWN + 1)
        loose = job_store.loose_events(db, job_id, _LOOSE_SHOWN)
        points = store.points(db, job_id, start, looking.now_ms, _POINTS)
        laid_over = marks.between(db, start, looking.now_ms, looking.now_ms)
        troubles = alert_store.incidents(db, limit=_TROUBLES_SHOWN, job_id=job_id)
        days = store.outcomes_by_day(db, job_id, (looking.now_ms // DAY_MS - calendar.DAYS + 1) * DAY_MS)
    first_ms = min(job.created_at, *(day * DAY_MS for day in days), looking.now_ms)
    return render_template(
        "job/page.html",
        job=job,
        runs=runs[:_RUNS_SHOWN],
        more=runs[_RUNS_SHOWN - 1] if len(runs) > _RUNS_SHOWN else None,
        loose=loose,
        troubles=troubles,
        span=span,
        ranges=_RANGES,
        spec=charts.durations(points, laid_over, start, looking.now_ms) if points else None,
        calendar=calendar.draw(days, _due(job, looking.now_ms), first_ms, looking.now_ms),
    )


@blp.get("/run/<int(max=9223372036854775807):number>")
def run_page(number: int) -> ResponseReturnValue:
    """A run with its timeline."""
    looking = viewer()
    with looking.read() as db:
        run = job_store.run(db, number)
        if run is None:
            raise ServiceError("run_not_found", f"There is no run {number}.")
        timeline = job_store.timeline(db, number)
        before, after = store.neighbours(db, run.job, run.started_at, run.id)
        end = run.ended_at if run.ended_at is not None else looking.now_ms
        beside = marks.between(db, run.started_at, end, looking.now_ms)
    return render_template(
        "job/run.html",
        run=run,
        timeline=timeline,
        before=before,
        after=after,
        beside=beside,
        is_live=run.status == "open",
    )


def _due(job: job_store.Job, now_ms: int) -> dict[int, int]:
    """How many runs were due on each day of the calendar; nothing where no cron line says so, or too many do."""
    said = job.pin or job.learned or {}
    cron, zone = said.get("cron"), said.get("timezone") or said.get("zone")
    if not cron or not zone or (job.expected_interval_ms or 0) < HOUR_MS:
        return {}
    return calendar.due_by_day(cron, zone, now_ms - calendar.DAYS * DAY_MS, now_ms)


def _before() -> tuple[int, int] | None:
    started_at, number = request.args.get("before", type=int), request.args.get("run", type=int)
    if started_at is None or number is None or not (0 <= started_at < 2**62 and 0 <= number < 2**62):
        return None
    return started_at, number
