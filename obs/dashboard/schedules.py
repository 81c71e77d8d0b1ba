"""When a job is due, and its schedule in a few words and as the values of the schedule form. Pure.

Times and durations are milliseconds.
"""

from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

from obs.dashboard import wording
from obs.heartbeat.pins import Cron, Interval, Never, cron_times
from obs.heartbeat.store.jobs import Job
from obs.times import MINUTE_MS


class Due(NamedTuple):
    """When a job is due: by a cron expression in a zone, or if that is empty, `interval_ms` after the previous run."""

    cron: str
    zone: str
    interval_ms: int

    def slots(self, start_ms: int, end_ms: int) -> Iterator[int]:
        """The moments of the cron expression after the start and up to the end."""
        return takewhile(lambda slot_ms: slot_ms <= end_ms, cron_times(self.cron, self.zone, start_ms))


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
            return wording.interval(interval_ms).capitalize(), ""
        case Never():
            return "Never overdue", ""
    # A schedule at fixed times ends with their zone; any other without a cron expression is shown as an interval.
    if job.learned is not None:
        summary = job.learned.summary.removesuffix(f", {job.learned.zone}")
        if summary != job.learned.summary or job.learned.cron:
            return summary, job.learned.zone if summary != job.learned.summary else ""
    return ("" if job.interval_ms is None else f"Roughly {wording.interval(job.interval_ms)}"), ""


def form_values(job: Job) -> dict[str, str]:
    """The schedule form: kind (learn, cron, interval or never), cron, timezone, and interval and grace in minutes.

    The cron expression that was learned is a suggestion for a job without a pin.
    """
    cron, zone = (job.learned.cron or "", job.learned.zone) if job.learned else ("", "UTC")
    values = {"kind": "learn", "cron": cron, "timezone": zone, "interval": "", "grace": "1"}
    match job.pin:
        case Cron(expression, zone, grace_ms):
            return {**values, "kind": "cron", "cron": expression, "timezone": zone, "grace": _minutes(grace_ms)}
        case Interval(interval_ms, grace_ms):
            return {**values, "kind": "interval", "interval": _minutes(interval_ms), "grace": _minutes(grace_ms)}
        case Never():
            return {**values, "kind": "never"}
    return values


def _minutes(length_ms: int) -> str:
    return f"{length_ms / MINUTE_MS:.4f}".rstrip("0").rstrip(".")
