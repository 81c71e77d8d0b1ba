"""Changes of a job's schedule: only the heartbeats since then describe what is expected now."""

from bisect import bisect_left
from collections.abc import Sequence
from functools import cache

from obs.heartbeat.schedule.cost import OUTLIER_BITS
from obs.heartbeat.schedule.fit import FITTING
from obs.heartbeat.schedule.gates import Gate
from obs.heartbeat.schedule.history import is_irregular, needed, usual_interval
from obs.heartbeat.schedule.hypotheses import Past, Weighed, weigh, weigh_again
from obs.times import DAY_MS, HOUR_MS

RECENT_TAIL_LENGTHS = (5, 7, 9, 12, 15, 20, 28, 45)  # changes are looked for at least every 32 heartbeats
TAIL_LENGTHS = (*RECENT_TAIL_LENGTHS, 70, 110, 180)
_TAILS_TRIED = 2
_MIN_BEFORE, _RECENT, _POOR_MISFITS = 3, 24, 2  # heartbeats
_MIN_SAVED_BITS = 44.0  # 22 to state the change; twice that, because consecutive heartbeats are not independent
_MIN_OLD_INTERVALS = 1.5  # the new part lasts at least this many usual intervals of the old part
_MIN_OLDER_BITS = 22.0  # hours and days are independent
_OLDER_DAYS = (2, 4, 8, 16, 32, 64)


def since_change(times: Sequence[int], best: Weighed, lengths: Sequence[int]) -> int:
    """The index of the first heartbeat of the current schedule; 0 if the schedule has not changed.

    It has if two descriptions, of the heartbeats before it and from it on, save enough bits compared to `best`.
    """
    count = len(times)
    # For a gap a single misfit is enough: a job that was moved to another time of day has only one odd gap.
    enough, watched = (1, count) if best.hypothesis.lattice is None else (_POOR_MISFITS, _RECENT)
    if not best.account.misses_often and sum(b >= OUTLIER_BITS for b in best.account.each[-watched:]) < enough:
        return 0
    few, usual = (best.hypothesis.zone,), usual_interval(times)
    part = cache(lambda start, end: weigh(times[start:end], few)[0])
    tails: list[tuple[float, int]] = []
    for start in (count - length for length in lengths if count - length >= _MIN_BEFORE):
        tail = times[start:]
        # If it only takes longer in some hours of the day, its pace is the same.
        is_slower = usual < HOUR_MS and abs(usual_interval(tail) - usual) < usual / 10 and tail[-1] - tail[0] < DAY_MS
        is_vague = len(tail) < needed(tail) or is_slower or (is_irregular(tail) and usual < HOUR_MS)
        if not is_vague and part(start, count).fitted >= FITTING * len(tail):
            tails.append((sum(best.account.each[start - count :]) - part(start, count).bits, start))

    def saved_bits(start: int) -> float:
        before = times[:start]
        if times[-1] - times[start] < _MIN_OLD_INTERVALS * usual_interval(before):
            return 0.0
        old_bits = sum(best.account.each[:start]) if is_irregular(before) else part(0, start).bits
        return best.bits - part(start, count).bits - old_bits

    most, start = _MIN_SAVED_BITS, 0
    for _, at in (tail for tail in sorted(tails, reverse=True)[:_TAILS_TRIED] if tail[0] > 0):
        most, start = max((most, start), (saved_bits(at), at))
    if start:  # from the length that was tried to the change itself, as far as both descriptions reach
        first, last = max(_MIN_BEFORE, start - (count - start) // 2), min(start + start // 2, count - lengths[0])
        old = [cost for w in weigh_again(part(0, start).hypothesis, times[:last]) for cost in w.account.each]
        new = [cost for w in weigh_again(part(start, count).hypothesis, times[first:]) for cost in w.account.each]
        near = min(range(first, last + 1), key=lambda at: sum(old[:at]) + sum(new[at - first :]))
        most, start = max((most, start), (saved_bits(near), near))
    return start


def older_change(times: Sequence[int], older: Sequence[int], best: Weighed) -> int:
    """How many of the older heartbeats come from before a change of the hours or days in which the job runs."""
    if best.older_bits <= _MIN_OLDER_BITS:
        return 0
    gain, at = _MIN_OLDER_BITS, 0
    for start in {bisect_left(older, times[-1] - days * DAY_MS) for days in _OLDER_DAYS} - {0}:
        left = best.bits - Past(older[start:] or times, older[:start]).bits("UTC", None, Gate())
        gain, at = max((gain, at), (left - weigh(times, (best.hypothesis.zone,), older[start:])[0].bits, start))
    return at
