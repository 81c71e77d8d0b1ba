"""Wall-clock time of a zone as a plain number, so that times can be folded by the day and by the hour.

Wall time is epoch time plus the zone's offset at that moment, in milliseconds. Its day number is `wall // DAY_MS`
(day 0 is 1970-01-01, a Thursday) and its time of day `wall % DAY_MS`. When a zone changes its clock, wall time jumps.
So a job that runs at 02:00 every day fills one time of day in its own zone, and two in every other zone.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from obs.times import SECOND_MS, WEEK_MS, offset_ms

# datetime cannot represent times beyond these at every offset; history.py drops such heartbeats.
EARLIEST_MS, LATEST_MS = -62_000_000_000_000, 253_300_000_000_000
_zone = lru_cache(maxsize=64)(ZoneInfo)  # which itself keeps only eight


def local_time(name: str, epoch_ms: int) -> datetime:
    """The zone's date and time at an epoch time; beyond the range of datetime, the nearest that it can represent."""
    return datetime.fromtimestamp(min(max(epoch_ms, EARLIEST_MS), LATEST_MS) / SECOND_MS, _zone(name))


@lru_cache(maxsize=4096)
def offset_at(name: str, epoch_ms: int) -> int:
    """Milliseconds from epoch time to the zone's wall time. Raises ZoneInfoNotFoundError for an unknown zone."""
    return 0 if name == "UTC" else offset_ms(min(max(epoch_ms, EARLIEST_MS), LATEST_MS), _zone(name))


@lru_cache(maxsize=16_384)
def _during(name: str, week: int) -> int | None:
    """The offset in a week counted from 1970; None if it changes."""
    first, after = (offset_at(name, (week + weeks) * WEEK_MS) for weeks in (0, 1))
    return first if first == after else None  # no zone changed it twice in a week; the closest is Morocco at Ramadan


def offsets(name: str, times: Sequence[int]) -> list[int]:
    """The offset at each of these epoch times, as `offset_at` returns it."""
    if name == "UTC":
        return [0] * len(times)
    weeks = {week: _during(name, week) for week in {time // WEEK_MS for time in times}}
    return [offset_at(name, time) if (known := weeks[time // WEEK_MS]) is None else known for time in times]


@lru_cache(maxsize=4096)
def wall_to_epoch(name: str, wall_ms: int) -> int:
    """The epoch time of a wall time: if it occurs twice, the first, as for cron; if it is skipped, 02:30 is 03:30."""
    shown = local_time("UTC", wall_ms)
    return wall_ms - (shown - shown.replace(tzinfo=_zone(name))) // timedelta(milliseconds=1)  # with fold=0
