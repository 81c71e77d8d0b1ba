"""What the learner takes as a history: the last heartbeats, in order, without echoes."""

import itertools
from collections.abc import Iterable, Sequence

from obs.heartbeat.schedule.clock import EARLIEST, LATEST

KEPT = 256
ECHO_SECONDS = 2.0
NEEDED = 3
NEEDED_WHEN_FREQUENT = 8
FREQUENT_SECONDS = 120.0


def history(times: Iterable[float]) -> list[float]:
    """The last 256 heartbeats, ascending epoch seconds. One within 2 s of the one kept before is the same
    heartbeat.

    Moments that no calendar holds (not a number, infinite, before year 1 or after year 9990) are left out.
    """
    kept: list[float] = []
    for time in sorted(t for t in times if EARLIEST < t < LATEST):
        if not kept or time - kept[-1] > ECHO_SECONDS:
            kept.append(float(time))
    return kept[-KEPT:]


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two in the middle. Raises IndexError where there is none."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def usual_gap(times: Sequence[float]) -> float:
    """Median seconds between heartbeats; 0.0 where there are fewer than two."""
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    return median(gaps) if gaps else 0.0


def needed(times: Sequence[float]) -> int:
    """How many heartbeats it takes before anything is said of this job."""
    gap = usual_gap(times)
    return NEEDED_WHEN_FREQUENT if len(times) > 1 and gap < FREQUENT_SECONDS else NEEDED
