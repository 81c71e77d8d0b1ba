"""A schedule that was changed: how much of the history still speaks of the job as it is now.

Where the heartbeats since some moment cost less on their own, and those before it on their own, than all of
them together, by more than it takes to say that there was a change and when, what came before is forgotten.
"""

from collections.abc import Sequence

from obs.heartbeat.schedule.clock import offsets
from obs.heartbeat.schedule.cost import OUTLIER_BITS
from obs.heartbeat.schedule.heartbeats import needed, usual_gap
from obs.heartbeat.schedule.hypotheses import Weighed, weigh

_SAVES_BITS = 44.0  # 22 to say that and when; twice that, as heartbeats near one another are alike
_OLD_STEPS = 1.5
_LEAST_BEFORE = 3
_RECENT = 24
_POOR = 2
_TAILS = (5, 8, 12, 18, 28, 45, 70, 110, 180)
_TRIED = 2
_AS_GOOD_BITS = 6.0
_WITHIN_SECONDS = 30.0


def best_of(found: Sequence[Weighed]) -> Weighed:
    return min(found, key=lambda weighed: weighed.bits)


def is_poor(best: Weighed) -> bool:
    """Whether the history fits so badly that a change is worth looking for.

    A gap takes a job that was moved to another time of day for one odd step, so one misfit is enough there.
    """
    if best.hypothesis.lattice is None:
        return best.account.habit or any(bits >= OUTLIER_BITS for bits in best.account.each)
    misfits = sum(bits >= OUTLIER_BITS for bits in best.account.each[-_RECENT:])
    return best.account.habit or misfits >= _POOR


def since_change(times: Sequence[float], best: Weighed) -> int:
    """The place of the first heartbeat of the present schedule; 0 where there was no change.

    `best` is the best hypothesis for all of the ascending `times`.
    """
    count = len(times)
    if count < _LEAST_BEFORE + _TAILS[0] or not is_poor(best):
        return 0
    few = tuple(dict.fromkeys(("UTC", best.hypothesis.zone)))
    saved: list[tuple[float, int]] = []
    for length in _TAILS:
        start = count - length
        if start < _LEAST_BEFORE:
            break
        if length < needed(times[start:]):
            continue
        alone = best_of(weigh(times[start:], few)).bits
        saved.append((sum(best.account.each[-length:]) - alone, start))
    saved.sort(reverse=True)
    gains: dict[int, float] = {}
    for _, rough in saved[:_TRIED]:
        present = best_of(weigh(times[rough:], few))
        for start in {rough, _reach_back(times, rough, present)}:
            before = times[:start]
            if start in gains or len(before) < _LEAST_BEFORE:
                continue
            if times[-1] - times[start] >= _OLD_STEPS * usual_gap(before):
                after = present if start == rough else best_of(weigh(times[start:], few))
                gains[start] = best.bits - best_of(weigh(before, few)).bits - after.bits
    most = max(gains.values(), default=0.0)
    if most <= _SAVES_BITS:
        return 0
    return min(start for start, gain in gains.items() if gain > max(_SAVES_BITS, most - _AS_GOOD_BITS))


def _reach_back(times: Sequence[float], start: int, present: Weighed) -> int:
    """The first heartbeat that keeps to the slots of the present schedule, before two that do not."""
    lattice = present.hypothesis.lattice
    if lattice is None:
        return start
    walls = [time + offset for time, offset in zip(times, offsets(present.hypothesis.zone, times), strict=True)]
    _, _, residuals = lattice.assign(walls)
    within = 2 * max(abs(residual) for residual in present.account.residuals) + _WITHIN_SECONDS
    strays = 0
    for place in range(start - 1, -1, -1):
        strays = 0 if abs(residuals[place]) <= within else strays + 1
        if strays == 0:
            start = place
        elif strays > 1:
            break
    return start
