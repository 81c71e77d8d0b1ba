"""The days of a job as a calendar: a column a week, a square a day, its loudest outcome or what it missed. Pure.

A day is the number of its date (`date.toordinal`) in the zone of whoever looks; moments are milliseconds.
"""

from collections.abc import Mapping
from datetime import date, datetime
from datetime import time as clock_time
from zoneinfo import ZoneInfo

from cronsim import CronSim
from markupsafe import Markup

DAYS = 91
_CELL = 15
_LOUDEST = ("failed", "lost", "open", "success")
_MARKS = {"failed": "m0 3l7 7m0-7l-7 7", "lost": "m0 3l7 7m0-7l-7 7", "missed": "m0 6.5h7"}


def days(now_ms: int, zone: ZoneInfo) -> dict[int, tuple[int, int]]:
    """The last DAYS days, today the last of them, each with the moments of its first midnight and the next."""
    today = day_of(now_ms, zone)
    return {day: (_midnight(day, zone), _midnight(day + 1, zone)) for day in range(today - DAYS + 1, today + 1)}


def day_of(moment_ms: int, zone: ZoneInfo) -> int:
    """The day that a moment is on."""
    return datetime.fromtimestamp(moment_ms / 1000, zone).toordinal()


def due_by_day(cron: str, cron_zone: str, start_ms: int, end_ms: int, zone: ZoneInfo) -> dict[int, int]:
    """How many runs a cron line in `cron_zone` asks for on each day of `zone` in a time."""
    due: dict[int, int] = {}
    for slot in CronSim(cron, datetime.fromtimestamp(start_ms / 1000, ZoneInfo(cron_zone))):
        if slot.timestamp() * 1000 >= end_ms:
            break
        day = slot.astimezone(zone).toordinal()
        due[day] = due.get(day, 0) + 1
    return due


def draw(outcomes: Mapping[int, Mapping[str, int]], due: Mapping[int, int], first_seen: int, today: int) -> Markup:
    """`outcomes` holds by day how many runs had which, `due` how many were due, as far as that is known; `first_seen`
    is the day of the first heartbeat.
    """
    oldest = today - DAYS + 1
    first = max(oldest, first_seen)
    monday = oldest - date.fromordinal(oldest).weekday()
    came = {day: sum(of_day.values()) for day, of_day in outcomes.items()}
    cells, missed_days = [], 0
    for day in range(oldest, today + 1):
        # A run at midnight may come a moment later, on the next day: a day misses none that its neighbours have.
        spare = max(came.get(near, 0) - due.get(near, 0) for near in (day - 1, day + 1))
        missed = first < day < today and day not in outcomes and due.get(day, 0) > max(0, spare)
        missed_days += missed
        state = "missed" if missed else _loudest(outcomes.get(day, {}), day >= first)
        cells.append(_cell(day, outcomes.get(day, {}), due.get(day) if first < day < today else None, monday, state))
    width = ((today - monday) // 7 + 1) * _CELL
    bad = sum("failed" in of_day or "lost" in of_day for of_day in outcomes.values())
    words = (
        f"The last {DAYS} days: runs on {len(outcomes)}, failed or lost runs on {bad},"
        f" none although due on {missed_days}"
    )
    # Statuses are a fixed set, all else are numbers.
    return Markup(  # noqa: S704
        f'<svg class="calendar" viewBox="0 0 {width} {7 * _CELL}" width="{width}" height="{7 * _CELL}" role="img"'
        f' aria-label="{words}">{"".join(cells)}</svg>'
    )


def _midnight(day: int, zone: ZoneInfo) -> int:
    return round(datetime.combine(date.fromordinal(day), clock_time(), zone).timestamp() * 1000)


def _loudest(outcomes: Mapping[str, int], known: bool) -> str:
    return next((status for status in _LOUDEST if status in outcomes), "none" if known else "before")


def _cell(day: int, outcomes: Mapping[str, int], due: int | None, monday: int, state: str) -> str:
    week, weekday = divmod(day - monday, 7)
    told = ", ".join(f"{outcomes[status]} {status}" for status in _LOUDEST if status in outcomes) or "no runs"
    if due is not None:
        told += f"; {due} due"
    x, y = week * _CELL + 1, weekday * _CELL + 1
    mark = f'<path class="mark-{state}" d="M{x + 3} {y}{_MARKS[state]}"/>' if state in _MARKS else ""
    return (
        f'<g><title>{date.fromordinal(day):%a %d %b %Y}: {told}</title><rect class="day-{state}" x="{x}" y="{y}"'
        f' width="13" height="13" rx="3"/>{mark}</g>'
    )
