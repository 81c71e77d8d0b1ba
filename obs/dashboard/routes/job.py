"""One job: what was learned of it and how its runs went; and one run with its timeline."""

from zoneinfo import ZoneInfo

from flask import Blueprint, render_template, request
from flask.typing import ResponseReturnValue

from obs.alerts import store as alert_store
from obs.dashboard import calendar, charts, marks, store, zones
from obs.dashboard.viewer import viewer
from obs.errors import ServiceError
from obs.heartbeat import pins
from obs.heartbeat.store import jobs as job_store
from obs.times import DAY_MS, HOUR_MS

blp = Blueprint("job", __name__, url_prefix="/job")
_RUNS_SHOWN = 25
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
    of_viewer = zones.of_viewer()
    zone = of_viewer or ZoneInfo("UTC")
    days = calendar.days(looking.now_ms, zone)
    today = max(days)
    with looking.read() as db:
        job, job_id = job_store.job(db, name, looking.now_ms), job_store.job_id(db, name)
        if job is None or job_id is None:
            raise ServiceError("job_not_found", f"There is no job named {name!r}.")
        runs = job_store.runs_of(db, job_id, before=_before(), limit=_RUNS_SHOWN + 1)
        loose = job_store.loose_events(db, job_id, _LOOSE_SHOWN)
        points = store.points(db, job_id, start, looking.now_ms, _POINTS)
        laid_over = marks.for_job(db, start, looking.now_ms, looking.now_ms, job.name)
        troubles = alert_store.incidents(db, limit=_TROUBLES_SHOWN, job_id=job_id)
        outcomes = store.outcomes_by_day(db, job_id, days)
    first_day = min(calendar.day_of(job.created_at, zone), *outcomes, today)
    return render_template(
        "job/page.html",
        job=job,
        pin=None if job.pin is None else pins.to_dict(job.pin),
        runs=runs[:_RUNS_SHOWN],
        more=runs[_RUNS_SHOWN - 1] if len(runs) > _RUNS_SHOWN else None,
        loose=loose,
        troubles=troubles,
        span=span,
        ranges=_RANGES,
        spec=charts.durations(points, laid_over, start, looking.now_ms) if points else None,
        calendar=calendar.draw(outcomes, _due(job, looking.now_ms, zone), first_day, today),
        zone=zone.key,
        zone_is_known=of_viewer is not None,
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
        beside = marks.for_job(db, run.started_at, end, looking.now_ms, run.job)
    return render_template(
        "job/run.html",
        run=run,
        events=timeline,
        before=before,
        after=after,
        beside=beside,
        is_live=run.status == "open",
    )


def _due(job: job_store.Job, now_ms: int, viewers_zone: ZoneInfo) -> dict[int, int]:
    """How many runs were due on each day of the calendar; nothing where no cron line says so, or too many do."""
    cron, zone = (job.learned.cron, job.learned.zone) if job.learned else (None, None)
    if job.pin is not None:
        pin = pins.to_dict(job.pin)
        cron, zone = pin.get("cron"), pin.get("timezone")
    if not cron or not zone or (job.interval_ms or 0) < HOUR_MS:
        return {}
    return calendar.due_by_day(cron, zone, now_ms - calendar.DAYS * DAY_MS, now_ms, viewers_zone)


def _before() -> tuple[int, int] | None:
    started_at, number = request.args.get("before", type=int), request.args.get("run", type=int)
    if started_at is None or number is None or not (0 <= started_at < 2**62 and 0 <= number < 2**62):
        return None
    return started_at, number
