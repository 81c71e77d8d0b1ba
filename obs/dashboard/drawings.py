"""The past runs of a job as bars and by day. Pure. Days are ordinals in the zone of the viewer, times milliseconds."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from functools import lru_cache
from itertools import zip_longest
from typing import NamedTuple
from zoneinfo import ZoneInfo

from markupsafe import Markup

from obs.dashboard import schedules, wording
from obs.heartbeat.runs import PROBLEMS, STATUSES
from obs.heartbeat.store.jobs import Job

BARS = 30
_BASE, _FOOT = 9, 11
_DRAWN_GAPS = 3  # between two runs at most; the label has the exact number
DAYS = 91
_WORST_FIRST = (*PROBLEMS, *(status for status in STATUSES if status not in PROBLEMS))


class Bar(NamedTuple):
    started_at: int
    status: str
    duration_ms: int | None
    id: int = 0


def bars_of_job(job: Job, runs: tuple[Bar, ...], now_ms: int) -> Markup:
    due = schedules.due(job)
    if due is None or not runs:
        return draw_bars(runs)
    counts = schedules.missed_before_each(tuple(run.started_at for run in runs), due)
    return draw_bars(runs, (*counts, schedules.missed_until_now(job, now_ms)) if job.overdue else counts)


@lru_cache(maxsize=2048)  # most jobs have not changed since the last refresh
def draw_bars(runs: tuple[Bar, ...], gaps: tuple[int, ...] = ()) -> Markup:
    """Draw runs, oldest first. `gaps` has how many were missed before each, and maybe those missed since the last."""
    marks: list[Bar | None] = []
    for count, one in zip_longest(gaps, runs):
        marks += [None] * min(_DRAWN_GAPS, count or 0) + ([] if one is None else [one])
    marks = marks[-BARS:]
    longest_ms = max([run.duration_ms or 0 for run in runs], default=0)
    tops = defaultdict[str, dict[int, int]](dict)
    for place, run in enumerate(marks, start=BARS - len(marks)):
        status, top = "gap", _BASE - 1
        if run is not None:
            share = 0.5 if run.duration_ms is None or not longest_ms else run.duration_ms / longest_ms
            status, top = run.status, _BASE - max(2, round(share * _BASE))
        tops[status][place] = top
    drawn = (
        f'<path class="bar-{status}" d="{_steps(places, _FOOT if status in PROBLEMS else _BASE)}"/>'
        for status, places in tops.items()
    )
    counts = dict(Counter([run.status for run in runs]).most_common())
    words = f"Last {len(runs)} runs: {wording.results(counts, sum(gaps))}" if runs else "No runs yet"
    # Nothing in it comes from a client: statuses are a fixed set, all else is numbers.
    return Markup(f'<svg role="img" aria-label="{words}">{"".join(drawn)}</svg>')  # noqa: S704


def _steps(tops: dict[int, int], base: int) -> str:
    path = ""
    for place, top in tops.items():
        if (before := tops.get(place - 1)) is None:
            path += f"M{place} {base}"
        path += "h1" if before == top else f"V{top}h1"
        if place + 1 not in tops:
            path += f"V{base}"
    return path


def days(now_ms: int, zone: ZoneInfo) -> dict[int, tuple[int, int]]:
    """The last DAYS days up to today, each with the moments at which it starts and ends."""
    today = day_of(now_ms, zone)
    return {day: (midnight(day, zone), midnight(day + 1, zone)) for day in range(today - DAYS + 1, today + 1)}


def day_of(moment_ms: int, zone: ZoneInfo) -> int:
    return datetime.fromtimestamp(moment_ms / 1000, zone).toordinal()


class Day(NamedTuple):
    date: date
    counts: dict[str, int]  # its runs by status, the worst first
    problems: dict[str, int]  # only those that went wrong
    missed: int
    status: str  # the least bad one, ``none`` without runs, or ``before`` the job was seen


def calendar(results: schedules.Results, missed: Mapping[int, int], first_seen: int, today: int) -> Iterator[Day]:
    """The last DAYS days. `results` has runs by day and status, `missed` those missed by day."""
    for day in range(today - DAYS + 1, today + 1):
        found = results.get(day, {})
        counts, problems = ({one: found[one] for one in of if one in found} for of in (_WORST_FIRST, PROBLEMS))
        good = next(reversed(counts), "none" if day >= first_seen else "before")
        yield Day(date.fromordinal(day), counts, problems, missed.get(day, 0), good)


def midnight(day: int, zone: ZoneInfo) -> int:
    return round(datetime.combine(date.fromordinal(day), time(), zone).timestamp() * 1000)
