"""Two judgements beside the schedule: a run that takes too long, and a job that runs too often."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from obs.heartbeat.schedule.clock import offsets
from obs.heartbeat.schedule.fit import Fit
from obs.heartbeat.schedule.heartbeats import NEEDED, history
from obs.heartbeat.schedule.lateness import RECENT, SLACK_SECONDS, upper_bound

_WATCHED_SLOTS = 10
_REPEATEDLY = 3


def duration_bound(durations: Sequence[float]) -> float | None:
    """Seconds after which an open run takes longer than its history allows; None with fewer than three
    durations.

    The bound is that of lateness, over the last 80 durations in seconds, in the order the runs came.
    """
    recent = [seconds for seconds in durations[-RECENT:] if seconds >= 0]
    if len(recent) < NEEDED:
        return None
    return upper_bound(recent) + SLACK_SECONDS


def too_often(times: Iterable[float], fit: Fit) -> bool:
    """Whether of the last ten slots three or more hold two heartbeats or more.

    `fit` is what was learned before the job began to run too often: a fit of these very heartbeats takes
    the new pace for the schedule. For a job that keeps a gap, the time of a slot is its period.
    """
    hypothesis = fit.hypothesis
    seen = history(times)
    if hypothesis is None or len(seen) < 2:
        return False
    if hypothesis.lattice is None:
        began = seen[-1] - _WATCHED_SLOTS * hypothesis.period
        gaps = [later - earlier for earlier, later in pairwise(seen) if earlier >= began]
        return sum(gap < hypothesis.period / 2 for gap in gaps) >= _REPEATEDLY
    walls = [time + offset for time, offset in zip(seen, offsets(hypothesis.zone, seen), strict=True)]
    days, places, _ = hypothesis.lattice.assign(walls)
    held = Counter(zip(days, places, strict=True))
    return sum(held[slot] > 1 for slot in sorted(held)[-_WATCHED_SLOTS:]) >= _REPEATEDLY
