"""A job's past runs as SVG. Pure. Days are ordinals of dates in the viewer's zone; moments are milliseconds."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
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
_CELL, _SIDE, _LEAST_HEIGHT, _MARKED_SHARE = 15, 13, 3, 0.5
_WORST_FIRST = (*PROBLEMS, *(status for status in STATUSES if status not in PROBLEMS))
_MARKS = {**dict.fromkeys(PROBLEMS, "m0 3l7 7m0-7l-7 7"), "missed": "m0 6.5h7"}


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
    marks = _with_gaps(runs, gaps)[-BARS:]
    longest_ms = max((run.duration_ms or 0 for run in runs), default=0)
    first = BARS - len(marks)
    lines = defaultdict[str, list[str]](list)
    for place, run in enumerate(marks, start=first):
        status, top = ("gap", _BASE - 1) if run is None else (run.status, _top(run.duration_ms, longest_ms))
        lines[status].append(f"M{place} {_FOOT if status in PROBLEMS else _BASE}V{top}")
    drawn = (f'<path class="bar-{status}" d="{"".join(found)}"/>' for status, found in lines.items())
    counts = dict(Counter(run.status for run in runs).most_common())
    words = f"Last {len(runs)} runs: {wording.results(counts, sum(gaps))}" if runs else "No runs yet"
    # Nothing in it comes from a client: statuses are a fixed set, all else is numbers.
    return Markup(f'<svg role="img" aria-label="{words}">{"".join(drawn)}</svg>')  # noqa: S704


def _top(duration_ms: int | None, longest_ms: int) -> int:
    share = 0.5 if duration_ms is None or not longest_ms else duration_ms / longest_ms
    return _BASE - max(2, round(share * _BASE))


def _with_gaps(runs: Sequence[Bar], gaps: Sequence[int]) -> list[Bar | None]:
    marks: list[Bar | None] = []
    for count, run in zip_longest(gaps, runs):
        marks += [None] * min(_DRAWN_GAPS, count or 0)
        marks += [run] if run is not None else []
    return marks


def days(now_ms: int, zone: ZoneInfo) -> dict[int, tuple[int, int]]:
    """The last DAYS days up to today, each with the moments at which it starts and ends."""
    today = day_of(now_ms, zone)
    return {day: (midnight(day, zone), midnight(day + 1, zone)) for day in range(today - DAYS + 1, today + 1)}


def day_of(moment_ms: int, zone: ZoneInfo) -> int:
    return datetime.fromtimestamp(moment_ms / 1000, zone).toordinal()


def draw_calendar(results: schedules.Results, missed: Mapping[int, int], first_seen: int, today: int) -> Markup:
    """`results` has runs by day and status, `missed` those missed by day; `first_seen` is the first heartbeat's day."""
    oldest = today - DAYS + 1
    monday = oldest - date.fromordinal(oldest).weekday()
    shown = range(oldest, today + 1)
    cells = (_cell(day, results.get(day, {}), missed.get(day, 0), monday, day >= first_seen) for day in shown)
    width = ((today - monday) // 7 + 1) * _CELL
    bad = sum(not counts.keys().isdisjoint(PROBLEMS) for counts in results.values())
    words = (
        f"Last {DAYS} days: runs on {wording.count(len(results), 'day')}, {' or '.join(PROBLEMS)} runs on "
        f"{wording.count(bad, 'day')}, missed on {wording.count(sum(map(bool, missed.values())), 'day')}"
    )
    # Nothing in it comes from a client: statuses are a fixed set, all else is numbers.
    return Markup(  # noqa: S704
        f'<svg class="calendar" viewBox="0 0 {width} {7 * _CELL}" width="{width}" height="{7 * _CELL}" role="img"'
        f' aria-label="{words}">{"".join(cells)}</svg>'
    )


def midnight(day: int, zone: ZoneInfo) -> int:
    """When a day starts."""
    return round(datetime.combine(date.fromordinal(day), time(), zone).timestamp() * 1000)


def _cell(day: int, counts: Mapping[str, int], missed: int, monday: int, known: bool) -> str:
    week, weekday = divmod(day - monday, 7)
    words = wording.results({status: counts[status] for status in _WORST_FIRST if status in counts}, missed)
    x, y = week * _CELL + 1, weekday * _CELL + 1
    good = next((status for status in reversed(_WORST_FIRST) if status in counts), "none" if known else "before")
    cell = f'<rect class="day-{good}" x="{x}" y="{y}" width="{_SIDE}" height="{_SIDE}" rx="3"/>'
    problems = {**{status: counts[status] for status in PROBLEMS if status in counts}, "missed": missed}
    bad = sum(problems.values())
    if bad:
        share = bad / (sum(counts.values()) + missed)
        worst, height = max(problems, key=lambda name: problems[name]), max(_LEAST_HEIGHT, round(share * _SIDE))
        cell += f'<rect class="day-{worst}" x="{x}" y="{y + _SIDE - height}" width="{_SIDE}" height="{height}" rx="3"/>'
        if share >= _MARKED_SHARE:
            cell += f'<path class="mark-{worst}" d="M{x + 3} {y}{_MARKS[worst]}"/>'
    return f"<g><title>{date.fromordinal(day):%a %d %b %Y}: {words or 'no runs'}</title>{cell}</g>"
