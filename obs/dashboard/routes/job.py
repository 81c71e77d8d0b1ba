"""A job: its schedule, its history, and the forms that change it. A run, with its timeline."""

from datetime import date
from functools import partial
from itertools import islice
from typing import Any

from flask import Blueprint, render_template, request
from flask.typing import ResponseReturnValue

from obs.alerts.store import incidents as alert_store
from obs.api import ROW_ID, load, page_of
from obs.dashboard import drawings, forms, schedules, store
from obs.dashboard.routes.jobs import PAUSES, page_version
from obs.dashboard.sessions import is_admin, viewer
from obs.errors import invalid_field
from obs.heartbeat.pins import cron_times
from obs.heartbeat.runs import PROBLEMS, STATUSES, TROUBLE
from obs.heartbeat.schemas import JobChangesSchema
from obs.heartbeat.service import known_job
from obs.heartbeat.store import expectations, jobs as job_store, maintenance
from obs.services import services
from obs.times import DAY_MS

blp = Blueprint("job", __name__, url_prefix="/job")
_RUNS_SHOWN = 25
_RANGES = {"24h": 1, "7d": 7, "30d": 30, "90d": 90}
_WORDS = {"ranges": _RANGES, "statuses": STATUSES, "problems": PROBLEMS, "pauses": PAUSES}


@blp.get("")
def page(**refused: forms.Form) -> str:
    """The name is in the query string: a path would lose dots. `refused` are forms to show as they were submitted."""
    caller, span, cursor = viewer(), request.args.get("range", ""), request.args.get("cursor") or None
    span = span if span in _RANGES else "30d"
    show, zone = request.args.get("show"), forms.form_zone()
    end = request.args.get("day", type=lambda day: drawings.midnight(date.fromisoformat(day).toordinal() + 1, zone))
    now_ms, start = caller.now_ms, caller.now_ms - _RANGES[span] * DAY_MS
    today = drawings.day_of(now_ms, zone)
    with caller.read() as db:
        job = known_job(db, _name(), now_ms)
        incidents = alert_store.incidents(db, limit=10, job_id=job.id)
        windows = maintenance.windows(db, now_ms, job.id)
        version = page_version(job, incidents, windows, today)
        slow_ms = (job.avg_duration_ms or 0) * 1.5
        status, longest_ms = show if show in PROBLEMS else None, slow_ms if show == "slow" else None
        read = partial(job_store.runs_of, db, job.id, status=status, end_ms=end, longer_than_ms=longest_ms)
        runs = page_of("runs", {"limit": _RUNS_SHOWN, "cursor": cursor}, read, "started_at", "id")
        days = drawings.days(now_ms, zone)
        results = store.results_by_day(db, job.id, days)
        found: dict[str, Any] = {
            "incidents_shown": incidents,
            "errors": store.error_lines(db, {run.id: run.id for run in runs["runs"] if run.status in PROBLEMS}),
            "loose_events": job_store.loose_events(db, job.id, limit=20),
            "hosts": expectations.streams_of(db, job.id),
            "points": store.points(db, job.id, start, now_ms),
            "annotations": store.annotations(db, start, now_ms, now_ms, job=job.name),
            "trouble": store.trouble(db, job) if job.status in TROUBLE else None,
        }
    until_ms = now_ms if job.overdue else job.last_heartbeat_at or job.created_at
    first_ms = job.first_heartbeat_at or job.created_at
    missed = schedules.missed_by_day(schedules.due(job), results, days, first_ms, until_ms)
    found |= {"job": job, "windows": windows, "span": span, "start": start, "slow_ms": slow_ms}
    return render_template(
        "job/page.html",
        ping_url=services().heartbeats.ping_url(caller, job.id, creates=False) if is_admin(caller) else None,
        calendar=drawings.calendar(results, missed, drawings.day_of(first_ms, zone), today),
        pin=refused.get("pin") or forms.Form(schedules.form_values(job)),
        pause=refused.get("pause") or forms.Form({}),
        rename=refused.get("rename") or forms.Form({"new_name": job.name}),
        version=None if refused else version,
        **found,
        **runs,
        **_WORDS,
    )


