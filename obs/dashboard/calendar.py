"""The last weeks of a job as a calendar: columns are weeks, squares are days, coloured by the worst result. Pure.

A day is the ordinal number of a date (`date.toordinal`) in the viewer's time zone; moments are milliseconds.
"""

from collections.abc import Mapping
from datetime import date, datetime
from datetime import time as clock_time
from zoneinfo import ZoneInfo

from cronsim import CronSim
from markupsafe import Markup

from obs.dashboard import wording
from obs.heartbeat.runs import STATUSES

DAYS = 91
_CELL = 15
_WORSE = ("failed", "lost", "open")
_WORST_FIRST = (*_WORSE, *(status for status in STATUSES if status not in _WORSE))
_MARKS = {"failed": "m0 3l7 7m0-7l-7 7", "lost": "m0 3l7 7m0-7l-7 7", "missed": "m0 6.5h7"}


def days(now_ms: int, zone: ZoneInfo) -> dict[int, tuple[int, int]]:
    """The last DAYS days up to today, each with the moments at which it starts and ends."""
    today = day_of(now_ms, zone)
    return {day: (_midnight(day, zone), _midnight(day + 1, zone)) for day in range(today - DAYS + 1, today + 1)}


def day_of(moment_ms: int, zone: ZoneInfo) -> int:
    """The day of a moment."""
    return datetime.fromtimestamp(moment_ms / 1000, zone).toordinal()


def due_by_day(cron: str, cron_zone: str, start_ms: int, end_ms: int, zone: ZoneInfo) -> dict[int, int]:
    """How many runs a cron expression in `cron_zone` schedules on each day of `zone`, from start to end."""
    due: dict[int, int] = {}
    for slot in CronSim(cron, datetime.fromtimestamp(start_ms / 1000, ZoneInfo(cron_zone))):
        if slot.timestamp() * 1000 >= end_ms:
            break
        day = slot.astimezone(zone).toordinal()
        due[day] = due.get(day, 0) + 1
    return due


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
    bad = sum("failed" in counts or "lost" in counts for counts in results.values())
    words = (
        f"Last {DAYS} days: runs on {_days(len(results))}, failed or lost runs on {_days(bad)},"
        f" missed on {_days(missed_days)}"
    )
    # Nothing in it comes from a client: statuses are a fixed set, all else is numbers.
    return Markup(  # noqa: S704
        f'<svg class="calendar" viewBox="0 0 {width} {7 * _CELL}" width="{width}" height="{7 * _CELL}" role="img"'
        f' aria-label="{words}">{"".join(cells)}</svg>'
    )


def _midnight(day: int, zone: ZoneInfo) -> int:
    return round(datetime.combine(date.fromordinal(day), clock_time(), zone).timestamp() * 1000)


def _days(count: int) -> str:
    return f"{count} day{'' if count == 1 else 's'}"


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
