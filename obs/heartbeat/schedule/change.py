"""Detects that a job's schedule has changed, so that the heartbeats before the change can be forgotten.

The history is split where the two parts, each described on its own, cost fewer bits than the whole does together. The
saving has to exceed the cost of stating that there was a change and when.
"""

from collections.abc import Sequence

from obs.heartbeat.schedule.clock import offsets
from obs.heartbeat.schedule.cost import OUTLIER_BITS
from obs.heartbeat.schedule.history import needed, usual_interval
from obs.heartbeat.schedule.hypotheses import Weighed, best_of, weigh
from obs.times import SECOND_MS

_MIN_SAVED_BITS = 44.0  # 22 to state the change; twice that, because consecutive heartbeats are not independent
_MIN_OLD_INTERVALS = 1.5  # the new part lasts at least this many usual intervals of the old part
_MIN_BEFORE = 3  # heartbeats
_RECENT = 24
_POOR_MISFITS = 2
_TAIL_LENGTHS = (5, 8, 12, 18, 28, 45, 70, 110, 180)
_TAILS_TRIED = 2
_AS_GOOD_BITS = 6.0
_TOLERANCE_MS = 30 * SECOND_MS


def since_change(times: Sequence[int], best: Weighed) -> int:
    """The index of the first heartbeat of the current schedule; 0 if the schedule has not changed.

    `best` is the best hypothesis for all of the ascending `times`.
    """
    count = len(times)
    if count < _MIN_BEFORE + _TAIL_LENGTHS[0] or not _fits_poorly(best):
        return 0
    few = tuple(dict.fromkeys(("UTC", best.hypothesis.zone)))
    saved: list[tuple[float, int]] = []
    for length in _TAIL_LENGTHS:
        start = count - length
        if start < _MIN_BEFORE:
            break
        if length < needed(times[start:]):
            continue
        alone = best_of(weigh(times[start:], few)).bits
        saved.append((sum(best.account.each[-length:]) - alone, start))
    saved.sort(reverse=True)
    gains: dict[int, float] = {}
    for _, rough in saved[:_TAILS_TRIED]:
        current = best_of(weigh(times[rough:], few))
        for start in {rough, _reach_back(times, rough, current)}:
            before = times[:start]
            if start in gains or len(before) < _MIN_BEFORE:
                continue
            if times[-1] - times[start] >= _MIN_OLD_INTERVALS * usual_interval(before):
                after = current if start == rough else best_of(weigh(times[start:], few))
                gains[start] = best.bits - best_of(weigh(before, few)).bits - after.bits
    most = max(gains.values(), default=0.0)
    if most <= _MIN_SAVED_BITS:
        return 0
    return min(start for start, gain in gains.items() if gain > max(_MIN_SAVED_BITS, most - _AS_GOOD_BITS))


def _fits_poorly(best: Weighed) -> bool:
    """Whether the history fits so badly that it is worth looking for a change.

    For a gap a single misfit is enough: a job that was moved to another time of day has only one odd gap.
    """
    if best.hypothesis.lattice is None:
        return best.account.misses_often or any(bits >= OUTLIER_BITS for bits in best.account.each)
    misfits = sum(bits >= OUTLIER_BITS for bits in best.account.each[-_RECENT:])
    return best.account.misses_often or misfits >= _POOR_MISFITS


def _reach_back(times: Sequence[int], start: int, current: Weighed) -> int:
    """The index of the first heartbeat, going back from `start`, that fits the slots of the current schedule.

    A single heartbeat that does not fit is passed over; two in a row end the search.
    """
    lattice = current.hypothesis.lattice
    if lattice is None:
        return start
    walls = [time + offset for time, offset in zip(times, offsets(current.hypothesis.zone, times), strict=True)]
    _, _, residuals = lattice.assign(walls)
    within = 2 * max(abs(residual) for residual in current.account.residuals) + _TOLERANCE_MS
    strays = 0
    for index in range(start - 1, -1, -1):
        strays = 0 if abs(residuals[index]) <= within else strays + 1
        if strays == 0:
            start = index
        elif strays > 1:
            break
    return start
