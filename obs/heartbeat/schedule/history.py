"""The history: the heartbeats that the learner looks at, and simple facts about them.

All times are milliseconds since the epoch.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from obs.heartbeat.schedule.clock import EARLIEST_MS, LATEST_MS
from obs.times import MINUTE_MS, SECOND_MS

MAX_HEARTBEATS = 256
"""How many of the latest heartbeats make up the history."""

MIN_HEARTBEATS = 3
"""How many heartbeats the first answer takes."""

_MIN_HEARTBEATS_WHEN_FREQUENT = 8
_FREQUENT_MS = 2 * MINUTE_MS
_DUPLICATE_MS = 2 * SECOND_MS


def history(times: Iterable[int]) -> list[int]:
    """The latest 256 heartbeats in ascending order; `times` may be in any order.

    A heartbeat within 2 seconds of the one before it counts as the same heartbeat. Times outside the
    years 6 to 9995 are left out, because datetime cannot represent them in every zone.
    """
    kept: list[int] = []
    for time in sorted(times):
        if EARLIEST_MS < time < LATEST_MS and (not kept or time - kept[-1] > _DUPLICATE_MS):
            kept.append(time)
    return kept[-MAX_HEARTBEATS:]


def median(values: Sequence[int]) -> int:
    """The middle value, or the mean of the two in the middle, rounded down.

    Raises IndexError when there are no values.
    """
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) // 2


def usual_interval(times: Sequence[int]) -> int:
    """The median interval between ascending heartbeats; 0 when there are fewer than two."""
    intervals = [later - earlier for earlier, later in pairwise(times)]
    return median(intervals) if intervals else 0


def needed(times: Sequence[int]) -> int:
    """How many heartbeats the learner needs before it gives an answer: 3, or 8 for a job that runs very often.

    Jobs that run very often are those with a usual interval of less than two minutes.
    """
    if len(times) > 1 and usual_interval(times) < _FREQUENT_MS:
        return _MIN_HEARTBEATS_WHEN_FREQUENT
    return MIN_HEARTBEATS
