"""Learns a job's schedule from its heartbeats. Start reading here; docs/architecture.md has the terms.

`learn` weighs all hypotheses for the history and keeps those with weight as candidates. The candidates determine when
the next heartbeat is expected, and from when on silence means overdue. When the next heartbeat comes as expected,
`learn` only updates the previous fit. It weighs all hypotheses again if the heartbeat disagrees, or after a while. It
looks for a change of schedule at an expected heartbeat, where it can, so that few heartbeats cost both.

Times are milliseconds since the epoch, except in `deadline`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import pairwise
from operator import add

from obs.heartbeat.schedule import history
from obs.heartbeat.schedule.clock import EARLIEST_MS, LATEST_MS, offset_at, offsets, wall_to_epoch
from obs.heartbeat.schedule.cost import OUTLIER_BITS, residual_bits
from obs.heartbeat.schedule.fit import FITTING, NEW_JOB, Candidate, Fit
from obs.heartbeat.schedule.gates import Gate
from obs.heartbeat.schedule.grace import RECENT, upper_bound, with_slack
from obs.heartbeat.schedule.history import Interval, Memory, is_irregular, usual_interval
from obs.heartbeat.schedule.hypotheses import NEGLIGIBLE, Past, Weighed, filled_slot, next_slot, weigh, weigh_again
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, WEEK_MS

ZONES = (  # the time zones that a job may be scheduled in by default, likelier ones first
    *("UTC", "America/New_York", "Europe/Berlin", "America/Chicago", "Europe/London", "America/Los_Angeles"),
    *("Asia/Kolkata", "Asia/Tokyo", "Australia/Sydney"),
)

_MATTERS = 1e-3  # a heartbeat that contradicts a candidate of more weight than this requires weighing all again
_CHECK_INTERVAL = 4  # heartbeats between two looks for a change of schedule; more when the history is long
_MISSED_GAPS = 2  # a run that is later than this many of the longest gaps seen was missed, it is not late
_PATIENCE = 0.002  # the share of the weight that the candidates still waiting need to have
_PATIENCE_GROWTH = 1.03  # for each usual interval after the first candidate has given up
_ENOUGH_WEIGHT = 0.25  # candidates with so much weight are waited for, however long that takes
_SAME_TIME = 0.1  # of a day or week: heartbeats so close to one another came at the same time of it
_SEVERAL_A_DAY_MS = (2 * HOUR_MS, 20 * HOUR_MS)  # hosted schedulers often skip such runs
_WEEKLY = ("every", "weekdays")  # gates that are the same in each week
_OTHERS = 0.025  # the share of heartbeats that come in one of two weeks only
_LONG_SILENCE, _LONG_SILENCES, _NIGHTS = 5, 3, 25  # usual intervals; how many such silences; in how many days
_MOVED_MS = 50 * MINUTE_MS  # to another time of day
_LONGER = 1.1  # months have different lengths
_MIN_SAVED_BITS = 44.0  # 22 to state the change; twice that, because consecutive heartbeats are not independent
_MIN_OLD_INTERVALS = 1.5  # the new part lasts at least this many usual intervals of the old part
_MIN_OLDER_BITS = 22.0  # hours and days are independent
_OLDER_DAYS = (2, 4, 8, 16, 32, 64)
_MIN_BEFORE, _RECENT, _POOR_MISFITS = 3, 24, 2  # heartbeats
_RECENT_TAIL_LENGTHS = (5, 7, 9, 12, 15, 20, 28, 45)  # changes are looked for at least every 32 heartbeats
_TAIL_LENGTHS = (*_RECENT_TAIL_LENGTHS, 70, 110, 180)
_TAILS_TRIED = 2
_CACHED_FITS = 128


def learn(
    times: Iterable[int], zones: Sequence[str] = ZONES, previous: Fit | None = None, unknown: Sequence[Interval] = ()
) -> Fit:
    """What the heartbeats show about the job's schedule. `times` may be in any order.

    `zones` are the names of the time zones that the job may be scheduled in, likelier ones first; UTC is tried as well.
    `previous` is the fit from before the latest heartbeat; it saves work if that heartbeat came as expected. Raises
    zoneinfo.ZoneInfoNotFoundError for an unknown zone.

    `unknown` are the times, as ascending (start, end), in which nobody can know whether the job ran: maintenance,
    pauses, downtime of the service. A slot in one of them is neither missed nor filled, nor is it waited for. After one
    of at most two minutes it is, because clients send again.
    """
    changed_at = None if previous is None else previous.changed_at
    memory = Memory().add(times)
    seen, older = memory.history(changed_at)
    updated, unchecked = None, len(seen)
    if previous is not None and previous.candidates and seen:
        if seen[-1] == previous.last_at and len(seen) == previous.seen:
            return _decided_again(previous, tuple(seen), tuple(unknown), memory)
        unchecked = previous.unchanged_for + 1
        if len(seen) > 1 and seen[-2] == previous.last_at:
            updated = _updated(previous, seen, unknown, memory)
            if updated and unchecked < max(_CHECK_INTERVAL, len(seen) // 12):
                return updated
    calm, bursts = history.without_bursts(seen, older)
    enough = history.needed(calm)
    if len(calm) < enough:
        return Fit(len(calm), enough, seen[0] if seen else None, seen[-1] if seen else None)
    gaps = (*(time for time in unknown if time[1] - time[0] > history.RETRIED_MS), *bursts)
    known = updated and weigh_again(updated.candidates[0].hypothesis, calm, older, gaps)
    found = known or weigh(calm, zones, older, gaps)
    best = found[0]
    misfits = min(best.account.each[-_TAIL_LENGTHS[0] :]) >= OUTLIER_BITS
    if updated or misfits or unchecked >= min(len(calm), max(_CHECK_INTERVAL, len(calm) // 8)):
        unchecked = 0
        # That the days of its weeks differ is no change.
        lengths = _TAIL_LENGTHS if previous is None else () if previous.as_a_week_ago else _RECENT_TAIL_LENGTHS
        start = _since_change(calm, best, lengths)
        forgotten = len(older) if start else _older_change(calm, older, best)
        if start or forgotten:
            calm, older = calm[start:], older[forgotten:]
            changed_at = (older or calm)[0]
            seen = [time for time in seen if time >= calm[0]]
            found = weigh(calm, zones, older, gaps)
            best = found[0]
        elif updated:
            return replace(updated, unchanged_for=0)
    kept = [(w, w.account) for w in found if 2.0 ** (best.bits - w.bits) >= NEGLIGIBLE]
    candidates = tuple(Candidate(w.hypothesis, w.bits, a.usual_skip, a.filling.residuals[-RECENT:]) for w, a in kept)
    first_at = (older or seen)[0]
    fit = Fit(len(seen), enough, first_at, seen[-1], changed_at, candidates, len(calm), best.fitted)
    return _decided(replace(fit, unchanged_for=unchecked), seen, unknown, memory)


def deadline(times: list[float], zones: Sequence[str] = ZONES) -> float | None:
    """The time from which silence means overdue; None while there are too few heartbeats.

    For tools that score a learner: `times` and the result are SECONDS since the epoch. Times that are not finite are
    ignored. Fits are cached by the heartbeats they were learned from, so asking after every heartbeat is cheap.
    """
    ordered = sorted(round(time * SECOND_MS) for time in times if EARLIEST_MS < time * SECOND_MS < LATEST_MS)
    zones, seen, before_last = tuple(zones), Memory().add(ordered), Memory().add(ordered[:-1])
    fit = learn(seen.times, zones, _fits.get((zones, before_last)))
    if len(_fits) >= _CACHED_FITS:
        _fits.pop(next(iter(_fits)), None)
    _fits[zones, seen] = fit
    return None if fit.overdue_at is None else fit.overdue_at / SECOND_MS


_fits: dict[tuple[tuple[str, ...], Memory], Fit] = {}


def _since_change(times: Sequence[int], best: Weighed, lengths: Sequence[int]) -> int:
    """The index of the first heartbeat of the current schedule; 0 if the schedule has not changed.

    It has if two descriptions, of the heartbeats before it and from it on, save enough bits compared to `best`.
    """
    count = len(times)
    # For a gap a single misfit is enough: a job that was moved to another time of day has only one odd gap.
    enough, watched = (1, count) if best.hypothesis.lattice is None else (_POOR_MISFITS, _RECENT)
    if not best.account.misses_often and sum(b >= OUTLIER_BITS for b in best.account.each[-watched:]) < enough:
        return 0
    few, usual = (best.hypothesis.zone,), usual_interval(times)
    tails: list[tuple[float, int, float]] = []
    for start in (count - length for length in lengths if count - length >= _MIN_BEFORE):
        tail = times[start:]
        # If it only takes longer in some hours of the day, its pace is the same.
        is_slower = usual < HOUR_MS and abs(usual_interval(tail) - usual) < usual / 10 and tail[-1] - tail[0] < DAY_MS
        if len(tail) >= history.needed(tail) and not is_slower and not (is_irregular(tail) and usual < HOUR_MS):
            together = sum(best.account.each[start - count :])
            least = sorted([(0.0, 0, 0.0)] * _TAILS_TRIED + tails)[-_TAILS_TRIED][0]  # less would not be tried
            new = weigh(tail, few, most=together - least)[0]
            if new.fitted >= FITTING * len(tail):
                tails.append((together - new.bits, start, new.bits))

    def gain(start: int, least: float, bits: float | None = None) -> float:
        """The bits that are saved; where these are fewer than `least`, any number that is not more."""
        before, tail = times[:start], times[start:]
        if times[-1] - times[start] < _MIN_OLD_INTERVALS * usual_interval(before):
            return 0.0
        left = best.bits - (weigh(tail, few, most=best.bits - least)[0].bits if bits is None else bits)
        regular = not is_irregular(before)
        return left - (weigh(before, few, most=left - least)[0].bits if regular else sum(best.account.each[:start]))

    most, start = _MIN_SAVED_BITS, 0
    for _, at, bits in (tail for tail in sorted(tails, reverse=True)[:_TAILS_TRIED] if tail[0] > 0):
        most, start = max((most, start), (gain(at, most, bits), at))
    for distance in (8, 4, 2, 1) if start else ():  # from the length that was tried to the change itself
        near = [one for one in (start - distance, start + distance) if _MIN_BEFORE <= one <= count - lengths[0]]
        most, start = max([(most, start), *((gain(one, most), one) for one in near)])
    return start


def _older_change(times: Sequence[int], older: Sequence[int], best: Weighed) -> int:
    """How many of the older heartbeats come from before a change of the hours or days in which the job runs."""
    if best.older_bits <= _MIN_OLDER_BITS:
        return 0
    few = (best.hypothesis.zone,)
    gain, at = _MIN_OLDER_BITS, 0
    for start in {bisect_left(older, times[-1] - days * DAY_MS) for days in _OLDER_DAYS} - {0}:
        left = best.bits - Past(older[start:] or times, older[:start]).bits("UTC", None, Gate())
        gain, at = max((gain, at), (left - weigh(times, few, older[start:], most=left - gain)[0].bits, start))
    return at


def _decided(fit: Fit, seen: Sequence[int], unknown: Sequence[Interval], memory: Memory) -> Fit:
    """The fit with the fields that follow from its candidates: the next slot, the overdue time, the confidence."""
    last = seen[-1]
    usual = usual_interval(history.without_bursts(list(seen))[0] or seen)
    gaps = [later - earlier for earlier, later in pairwise(seen)]
    missed_ms = _MISSED_GAPS * max(gaps)
    lowest = fit.candidates[0].bits
    later = [(start, end) for start, end in unknown if end > last]
    give_up_times, slots = [], []
    for candidate in fit.candidates:
        hypothesis = candidate.hypothesis
        bound, early = candidate.late_and_early
        following = partial(next_slot, hypothesis, early_ms=-1, skip=candidate.skip)  # none at that moment is filled
        slot = next_slot(hypothesis, last, early, candidate.skip)
        slot, give_up = history.awaited(slot, with_slack(min(bound, missed_ms)), later, following)
        weight = 2.0 ** (lowest - candidate.bits)
        give_up_times.append((give_up, weight))
        slots.append((slot, weight))
    expected = slots[0][0]
    grace = max(0, give_up_times[0][0] - expected)
    total = sum(weight for _, weight in slots)
    agreed = sum(weight for slot, weight in slots if abs(slot - expected) <= grace) / total
    overdue = max(last, _overdue_at(give_up_times, usual))
    if fit.waits_by_gaps:
        overdue = last + min(max(min(overdue - last, upper_bound(tuple(gaps[-RECENT:]))), *gaps), missed_ms)
    latest, older = memory.history()
    weeks = [*older[bisect_left(older, last - history.HOURLY_MS) :], *latest]
    known = weeks if usual > 0.9 * HOUR_MS else seen  # of others, two weeks are known by the hour
    overdue = max(overdue, last + _repeated_silence(fit.candidates[0], known, weeks, overdue - last, usual, unknown))
    is_known = last - known[0] >= 2 * WEEK_MS and all(end - start <= history.RETRIED_MS for start, end in later)
    recent = known[bisect_left(known, last - 5 * WEEK_MS) :]
    weekly = _as_a_week_ago(fit.candidates, recent, overdue) if is_known else None
    near = min(usual // 4, _MOVED_MS)
    if weekly is not None and (weekly[0] > overdue + near or near < overdue - weekly[1] < usual + WEEK_MS):
        slots, grace, overdue = [(weekly[0], 1.0)], weekly[1] - weekly[0], weekly[1]
    switched_off = _switched_off(fit.candidates[0], seen, usual, unknown)
    _, overdue = history.awaited(max(overdue, last + switched_off), 0, later, lambda end: end + grace)
    return replace(
        fit,
        interval_ms=usual,
        expected_at=next((slot for slot, _ in slots if slot <= overdue), overdue),
        overdue_at=overdue,
        grace_ms=overdue - expected if switched_off else grace,
        as_a_week_ago=weekly is not None,
        confidence=round(agreed * fit.fitted / (fit.counted + 1), 3),
    )


def _as_a_week_ago(candidates: Sequence[Candidate], known: Sequence[int], overdue: int) -> tuple[int, int] | None:
    """For a job that runs at the same times each week, whatever these are: the next slot, and until when it is awaited.

    That is a week after the heartbeat that came next in the last two weeks, in the zone where it is the latest. None if
    the weeks differ there, or in more than a few heartbeats; also if the best of the `candidates` is for days of the
    month, or describes the weeks, and the job is `overdue` soon after this slot. Two weeks are `known`, or more.
    """
    best = candidates[0].hypothesis
    usual, walls = usual_interval(known), list[int](map(add, known, offsets(best.zone, known)))
    near, first, last = min(usual // 4, _MOVED_MS), walls[0] + WEEK_MS, walls[-1] - WEEK_MS

    def nearest(wall: int) -> int:
        at = bisect_left(walls, wall)
        return min(walls[max(0, at - 1) : at + 1], key=lambda other: abs(wall - other))

    def late_by(wall: int, week: int) -> int:
        """How late a heartbeat is compared to that of another week; WEEK_MS if that one is nearer to another one."""
        other = nearest(wall + week)
        return wall + week - other if nearest(other - week) == wall else WEEK_MS

    before = nearest(last)
    at = min(bisect_right(walls, before), len(walls) - 1)
    following, zones = walls[at], {candidate.hypothesis.zone for candidate in candidates}
    slot = max(wall_to_epoch(zone, known[at] + offset_at(zone, known[at]) + WEEK_MS) for zone in zones)
    week, differing = walls[bisect_right(walls, last) :], 0
    if best.lattice is not None:
        slots = best.lattice.size * (len(best.gate.numbers) or 7)
        matching = sum(abs(residual) <= near for residual in best.lattice.assign(week)[1])
        differing = max(slots, len(week)) - matching
    if (differing <= 2 * _OTHERS * len(week) and abs(slot - overdue) <= usual // 4) or best.gate.kind not in _WEEKLY:
        return None
    late = {wall: late_by(wall, -WEEK_MS) for wall in walls if wall > first + near}
    missed = {wall + WEEK_MS: late_by(wall, WEEK_MS) for wall in walls if wall < last - near}
    others = {wall for wall, by in (*late.items(), *missed.items()) if abs(by) > near}
    same = late.keys() - others
    differs_here = not {walls[-1], following} <= same or any(before < wall < following for wall in others)
    if differs_here or len(others) > _OTHERS * len(walls):
        return None
    return slot, slot + with_slack(upper_bound(tuple([late[wall] for wall in sorted(same)][-RECENT:])))


_decided_again = lru_cache(_CACHED_FITS)(_decided)  # of each host, whenever another host of its job reports


def _repeated_silence(
    best: Candidate, seen: Sequence[int], weeks: Sequence[int], least: int, usual: int, unknown: Sequence[Interval]
) -> int:
    """How long to wait because the job was silent for longer than `least` twice, and missed slots; 0 if it was not.

    That is: after the last two heartbeats, or at the same time on the last two days or weeks. Two such silences seldom
    are failures. They are pauses, or a change of schedule that is too recent to be learned. If the job runs several
    times a day, it takes three. Or there were three long ones on other days: the computer is switched off at night, not
    always after the same slot. Of a job that runs more often than hourly, `weeks` has the first one of each hour.
    """
    found, (bound, early) = 0, best.late_and_early
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
        # The job was silent on the day before this time a week ago, but not this week.
        has_changed = period == WEEK_MS and silence_after(WEEK_MS, 1, DAY_MS) and not silence_after(WEEK_MS, 0, DAY_MS)
        if all(silences) and not has_changed:
            found = max(found, round(_LONGER * (min if period else max)(silences)))
    nights = [one for day in range(_NIGHTS) if (one := silence_after(DAY_MS, 1, day * DAY_MS)) >= _LONG_SILENCE * usual]
    if len(nights) >= _LONG_SILENCES and best.hypothesis.gate.kind in _WEEKLY:
        night = history.median(nights)
        morning = next_slot(best.hypothesis, seen[-1] + night, early, 0)
        found = max(found, morning + bound - seen[-1] + round((_LONGER - 1) * night))
    return found


def _switched_off(best: Candidate, seen: Sequence[int], usual: int, unknown: Sequence[Interval]) -> int:
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
    moved = sum(_MOVED_MS <= (b - a) % DAY_MS <= DAY_MS - _MOVED_MS for a, b in zip(long, long[a_day:], strict=False))
    return _MISSED_GAPS * max(silences.values()) if 2 * moved > len(long) - a_day else 0


def _silence(start: int, end: int, unknown: Sequence[Interval]) -> int:
    """How long a job was silent from one heartbeat to the next, without the unknown times."""
    return end - start - sum(max(0, min(end, until) - max(start, since)) for since, until in unknown)


def _overdue_at(give_up_times: Sequence[tuple[int, float]], usual_ms: int) -> int:
    """The first time at which the candidates that are still waiting have too little weight, less than _PATIENCE.

    `give_up_times` are the time at which each candidate gives up waiting, and its weight.
    """
    ordered = sorted(give_up_times)
    waiting = total = sum(weight for _, weight in ordered)
    for moment, weight in ordered:
        waiting -= weight
        intervals = min(1000, (moment - ordered[0][0]) / max(usual_ms, SECOND_MS))
        if waiting / total < min(_ENOUGH_WEIGHT, _PATIENCE * _PATIENCE_GROWTH**intervals):
            return moment
    return ordered[-1][0]


def _updated(previous: Fit, seen: list[int], unknown: Sequence[Interval], memory: Memory) -> Fit | None:
    """The fit after one more heartbeat, the last of `seen`; None if all hypotheses have to be weighed again."""
    if len(seen) < NEW_JOB or previous.updates >= len(seen) // 8 or previous.last_at is None:
        return None
    time, lowest = seen[-1], previous.candidates[0].bits
    candidates = []
    for candidate in previous.candidates:
        cost, residuals, hypothesis = OUTLIER_BITS, candidate.residuals, candidate.hypothesis
        residual = time - next_slot(hypothesis, previous.last_at, candidate.late_and_early[1], 0)
        is_next = abs(residual) < hypothesis.gap_ms / 2
        if hypothesis.lattice is not None:
            is_next = abs(filled_slot(hypothesis, time)[2] - residual) < SECOND_MS
        if is_next:  # it is the run of the slot after the last one's
            residuals = (*residuals, residual)[-RECENT:]
            cost = (residual_bits(residuals, 0, hypothesis.spacing_ms) or [OUTLIER_BITS])[-1]
        if cost >= OUTLIER_BITS and 2.0 ** (lowest - candidate.bits) > _MATTERS:
            return None
        candidates.append(replace(candidate, bits=candidate.bits + cost, residuals=residuals))
    candidates.sort(key=lambda candidate: candidate.bits)
    counted = previous.counted + len(seen) - previous.seen
    fit = replace(
        previous,
        seen=len(seen),
        counted=counted,
        last_at=time,
        candidates=tuple(c for c in candidates if 2.0 ** (candidates[0].bits - c.bits) >= NEGLIGIBLE),
        fitted=min(counted, previous.fitted + 1),
        updates=previous.updates + 1,
        unchanged_for=previous.unchanged_for + 1,
    )
    return _decided(fit, seen, unknown, memory)
