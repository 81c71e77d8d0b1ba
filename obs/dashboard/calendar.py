"""The last weeks of a job as a calendar: columns are weeks, squares are days, coloured by the worst result. Pure.

A day is the ordinal number of a date (`date.toordinal`) in the viewer's time zone; moments are milliseconds.
"""

from collections import Counter
from collections.abc import Mapping
from datetime import date, datetime
from datetime import time as clock_time
from zoneinfo import ZoneInfo

from markupsafe import Markup

from obs.dashboard import wording
from obs.dashboard.schedules import Due
from obs.heartbeat.runs import PROBLEMS, STATUSES
from obs.times import DAY_MS, HOUR_MS

DAYS = 91
_CELL = 15
_WORST_FIRST = (*PROBLEMS, *(status for status in STATUSES if status not in PROBLEMS))
_MARKS = {**dict.fromkeys(PROBLEMS, "m0 3l7 7m0-7l-7 7"), "missed": "m0 6.5h7"}


def days(now_ms: int, zone: ZoneInfo) -> dict[int, tuple[int, int]]:
    """The last DAYS days up to today, each with the moments at which it starts and ends."""
    today = day_of(now_ms, zone)
    return {day: (_midnight(day, zone), _midnight(day + 1, zone)) for day in range(today - DAYS + 1, today + 1)}


def day_of(moment_ms: int, zone: ZoneInfo) -> int:
    """The day of a moment."""
    return datetime.fromtimestamp(moment_ms / 1000, zone).toordinal()


def due_by_day(due: Due | None, now_ms: int, zone: ZoneInfo) -> Counter[int]:
    """How many runs were due on each day of the calendar; empty without a cron expression, or if runs are frequent."""
    if due is None or not due.cron or due.interval_ms < HOUR_MS:
        return Counter()
    return Counter(day_of(slot, zone) for slot in due.slots(now_ms - DAYS * DAY_MS, now_ms))


def draw(results: Mapping[int, Mapping[str, int]], due: Mapping[int, int], first_seen: int, today: int) -> Markup:
    """Draw the calendar as SVG.

    `results` has the number of runs by day and status, `due` the number of scheduled runs by day where it is known.
    `first_seen` is the day of the first heartbeat.
    """
    oldest = today - DAYS + 1
    first = max(oldest, first_seen)
    monday = oldest - date.fromordinal(oldest).weekday()
    arrived = {day: sum(counts.values()) for day, counts in results.items()}
    cells, missed_days = [], 0
    for day in range(oldest, today + 1):
        # A run at midnight may arrive a moment later, on the next day: a day misses no run that a neighbour has extra.
        spare = max(arrived.get(near, 0) - due.get(near, 0) for near in (day - 1, day + 1))
        missed = first < day < today and day not in results and due.get(day, 0) > max(0, spare)
        missed_days += missed
        state = "missed" if missed else _worst(results.get(day, {}), day >= first)
        cells.append(_cell(day, results.get(day, {}), due.get(day) if first < day < today else None, monday, state))
    width = ((today - monday) // 7 + 1) * _CELL
    bad = sum(not counts.keys().isdisjoint(PROBLEMS) for counts in results.values())
    words = (
        f"Last {DAYS} days: runs on {wording.count(len(results), 'day')}, {' or '.join(PROBLEMS)} runs on "
        f"{wording.count(bad, 'day')}, missed on {wording.count(missed_days, 'day')}"
    )
    # Nothing in it comes from a client: statuses are a fixed set, all else is numbers.
    return Markup(  # noqa: S704
        f'<svg class="calendar" viewBox="0 0 {width} {7 * _CELL}" width="{width}" height="{7 * _CELL}" role="img"'
        f' aria-label="{words}">{"".join(cells)}</svg>'
    )


def _midnight(day: int, zone: ZoneInfo) -> int:
    return round(datetime.combine(date.fromordinal(day), clock_time(), zone).timestamp() * 1000)


def _worst(counts: Mapping[str, int], known: bool) -> str:
    return next((status for status in _WORST_FIRST if status in counts), "none" if known else "before")


def _cell(day: int, counts: Mapping[str, int], due: int | None, monday: int, state: str) -> str:
    week, weekday = divmod(day - monday, 7)
    words = wording.results({status: counts[status] for status in _WORST_FIRST if status in counts}) or "no runs"
    if due is not None:
        words += f"; {due} expected"
    x, y = week * _CELL + 1, weekday * _CELL + 1
    mark = f'<path class="mark-{state}" d="M{x + 3} {y}{_MARKS[state]}"/>' if state in _MARKS else ""
    return (
        f'<g><title>{date.fromordinal(day):%a %d %b %Y}: {words}</title><rect class="day-{state}" x="{x}" y="{y}"'
        f' width="13" height="13" rx="3"/>{mark}</g>'
    )
