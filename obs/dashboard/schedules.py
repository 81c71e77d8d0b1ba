"""The schedule of a job: when runs are due, how many were missed, in words and as a form. Pure, in milliseconds."""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import pairwise, takewhile
from typing import NamedTuple

from obs.heartbeat.pins import Cron, Interval, Never, cron_times
from obs.heartbeat.schedule.words import EVERY_MINUTE, Description
from obs.heartbeat.store.jobs import Job
from obs.times import MINUTE_MS, interval_words


class Due(NamedTuple):
    """When a job is due: by a cron expression in a zone, or if that is empty, `interval_ms` after the previous run."""

    cron: str
    zone: str
    interval_ms: int

    def slots(self, start_ms: int, end_ms: int) -> Iterator[int]:
        return takewhile(lambda slot_ms: slot_ms <= end_ms, cron_times(self.cron, self.zone, start_ms))


def due(job: Job) -> Due | None:
    match job.pin or job.learned:
        case Interval(interval_ms):
            return Due("", "UTC", interval_ms)
        case Description(lacks_expression=True):
            return None
        case Cron(cron, zone) | Description(state="regular", cron=cron, zone=zone) if job.interval_ms is not None:
            return Due(str(cron) if len(str(cron).split()) == 5 else "", zone, job.interval_ms)  # none with seconds
    return None


def in_brief(job: Job) -> tuple[str, str]:
    """The schedule in a few words, and its time zone; both are empty while it is not known."""
    match job.pin:
        case Cron(expression, zone):
            return expression, zone
        case Interval(interval_ms):
            return interval_words(interval_ms).capitalize(), ""
        case Never():
            return "Never overdue", ""
    if job.learned is not None and job.learned.state == "regular":
        summary = job.learned.summary.removesuffix(f", {job.learned.zone}")  # one at fixed times ends so
        return summary, job.learned.zone if summary != job.learned.summary else ""
    return ("" if job.interval_ms is None else f"Roughly {interval_words(job.interval_ms)}"), ""


def form_values(job: Job) -> dict[str, str]:
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


Results = Mapping[int, Mapping[str, int]]
_LONG_PAUSE = 1.2  # usual pauses; only longer pauses are searched for missed runs, because counting slots takes time
_LONG_PAUSE_BY_INTERVAL = 1.6
_FEW_PAUSES = 7
_MOST_SLOTS_COUNTED = 100
_OTHER_SCHEDULE_RUNS = _OTHER_SCHEDULE_DAYS = 6


@lru_cache(maxsize=4096)  # most jobs have not changed since the last refresh
def missed_before_each(starts: tuple[int, ...], due: Due) -> tuple[int, ...]:
    """How many runs were missed before each; zeros for early ones, if most of those seem to be of another schedule."""
    pauses = [later - earlier for earlier, later in pairwise(starts)]
    usual_ms = due.interval_ms * _LONG_PAUSE
    if not due.cron and len(pauses) >= _FEW_PAUSES:  # a pause that is frequent is part of the schedule
        usual_ms = max(due.interval_ms, sorted(pauses)[int(len(pauses) * 0.85)]) * _LONG_PAUSE_BY_INTERVAL
    counts: list[int] = []
    for place in range(len(starts) - 1, 0, -1):
        is_long = pauses[place - 1] > usual_ms
        counts.append(_between(starts[place - 1], starts[place], due, ends_with_run=True) if is_long else 0)
        if len(counts) >= _OTHER_SCHEDULE_RUNS and sum(map(bool, counts)) > len(counts) / 2:
            return (0,) * len(starts)
    return tuple([0] * (len(starts) - len(counts)) + counts[::-1])


def missed_by_day(
    due: Due | None, results: Results, days: Mapping[int, tuple[int, int]], first_ms: int, until_ms: int
) -> dict[int, int]:
    """Before _OTHER_SCHEDULE_DAYS in a row that have runs and seem to miss most, the schedule was another one."""
    if due is None or not results:
        return {}
    oldest = min(results)
    arrived = Counter({day: sum(counts.values()) for day, counts in results.items()})
    since = first_ms - due.interval_ms // 2  # the first run may be later than it was due
    expected = Counter(
        {day: _due_between(due, max(start, since), min(end, until_ms + 1)) for day, (start, end) in days.items()}
    )
    missed, doubtful = dict[int, int](), list[int]()
    for day in range(max(days), oldest - 1, -1):
        # A run at midnight may arrive a moment later, on the next day: a neighbour that has one more makes up for it.
        spare = any(arrived[near] > expected[near] for near in (day - 1, day + 1))
        missed[day] = max(0, expected[day] - arrived[day] - spare)
        if arrived[day]:
            doubtful = [*doubtful, day] if missed[day] > arrived[day] else []
        if len(doubtful) == _OTHER_SCHEDULE_DAYS:
            return {later: count for later, count in missed.items() if later > doubtful[0]}
    if first_ms < days[oldest][0]:
        missed[oldest] = 0  # some of its runs may be deleted already
    return missed


@lru_cache(maxsize=20_000)  # a past day does not change, and frequent times take long to count
def _due_between(due: Due, start_ms: int, end_ms: int) -> int:
    """How many runs were due from the start until before the end; nine tenths of it where an interval is usual only."""
    if not due.cron or due.cron == EVERY_MINUTE:
        return max(0, end_ms - start_ms) * 9 // (due.interval_ms * 10)
    return sum(1 for _ in due.slots(start_ms - 1, end_ms - 1)) if start_ms < end_ms else 0


def missed_until_now(job: Job, now_ms: int) -> int:
    since, expected = job.expected_at, due(job)
    return 0 if since is None or expected is None or not job.overdue else 1 + _between(since, now_ms, expected)


def _between(earlier: int, later: int, due: Due, *, ends_with_run: bool = False) -> int:
    """The slots after a run and up to a moment. If that is a run too, without its own slot, which it may be before."""
    by_interval = int((later - earlier) / due.interval_ms - (0.5 if ends_with_run else 0))
    if not due.cron or by_interval > _MOST_SLOTS_COUNTED:
        return max(0, by_interval)
    early_ms = min(MINUTE_MS, due.interval_ms // 4)
    slots = sum(1 for _ in due.slots(earlier + early_ms, later + early_ms if ends_with_run else later))
    return max(0, slots - 1) if ends_with_run else slots