@blp.post("/pin")
@forms.shown_again(lambda form: page(pin=form), "kind", interval_seconds="interval", grace_seconds="grace")
def save_pin() -> ResponseReturnValue:
    pin = _entered_pin(request.form.get("kind", ""))
    return _changed({"pin": pin}, "Schedule reset to learned." if pin is None else "Schedule saved.")


@blp.post("/schedule-changed")
def schedule_changed() -> ResponseReturnValue:
    since = forms.chosen_time("since", ("now", "-1h", "-1d", "-7d"))
    return _changed({"schedule_changed_at": since}, "The schedule is learned from the heartbeats since then.")


@blp.post("/pin/times")
def pin_times() -> list[int]:
    """At most 1,000 times of the cron expression in the form, in milliseconds: those after `since`, by default now."""
    pin, now_ms = load(JobChangesSchema, {"pin": _entered_pin("cron")})["pin"], viewer().now_ms
    since = min(max(0, request.form.get("since", now_ms, type=int)), now_ms)
    return list(islice(cron_times(pin.expression, pin.zone, since), 1000))


@blp.post("/<any(pause, resume):action>")
@forms.shown_again(lambda form, action: page(pause=form), "until")
def pause(action: str) -> ResponseReturnValue:
    until = forms.chosen_time("until", PAUSES) if action == "pause" else None
    changes = {"paused": action == "pause"} | ({"paused_until": until} if until else {})
    return _changed(changes, f"Job {action.removesuffix('e')}ed.")


@blp.post("/ping-url")
def replace_ping_url() -> ResponseReturnValue:
    return _changed({"ping_uuid": None}, "The job has a new ping URL.")


@blp.post("/rename")
@forms.shown_again(lambda form: page(rename=form), "new_name")
def rename() -> ResponseReturnValue:
    name = request.form.get("new_name", "").strip()
    effect = "Heartbeats sent to the old name will create a new job; update your crontab."
    return _changed({"name": name}, f"Renamed to {name}. {effect}")


@blp.post("/delete")
def delete() -> ResponseReturnValue:
    services().heartbeats.delete_job(viewer(), _name())
    return forms.saved(f"Deleted {_name()}.", "dashboard.jobs.page")


@blp.get(f"/run/<{ROW_ID}:number>")
def run_page(number: int) -> ResponseReturnValue:
    caller = viewer()
    with caller.read() as db:
        run = job_store.run(db, number)
        version = page_version(run, job_store.job(db, run.job, caller.now_ms))
        timeline, left_out = job_store.timeline(db, number)
        before, after = store.neighbours(db, run.job, run.started_at, run.id)
        end = run.ended_at if run.ended_at is not None else caller.now_ms
        annotations = store.annotations(db, run.started_at, end, caller.now_ms, job=run.job)
    shown = {"before": before, "after": after, "annotations": annotations, "version": version, "left_out": left_out}
    return render_template("job/run.html", run=run, events=timeline, **shown)


def _entered_pin(kind: str) -> dict[str, object] | None:
    form, minutes = request.form, partial(forms.seconds, unit="minutes", unit_seconds=60)
    match kind:
        case "learn":
            return None
        case "never":
            return {"never": True}
        case "cron":
            expression, zone = form.get("cron", "").strip(), form.get("timezone", "").strip() or "UTC"
            return {"cron": expression, "timezone": zone, "grace_seconds": minutes("grace", default="1")}
        case "interval":
            return {"interval_seconds": minutes("interval"), "grace_seconds": minutes("grace", default="1")}
    raise invalid_field("json", "kind", "Choose one of the options.")


def _name() -> str:
    return request.args.get("name", "")


def _changed(fields: dict[str, Any], message: str) -> ResponseReturnValue:
    services().heartbeats.change_job(viewer(), _name(), load(JobChangesSchema, fields))
    return forms.saved(message, "dashboard.job.page", name=fields.get("name", _name()))
