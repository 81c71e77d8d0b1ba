"""Wall-clock time of a zone as plain seconds, so that a schedule can be folded by day and by hour.

A wall second is epoch seconds plus the zone's offset at that moment: its day number is `wall // 86400` (day
0 is 1970-01-01, a Thursday) and its time of day `wall % 86400`. Where a zone changes its clock, wall
seconds jump with it, which is what makes "02:00 every day" one slot in the zone that means it and two in
every other.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

HOUR = 3600
DAY = 86400
# Beyond these a datetime with any offset cannot be made; see heartbeats.py, which drops such moments.
EARLIEST = -62_000_000_000.0
LATEST = 253_300_000_000.0

_LONG_YEARS = 20  # beyond this, asking for each moment is cheaper
_STEP = 20 * DAY  # no zone has changed its clock twice within this since 1970, Ramadan in Morocco included


@lru_cache(maxsize=64)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def local_time(name: str, epoch: float) -> datetime:
    """The zone's date and time at an epoch moment, or the nearest moment that a calendar holds."""
    return datetime.fromtimestamp(min(max(epoch, EARLIEST), LATEST), _zone(name))


def offset_at(name: str, epoch: float) -> int:
    """Seconds to add to an epoch moment to get wall seconds of the zone."""
    if name == "UTC":
        return 0
    # whole seconds, rounded down: a fraction would be rounded to the nearest and could cross a change
    delta = local_time(name, math.floor(epoch)).utcoffset() or timedelta(0)
    return int(delta.total_seconds())


@lru_cache(maxsize=1024)
def _changes(name: str, year: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """When the offset changes in a UTC year, the year's start first, and the offset from each moment on."""
    start = int(datetime(year, 1, 1, tzinfo=UTC).timestamp())
    end = start + 366 * DAY
    moments, offsets = [start], [offset_at(name, start)]
    for probe in range(start + _STEP, end + _STEP, _STEP):
        after = offset_at(name, probe)
        if after != offsets[-1]:
            low, high = probe - _STEP, probe
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if offset_at(name, middle) == offsets[-1] else (low, middle)
            moments.append(high)
            offsets.append(after)
    return tuple(moments), tuple(offsets)


def offsets(name: str, times: Sequence[float]) -> list[int]:
    """The offset at each of these ascending moments."""
    if name == "UTC":
        return [0] * len(times)
    first, last = (datetime.fromtimestamp(times[end], UTC).year for end in (0, -1))
    if last - first > _LONG_YEARS:
        return [offset_at(name, time) for time in times]
    found: list[int] = []
    current = offset_at(name, times[0])
    for year in range(first, last + 1):
        for moment, after in zip(*_changes(name, year), strict=True):
            if after != current:
                found += [current] * (bisect_left(times, moment) - len(found))
                current = after
    return found + [current] * (len(times) - len(found))


def wall_to_epoch(name: str, wall: float) -> float:
    """The epoch moment at which the zone's clocks show these wall seconds.

    A time that comes twice (clocks go back) is its first occurrence, as cron runs it. A time that is
    skipped (clocks go forward) is as long after the jump as it would have been without it.
    """
    if name == "UTC":
        return wall
    before = offset_at(name, wall - DAY)
    if offset_at(name, wall - before) == before:
        return wall - before
    after = offset_at(name, wall + DAY)
    return wall - after if offset_at(name, wall - after) == after else wall - before
