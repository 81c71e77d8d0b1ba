"""How many runs were due and missed, by the schedule of the job. Pure; times and durations are milliseconds."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from obs.dashboard import schedules
from obs.dashboard.schedules import Due
from obs.heartbeat.store.jobs import Job
from obs.times import MINUTE_MS

_LONG_PAUSE = 1.2  # usual pauses; only longer pauses are searched for missed runs, because counting slots takes time
_LONG_PAUSE_BY_INTERVAL = 1.6
_FEW_PAUSES = 7
_MOST_SLOTS_COUNTED = 100
_OTHER_SCHEDULE_RUNS = 6


@lru_cache(maxsize=4096)  # most jobs have not changed since the last refresh
def before_each(starts: tuple[int, ...], due: Due) -> tuple[int, ...]:
    """For each run, oldest first, how many runs were missed between the previous run and it.

    The current schedule says nothing about runs under an earlier schedule: the count goes back in time, and stops where
    most runs seem to have missed some.
    """
    pauses = [later - earlier for earlier, later in pairwise(starts)]
    usual_ms = _usual(pauses, due)
    counts: list[int] = []
    for place in range(len(starts) - 1, 0, -1):
        is_long = pauses[place - 1] > usual_ms
        counts.append(_between(starts[place - 1], starts[place], due, own=1) if is_long else 0)
        if len(counts) >= _OTHER_SCHEDULE_RUNS and sum(map(bool, counts)) > len(counts) / 2:
            counts = []
            break
    return tuple([0] * (len(starts) - len(counts)) + counts[::-1])


def until_now(job: Job, now_ms: int) -> int:
    """How many runs a job has missed since its last heartbeat; 0 unless it is overdue and has a schedule."""
    due = schedules.due(job)
    return since(job.last_heartbeat_at, now_ms, due) if due is not None and job.overdue else 0


def since(last: int, now_ms: int, due: Due) -> int:
    """How many runs an overdue job has missed since its last run at `last`: at least one."""
    return max(1, _between(last, now_ms, due, own=0))


def _usual(pauses: Sequence[int], due: Due) -> float:
    """The longest pause in which no run can have been missed."""
    if due.cron or len(pauses) < _FEW_PAUSES:
        return due.interval_ms * _LONG_PAUSE
    # Without a cron expression, a pause that is frequent is part of the schedule.
    return max(due.interval_ms, sorted(pauses)[int(len(pauses) * 0.85)]) * _LONG_PAUSE_BY_INTERVAL


def _between(earlier: int, later: int, due: Due, own: int) -> int:
    """The slots after a run and up to a moment, without the `own` slot of the run at that moment."""
    by_interval = round((later - earlier) / due.interval_ms) - own
    if not due.cron or by_interval > _MOST_SLOTS_COUNTED:
        return max(0, by_interval)
    early_ms = min(MINUTE_MS, due.interval_ms // 4)
    return max(0, sum(1 for _ in due.slots(earlier + early_ms, later + early_ms)) - own)
