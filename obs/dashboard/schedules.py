"""When a job is expected, in words and as the values of the schedule form. Pure.

The only module of the pages that reads `Job.pin` and `Job.learned`. Durations are milliseconds.
"""

import re
from datetime import UTC, datetime
from typing import NamedTuple

from cronsim import CronSim, CronSimError

from obs.dashboard import wording
from obs.heartbeat import pins
from obs.heartbeat.pins import Cron, Interval, Never
from obs.heartbeat.store.jobs import Job
from obs.times import MINUTE_MS, SECOND_MS

_SEVERAL_TIMES = re.compile(r"(.*) at (\d\d:\d\d), (?:\d\d:\d\d, )+\d\d:\d\d and (\d\d:\d\d)", re.ASCII)
_CRON_FIELDS = {
    "second": "0-59",
    "minute": "0-59",
    "hour": "0-23",
    "day-of-month": "1-31, and a day that the month has",
    "month": "1-12 or JAN-DEC",
    "day-of-week": "0-7 or SUN-SAT",
}


class Due(NamedTuple):
    """When a job is due: by a cron expression in a zone, or if that is empty, `interval_ms` after the previous run."""

    cron: str
    zone: str
    interval_ms: int


class Explanation(NamedTuple):
    """What a job's page says about its schedule, where it comes from, and the cron expression of a learned one."""

    schedule: str
    source: str
    cron: str | None = None


def due(job: Job) -> Due | None:
    """When `job` is due; None where nothing is expected of it: it is new, irregular or never overdue."""
    match job.pin:
        case Cron(expression, zone):
            return None if job.interval_ms is None else Due(expression, zone, job.interval_ms)
        case Interval(interval_ms):
            return Due("", "UTC", interval_ms)
        case Never():
            return None
    if job.interval_ms is None or job.learned is None or job.learned.state != "regular":
        return None
    return Due(job.learned.cron or "", job.learned.zone, job.interval_ms)


def in_brief(job: Job) -> tuple[str, str]:
    """The schedule in a few words, and its time zone; both are empty while it is not known."""
    match job.pin:
        case Cron(expression, zone):
            return expression, zone
        case Interval(interval_ms):
            return wording.interval(interval_ms), ""
        case Never():
            return "never overdue", ""
    # A schedule at fixed times ends with their zone; any other is shown as an interval.
    if job.learned is not None and job.learned.summary.endswith(f", {job.learned.zone}"):
        return shorten(job.learned.summary.removesuffix(f", {job.learned.zone}")), job.learned.zone
    return ("" if job.interval_ms is None else f"roughly {wording.interval(job.interval_ms)}"), ""


def shorten(summary: str) -> str:
    """A learned schedule with many times of the day as their number: ``12 times a day, 00:20-22:20``."""
    found = _SEVERAL_TIMES.fullmatch(summary)
    if found is None:
        return summary
    days = "" if found[1] == "Every day" else f"{found[1]}, "
    return f"{days}{summary.count(':')} times a day, {found[2]}-{found[3]}"


def explain(job: Job) -> Explanation | None:
    """The schedule and where it comes from; None for a job that nothing has been learned of yet."""
    if job.pin is not None:
        grace = "" if isinstance(job.pin, Never) else f", {wording.duration(job.pin.grace_ms)} grace period"
        schedule, zone = in_brief(job)
        return Explanation(_capitalized(f"{schedule}, {zone}" if zone else schedule), f"Set manually{grace}.")
    if job.learned is None:
        return None
    match job.learned.state:
        case "regular" | "irregular":
            evidence = f"{job.learned.evidence}." if job.learned.evidence else ""
            return Explanation(job.learned.summary, evidence, job.learned.cron)
        case _:
            source = "The schedule is learned from past runs. There is nothing to configure."
            return Explanation(job.learned.summary, source)


def reason(job: Job) -> str:
    """Why a learned job becomes overdue when it does; empty when nothing says so."""
    return "" if job.pin is not None or job.learned is None else job.learned.expected.partition(" because ")[2]


def form_values(job: Job) -> dict[str, str]:
    """The schedule form: kind (learn, cron, interval or never), cron, timezone, and interval and grace in minutes.

    The cron expression that was learned is a suggestion for a job without a pin.
    """
    pin = {} if job.pin is None else pins.to_dict(job.pin)
    kind = next((name for name in ("cron", "never") if pin.get(name)), "interval" if pin else "learn")
    cron = pin.get("cron") or (job.learned.cron if job.learned else None) or ""
    zone = pin.get("timezone") or (job.learned.zone if job.learned else None) or "UTC"
    return {
        "kind": kind,
        "cron": cron,
        "timezone": zone,
        "interval": _minutes(pin.get("interval_seconds")),
        "grace": _minutes(pin.get("grace_seconds", MINUTE_MS // SECOND_MS)),
    }


def cron_problem(expression: str) -> str | None:
    """What is wrong with a cron expression: ``Invalid minute "61": use 0-59.``; None if it is valid."""
    try:
        CronSim(expression, datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        parts, names = expression.split(), list(_CRON_FIELDS)
        name = str(error).removeprefix("Bad ")
        if name not in names:
            return "Enter five fields: minute, hour, day of month, month and day of week."
        value = parts[names.index(name) - len(names)]  # from the end: the field for seconds is optional
        return f'Invalid {name.replace("-", " ")} "{value}": use {_CRON_FIELDS[name]}.'
    return None


def _minutes(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds / 60:.4f}".rstrip("0").rstrip(".")


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]
