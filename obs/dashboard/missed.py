"""How many runs were due and did not come, by what was learned of the job or a person said. Pure; milliseconds."""

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim

from obs.heartbeat import pins
from obs.heartbeat.store.jobs import Job
from obs.times import MINUTE_MS

_LONGER = 1.2  # a pause of so many usual ones is looked at; counting slots in all of them would take too long
_LONGER_BY_INTERVAL = 1.6
_FEW_PAUSES = 7
_MOST_COUNTED = 100
_OTHER_SCHEDULE_RUNS = 6


class Due(NamedTuple):
    """When a job is due: by a cron line in a zone, or where that is empty, `interval_ms` after the run before."""

    cron: str
    zone: str
    interval_ms: int


def due(job: Job) -> Due | None:
    """When `job` is due; None where nothing is expected of it: it is new, irregular or never overdue."""
    if job.pin is not None:
        pin = pins.to_dict(job.pin)
        if "cron" in pin and job.interval_ms is not None:
            return Due(pin["cron"], pin["timezone"], job.interval_ms)
        seconds = pin.get("interval_seconds")
        return None if seconds is None else Due("", "UTC", seconds * 1000)
    if job.interval_ms is None or job.learned is None or job.learned.state != "regular":
        return None
    return Due(job.learned.cron or "", job.learned.zone, job.interval_ms)


@lru_cache(maxsize=4096)  # as for the bars: most jobs are as they were
def before_each(starts: tuple[int, ...], due: Due) -> tuple[int, ...]:
    """For each run, oldest first, how many were due between the one before and it.

    What is expected now says nothing of runs under an earlier schedule: going back, the counting ends where most runs
    seem to have missed some.
    """
    pauses = [later - earlier for earlier, later in pairwise(starts)]
    usual_ms = _usual(pauses, due)
    counts: list[int] = []
    for place in range(len(starts) - 1, 0, -1):
        looked_at = pauses[place - 1] > usual_ms
        counts.append(_between(starts[place - 1], starts[place], due, own=1) if looked_at else 0)
        if len(counts) >= _OTHER_SCHEDULE_RUNS and sum(map(bool, counts)) > len(counts) / 2:
            counts = []
            break
    return tuple([0] * (len(starts) - len(counts)) + counts[::-1])


def since(last: int, now_ms: int, due: Due) -> int:
    """How many are due since the last run of a job that is overdue: one at least."""
    return max(1, _between(last, now_ms, due, own=0))


def _usual(pauses: Sequence[int], due: Due) -> float:
    """Longer pauses may hold a run that did not come."""
    if due.cron or len(pauses) < _FEW_PAUSES:
        return due.interval_ms * _LONGER
    # Without a cron line, a pause that the job has often is part of its schedule.
    return max(due.interval_ms, sorted(pauses)[int(len(pauses) * 0.85)]) * _LONGER_BY_INTERVAL


def _between(earlier: int, later: int, due: Due, own: int) -> int:
    """The slots after a run and up to a moment, less the `own` slot of the run that came then."""
    by_interval = round((later - earlier) / due.interval_ms) - own
    if not due.cron or by_interval > _MOST_COUNTED:
        return max(0, by_interval)
    early_ms = min(MINUTE_MS, due.interval_ms // 4)
    count = 0
    for slot in CronSim(due.cron, datetime.fromtimestamp((earlier + early_ms) / 1000, ZoneInfo(due.zone))):
        if slot.timestamp() * 1000 > later + early_ms:
            break
        count += 1
    return max(0, count - own)
