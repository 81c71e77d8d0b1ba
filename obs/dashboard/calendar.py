"""The days of a job as a calendar: a column a week, a square a day, its loudest outcome or what it missed. Pure."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim
from markupsafe import Markup

from obs.times import DAY_MS

DAYS = 91
_CELL = 15
_LOUDEST = ("failed", "lost", "open", "success")
_MARKS = {"failed": "m0 3l7 7m0-7l-7 7", "lost": "m0 3l7 7m0-7l-7 7", "missed": "m0 6.5h7"}
_EPOCH_DAY = date(1970, 1, 1).toordinal()


def due_by_day(cron: str, zone: str, start_ms: int, end_ms: int) -> dict[int, int]:
    """How many runs a cron line asks for on each day (its number since the epoch, UTC) of a time."""
    days: dict[int, int] = {}
    for slot in CronSim(cron, datetime.fromtimestamp(start_ms / 1000, ZoneInfo(zone))):
        moment_ms = round(slot.timestamp() * 1000)
        if moment_ms >= end_ms:
            break
        days[moment_ms // DAY_MS] = days.get(moment_ms // DAY_MS, 0) + 1
    return days


def draw(days: Mapping[int, Mapping[str, int]], due: Mapping[int, int], first_seen_ms: int, now_ms: int) -> Markup:
    """`days` holds, by the number of the day since the epoch (UTC), how many runs had which outcome; `due` how many
    were due, as far as that is known.
    """
    today = now_ms // DAY_MS
    oldest = today - DAYS + 1
    first = max(oldest, first_seen_ms // DAY_MS)
    monday = oldest - datetime.fromtimestamp(oldest * DAY_MS / 1000, UTC).weekday()
    came = {day: sum(outcomes.values()) for day, outcomes in days.items()}
    cells, missed_days = [], 0
    for day in range(oldest, today + 1):
        # A run at midnight may come a moment later, on the next day: a day misses none that its neighbours have.
        spare = max(came.get(near, 0) - due.get(near, 0) for near in (day - 1, day + 1))
        missed = first < day < today and day not in days and due.get(day, 0) > max(0, spare)
        missed_days += missed
        state = "missed" if missed else _loudest(days.get(day, {}), day >= first)
        cells.append(_cell(day, days.get(day, {}), due.get(day) if first < day < today else None, monday, state))
    width = ((today - monday) // 7 + 1) * _CELL
    bad = sum("failed" in outcomes or "lost" in outcomes for outcomes in days.values())
    words = (
        f"The last {DAYS} days: runs on {len(days)}, failed or lost runs on {bad}, none although due on {missed_days}"
    )
    # Statuses are a fixed set, all else are numbers.
    return Markup(  # noqa: S704
        f'<svg class="calendar" viewBox="0 0 {width} {7 * _CELL}" width="{width}" height="{7 * _CELL}" role="img"'
        f' aria-label="{words}">{"".join(cells)}</svg>'
    )


def _loudest(outcomes: Mapping[str, int], known: bool) -> str:
    return next((status for status in _LOUDEST if status in outcomes), "none" if known else "before")


def _cell(day: int, outcomes: Mapping[str, int], due: int | None, monday: int, state: str) -> str:
    week, weekday = divmod(day - monday, 7)
    told = ", ".join(f"{outcomes[status]} {status}" for status in _LOUDEST if status in outcomes) or "no runs"
    if due is not None:
        told += f"; {due} due"
    on = date.fromordinal(_EPOCH_DAY + day)
    x, y = week * _CELL + 1, weekday * _CELL + 1
    mark = f'<path class="mark-{state}" d="M{x + 3} {y}{_MARKS[state]}"/>' if state in _MARKS else ""
    return (
        f'<g><title>{on:%a %d %b %Y}: {told}</title><rect class="day-{state}" x="{x}" y="{y}" width="13" height="13"'
        f' rx="3"/>{mark}</g>'
    )
