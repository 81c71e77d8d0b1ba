"""Wall-clock time of a zone as a plain number, so that times can be folded by the day and by the hour.

Wall time is epoch time plus the zone's offset at that moment, in milliseconds. Its day number is `wall // DAY_MS`
(day 0 is 1970-01-01, a Thursday) and its time of day `wall % DAY_MS`. When a zone changes its clock, wall time jumps.
So a job that runs at 02:00 every day fills one time of day in its own zone, and two in every other zone.
"""

from bisect import bisect_left
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from obs.times import DAY_MS, SECOND_MS

# datetime cannot represent times beyond these at every offset; history.py drops such heartbeats.
EARLIEST_MS = -62_000_000_000_000
LATEST_MS = 253_300_000_000_000

_MAX_YEARS = 20  # for a longer history it is cheaper to look up each time on its own
_STEP_MS = 20 * DAY_MS  # no zone has changed its clock twice within this since 1970; the closest is Morocco at Ramadan


@lru_cache(maxsize=64)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def local_time(name: str, epoch_ms: int) -> datetime:
    """The zone's date and time at an epoch time; beyond the range of datetime, the nearest that it can represent."""
    return datetime.fromtimestamp(min(max(epoch_ms, EARLIEST_MS), LATEST_MS) / SECOND_MS, _zone(name))


def offset_at(name: str, epoch_ms: int) -> int:
    """Milliseconds from epoch time to the zone's wall time. Raises ZoneInfoNotFoundError for an unknown zone."""
    if name == "UTC":
        return 0
    # Offsets change at whole seconds. Round down: rounding to the nearest could cross a change.
    delta = local_time(name, epoch_ms - epoch_ms % SECOND_MS).utcoffset() or timedelta(0)
    return int(delta.total_seconds()) * SECOND_MS


@lru_cache(maxsize=1024)
def _changes(name: str, year: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The start of a UTC year and the times in it at which the offset changes, and the offset from each time on."""
    start = int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) * SECOND_MS
    end = start + 366 * DAY_MS
    moments, offsets = [start], [offset_at(name, start)]
    for probe in range(start + _STEP_MS, end + _STEP_MS, _STEP_MS):
        after = offset_at(name, probe)
        if after != offsets[-1]:
            low, high = (probe - _STEP_MS) // SECOND_MS, probe // SECOND_MS
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if offset_at(name, middle * SECOND_MS) == offsets[-1] else (low, middle)
            moments.append(high * SECOND_MS)
            offsets.append(after)
    return tuple(moments), tuple(offsets)


def offsets(name: str, times: Sequence[int]) -> list[int]:
    """The offset at each of these ascending epoch times, as `offset_at` returns it."""
    if name == "UTC":
        return [0] * len(times)
    first, last = (datetime.fromtimestamp(times[end] // SECOND_MS, UTC).year for end in (0, -1))
    if last - first > _MAX_YEARS:
        return [offset_at(name, time) for time in times]
    found: list[int] = []
    current = offset_at(name, times[0])
    for year in range(first, last + 1):
        for moment, after in zip(*_changes(name, year), strict=True):
            if after != current:
                found += [current] * (bisect_left(times, moment) - len(found))
                current = after
    return found + [current] * (len(times) - len(found))


def wall_to_epoch(name: str, wall_ms: int) -> int:
    """The epoch time at which the zone's clocks show this wall time.

    Of a time that occurs twice, because clocks go back, it is the first, as for cron. A time that is skipped, because
    clocks go forward, counts by the offset before: 02:30 becomes 03:30.
    """
    if name == "UTC":
        return wall_ms
    before = offset_at(name, wall_ms - DAY_MS)
    if offset_at(name, wall_ms - before) == before:
        return wall_ms - before
    after = offset_at(name, wall_ms + DAY_MS)
    return wall_ms - after if offset_at(name, wall_ms - after) == after else wall_ms - before
