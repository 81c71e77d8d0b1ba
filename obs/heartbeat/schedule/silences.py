"""Silences that came before, and are waited for: pauses, changes too recent to be learned, computers switched off."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

from obs.heartbeat.schedule.fit import Candidate
from obs.heartbeat.schedule.gates import WEEKLY
from obs.heartbeat.schedule.history import MOVED_MS, Interval
from obs.heartbeat.schedule.hypotheses import next_slot
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, WEEK_MS

MISSED_GAPS = 2  # a run that is later than this many of the longest gaps seen was missed, it is not late
_SAME_TIME = 0.1  # of a day or week: heartbeats so close to one another came at the same time of it
_SEVERAL_A_DAY_MS = (2 * HOUR_MS, 20 * HOUR_MS)  # hosted schedulers often skip such runs
_LONG_SILENCE, _LONG_SILENCES, _NIGHTS = 5, 3, 25  # usual intervals; how many silences; in how many days
_LONGER = 1.1  # months have different lengths


def repeated_silence(
    best: Candidate, seen: Sequence[int], weeks: Sequence[int], least: int, usual: int, unknown: Sequence[Interval]
) -> tuple[int, int]:
    """How long to wait because the job was silent for longer than `least` before, and missed slots; 0 if it was not.

    The first: after the last two heartbeats, or at the same time on the last two days or weeks. The second: at this
    time on several of the last days, but not each week. docs/decisions/0005 says why. Of a job that runs more often
    than hourly, `weeks` has the first one of each hour.
    """
    found, irregular, (bound, early) = 0, 0, best.late_and_early
    enough = 3 if _SEVERAL_A_DAY_MS[0] < usual < _SEVERAL_A_DAY_MS[1] else 2

    def silence_after(period: int, before: int, shift: int = 0) -> int:
        """The silence so many periods before the last heartbeat; 0 if no slot was missed, as far as this is known."""
        times = weeks if period else seen
        then = times[-1] - before * period - shift if period else times[-1 - before]
        at = min(max(0, bisect_right(times, then + usual // 2) - 1), len(times) - 2)
        start, end = times[at], times[at + 1]
        by_hour = start < seen[0]
        shortest = max(least, 2 * usual) + HOUR_MS if by_hour else least
        if abs(start - then) > _SAME_TIME * period or _silence(start, end, unknown) <= shortest:
            return 0
        slot = next_slot(best.hypothesis, start + by_hour * HOUR_MS, early, best.skip)
        return end - start if (by_hour and before > 1) or end > slot + min(bound, usual // 4) else 0

    for period in (0, DAY_MS, WEEK_MS) if len(seen) > enough else ():
        silences = [silence_after(period, before) for before in range(1, enough + 1)]
        if period == WEEK_MS and usual > _SEVERAL_A_DAY_MS[1] and silence_after(period, enough, -DAY_MS):
            silences[-1] = silences[-1] or silences[0]
        # The job was silent on the day before this time a week ago, but not this week.
        has_changed = period == WEEK_MS and silence_after(WEEK_MS, 1, DAY_MS) and not silence_after(WEEK_MS, 0, DAY_MS)
        if all(silences) and not has_changed:
            found = max(found, round(_LONGER * (min if period else max)(silences)))
    days = _NIGHTS if usual < DAY_MS // 2 else 0
    nights = [silence_after(DAY_MS, 1, day * DAY_MS) for day in range(days)]
    differing = sum(abs(night - other) > usual // 2 for night, other in zip(nights, nights[7:], strict=False))
    if min(differing, sum(map(bool, nights))) >= _LONG_SILENCES and best.hypothesis.gate.kind in WEEKLY:
        night = sorted(nights)[-2]
        morning = next_slot(best.hypothesis, seen[-1] + night, early, 0)
        irregular = morning + bound - seen[-1] + round((_LONGER - 1) * night)
    return found, irregular


def switched_off(best: Candidate, seen: Sequence[int], usual: int, unknown: Sequence[Interval]) -> int:
    """How long to wait for a job whose computer is often switched off; 0 for others.

    On most days, such a job is silent for several slots, and on each day from another time on.
    """
    least = _LONG_SILENCE * usual
    long_gaps = [(start, end) for start, end in pairwise(seen) if end - start >= least]
    missed = [gap for gap in long_gaps if gap[1] >= next_slot(best.hypothesis, gap[0], MINUTE_MS, 0) + least]
    silences = {start: silence for start, end in missed if (silence := _silence(start, end, unknown)) >= least}
    long, days = list(silences), (seen[-1] - seen[0]) / DAY_MS
    if len(long) < max(_LONG_SILENCES, days / 2):
        return 0
    a_day = max(1, round(len(long) / days))
    moved = sum(MOVED_MS <= (b - a) % DAY_MS <= DAY_MS - MOVED_MS for a, b in zip(long, long[a_day:], strict=False))
    return MISSED_GAPS * max(silences.values()) if 2 * moved > len(long) - a_day else 0


def _silence(start: int, end: int, unknown: Sequence[Interval]) -> int:
    """How long a job was silent from one heartbeat to the next, without the unknown times."""
    return end - start - sum(max(0, min(end, until) - max(start, since)) for since, until in unknown)
