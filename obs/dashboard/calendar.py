"""The last weeks of a job as a calendar: columns are weeks, squares are days, filled by the share of problems. Pure.

A day is the ordinal number of a date (`date.toordinal`) in the viewer's time zone; moments are milliseconds.
"""

from collections import Counter
from collections.abc import Mapping
from datetime import date, datetime
from datetime import time as clock_time
from functools import lru_cache
from zoneinfo import ZoneInfo

from markupsafe import Markup

from obs.dashboard import wording
from obs.dashboard.schedules import Due
from obs.heartbeat.runs import PROBLEMS, STATUSES
from obs.heartbeat.schedule.words import EVERY_MINUTE

DAYS = 91
Results = Mapping[int, Mapping[str, int]]
_CELL, _SIDE, _LEAST_HEIGHT, _MARKED_SHARE = 15, 13, 3, 0.5
_OTHER_SCHEDULE_DAYS = 6
_WORST_FIRST = (*PROBLEMS, *(status for status in STATUSES if status not in PROBLEMS))
_MARKS = {**dict.fromkeys(PROBLEMS, "m0 3l7 7m0-7l-7 7"), "missed": "m0 6.5h7"}


def days(now_ms: int, zone: ZoneInfo) -> dict[int, tuple[int, int]]:
    """The last DAYS days up to today, each with the moments at which it starts and ends."""
    today = day_of(now_ms, zone)
    return {day: (_midnight(day, zone), _midnight(day + 1, zone)) for day in range(today - DAYS + 1, today + 1)}


def day_of(moment_ms: int, zone: ZoneInfo) -> int:
    """The day of a moment."""
    return datetime.fromtimestamp(moment_ms / 1000, zone).toordinal()


def missed_by_day(
    due: Due | None, results: Results, days: Mapping[int, tuple[int, int]], first_ms: int, until_ms: int
) -> dict[int, int]:
    """How many scheduled runs never came on each day, from the first heartbeat up to `until_ms`.

    Before _OTHER_SCHEDULE_DAYS in a row that have runs and seem to miss most, the schedule was another one.
    """
    if due is None or not results:
        return {}
    oldest = min(results)
    arrived = Counter({day: sum(counts.values()) for day, counts in results.items()})
    expected = Counter(
        {day: _due(due, max(start, first_ms), min(end, until_ms + 1)) for day, (start, end) in days.items()}
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


def draw(results: Results, missed: Mapping[int, int], first_seen: int, today: int) -> Markup:
    """Draw the calendar as SVG: each day is filled by its share of problems and missed runs.

    `results` has the runs by day and status, `missed` those missed by day. `first_seen` is the first heartbeat's day.
    """
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


@lru_cache(maxsize=20_000)  # a past day does not change, and frequent times take long to count
def _due(due: Due, start_ms: int, end_ms: int) -> int:
    """How many runs were due from the start until before the end; nine tenths of it where an interval is usual only."""
    if not due.cron or due.cron == EVERY_MINUTE:
        return max(0, end_ms - start_ms) * 9 // (due.interval_ms * 10)
    return sum(1 for _ in due.slots(start_ms - 1, end_ms - 1)) if start_ms < end_ms else 0


def _midnight(day: int, zone: ZoneInfo) -> int:
    return round(datetime.combine(date.fromordinal(day), clock_time(), zone).timestamp() * 1000)


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
