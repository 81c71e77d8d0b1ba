"""The memory of a job's heartbeats, and simple facts about them.

256 heartbeats of a job that runs every minute cover only four hours. So the memory also holds the first one of each
hour for 15 days before, and of each day for 130 days. They show in which hours and on which days the job runs.
"""

import json
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, islice, pairwise
from statistics import median_low

from obs.heartbeat.schedule.clock import EARLIEST_MS, LATEST_MS
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

MAX_HEARTBEATS = 256  # how many of the latest are kept whatever their times
MIN_HEARTBEATS = 3  # how many the first answer takes
_MIN_HEARTBEATS_WHEN_FREQUENT, _FREQUENT_MS = 8, 2 * MINUTE_MS
_DUPLICATE_MS = 2 * SECOND_MS
_HOURS, _DAYS = 15 * 24, 130
HOURLY_MS = (_HOURS - 1) * HOUR_MS  # for so long before the latest heartbeat, the memory has one of each hour

MOVED_MS = 50 * MINUTE_MS  # heartbeats that differ by so much came at another time of day
_BURST_MORE = _BURST_TIMES = _BURST_DAYS = 3
_BURST_SHARE = 0.25

Times = Sequence[int]
Interval = tuple[int, int]  # a time from its start to its end
RETRIED_MS = 2 * MINUTE_MS
"""Clients repeat a heartbeat for at least this long. So after a shorter unknown time, such as a restart, it comes."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The heartbeats that the learner remembers, ascending, at most about 750; added in any order, also twice."""

    times: tuple[int, ...] = ()

    def add(self, times: Iterable[int]) -> "Memory":
        """The memory after these heartbeats, in any order. Times outside the years 6 to 9995 are left out.

        Of the same two seconds, hour or day of UTC the first one is kept, so what was forgotten before does not matter.
        """
        ordered = sorted({*self.times, *(time for time in times if EARLIEST_MS < time < LATEST_MS)})
        if not ordered:
            return Memory()
        kept = set(islice({time // _DUPLICATE_MS: time for time in reversed(ordered)}.values(), MAX_HEARTBEATS))
        older = ordered[: bisect_left(ordered, min(kept))]
        for length, count in ((HOUR_MS, _HOURS), (DAY_MS, _DAYS)):
            since = bisect_left(older, (ordered[-1] // length - count) * length)
            kept.update({time // length: time for time in reversed(older[since:])}.values())
        return Memory(tuple(sorted(kept)))

    def history(self, since: int | None = None) -> tuple[list[int], list[int]]:
        """The latest heartbeats from `since` on, and the older ones; two within 2 seconds count as the same one."""
        kept = list[int]()
        for time in self.times[0 if since is None else bisect_left(self.times, since) :]:
            if not kept or time - kept[-1] > _DUPLICATE_MS:
                kept.append(time)
        at = bisect_left(kept, self.times[-MAX_HEARTBEATS]) if len(self.times) > MAX_HEARTBEATS else 0
        return kept[at:], kept[:at]

    def encode(self) -> bytes:
        """The memory as bytes, at most about 2 KB, for `decode`."""
        steps = [later - earlier for earlier, later in pairwise((0, *self.times))]
        return zlib.compress(json.dumps(steps, separators=(",", ":")).encode())

    @staticmethod
    def decode(data: bytes) -> "Memory":
        """The memory that `encode` wrote. Raises ValueError or zlib.error if the bytes are not a memory."""
        return Memory(tuple(accumulate(json.loads(zlib.decompress(data)))))


def without_bursts(recent: list[int], older: Sequence[int] = ()) -> tuple[list[int], list[Interval]]:
    """The recent heartbeats without those of days of manual runs, and the times that such days last.

    On such a day there are far more heartbeats than on others, at irregular intervals: somebody tests or repairs the
    job. Days of manual runs are rare, but the first day is often one.
    """
    days = [list(day) for _, day in groupby(recent, lambda time: time // DAY_MS)]
    most = _BURST_MORE + _BURST_TIMES * median_low([len(day) for day in days]) if len(days) > 1 else _BURST_MORE - 1
    bursts = [day for day in days if len(day) > most and is_irregular(day)]
    # Of a job that always runs often, the recent heartbeats are from a few hours.
    if len(bursts) > max(1, len(days) * _BURST_SHARE) or (older and len(days) <= _BURST_DAYS):
        bursts = []
    if not older and len(days) > 2 and days[0] not in bursts and len(days[0]) > 2 * max(map(len, days[1:])):
        bursts.append(days[0])  # the job was tried out on its first day
    dropped = {time for day in bursts for time in day}
    return [time for time in recent if time not in dropped], [(day[0], day[-1]) for day in bursts]


def awaited(slot: int, grace_ms: int, unknown: Iterable[Interval], following: Callable[[int], int]) -> tuple[int, int]:
    """The first slot from `slot` on that is waited for, and until when.

    The run of a slot may have come in one of the ascending `unknown` times; then the first slot at its end or later is
    waited for, which `following` returns. After a short unknown time, the slot has its full grace period again.
    """
    limit, until = slot + grace_ms, -1
    for start, end in unknown:
        if (start <= limit and slot < end) or start <= until < end:  # the latter continues the one before
            if end - start > RETRIED_MS:
                slot, until = following(end), end
            limit = max(slot, end) + grace_ms
    return min(slot, LATEST_MS), min(limit, LATEST_MS)


def is_irregular(times: Sequence[int], share: float = 0.4) -> bool:
    """Whether half of the intervals between these heartbeats differ by more than a `share` from the usual one."""
    intervals = [later - earlier for earlier, later in pairwise(times)]
    usual = median(intervals)
    return median([abs(interval - usual) for interval in intervals]) > share * usual


def median(values: Sequence[int]) -> int:
    """The middle value, or the mean of the two in the middle, rounded down. Raises IndexError without values."""
    ordered, half = sorted(values), len(values) // 2
    return (ordered[half] + ordered[~half]) // 2


def usual_interval(times: Sequence[int]) -> int:
    """The median interval between ascending heartbeats; 0 when there are fewer than two."""
    intervals = [later - earlier for earlier, later in pairwise(times)]
    return median(intervals) if intervals else 0


def needed(times: Sequence[int]) -> int:
    """How many heartbeats the first answer takes: 3, or 8 for a usual interval of less than two minutes."""
    return _MIN_HEARTBEATS_WHEN_FREQUENT if 0 < usual_interval(times) < _FREQUENT_MS else MIN_HEARTBEATS
