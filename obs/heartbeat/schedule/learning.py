"""Learns a job's schedule from its heartbeats. Start reading here; docs/architecture.md has the terms.

docs/decisions/0005 says how it decides. A change of schedule is looked for at an expected heartbeat, where it can be,
so that few heartbeats cost both that and weighing all hypotheses.

Times are milliseconds since the epoch, except in `deadline`.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import pairwise

from obs.heartbeat.schedule import history
from obs.heartbeat.schedule.changes import RECENT_TAIL_LENGTHS, TAIL_LENGTHS, older_change, since_change
from obs.heartbeat.schedule.clock import EARLIEST_MS, LATEST_MS
from obs.heartbeat.schedule.cost import OUTLIER_BITS, residual_bits
from obs.heartbeat.schedule.fit import NEW_JOB, Candidate, Fit
from obs.heartbeat.schedule.grace import RECENT, upper_bound, with_slack
from obs.heartbeat.schedule.history import MOVED_MS, Interval, Memory, usual_interval
from obs.heartbeat.schedule.hypotheses import NEGLIGIBLE, filled_slot, next_slot, weigh, weigh_again
from obs.heartbeat.schedule.silences import MISSED_GAPS, repeated_silence, switched_off
from obs.heartbeat.schedule.weeks import as_a_week_ago
from obs.times import HOUR_MS, SECOND_MS, WEEK_MS

ZONES = (  # the time zones that a job may be scheduled in by default, likelier ones first
    *("UTC", "America/New_York", "Europe/Berlin", "America/Chicago", "Europe/London", "America/Los_Angeles"),
    *("Asia/Kolkata", "Asia/Tokyo", "Australia/Sydney"),
)

_CHECK_INTERVAL = 4  # heartbeats between two looks for a change of schedule; more when the history is long
_PATIENCE = 0.002  # the share of the weight that the candidates still waiting need to have
_PATIENCE_GROWTH = 1.03  # for each usual interval after the first candidate has given up
_ENOUGH_WEIGHT = 0.25  # candidates with so much weight are waited for, however long that takes
_CACHED_FITS = 128
_fits: dict[tuple[tuple[str, ...], Memory], Fit] = {}


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
            updated = _updated(previous, seen)
            if updated and unchecked < max(_CHECK_INTERVAL, len(seen) // 12):
                return _decided(updated, seen, unknown, memory)
    calm, bursts = history.without_bursts(seen, older)
    enough = history.needed(calm)
    if len(calm) < enough:
        return Fit(len(seen), enough, seen[0] if seen else None, seen[-1] if seen else None)
    gaps = (*(time for time in unknown if time[1] - time[0] > history.RETRIED_MS), *bursts)
    known = updated and weigh_again(updated.candidates[0].hypothesis, calm, older, gaps)
    found = known or weigh(calm, zones, older, gaps)
    best = found[0]
    misfits = min(best.account.each[-TAIL_LENGTHS[0] :]) >= OUTLIER_BITS
    if updated or misfits or unchecked >= min(len(calm), max(_CHECK_INTERVAL, len(calm) // 8)):
        unchecked = 0
        # That the days of its weeks differ is no change.
        lengths = TAIL_LENGTHS if previous is None else () if previous.as_a_week_ago else RECENT_TAIL_LENGTHS
        start = since_change(calm, best, lengths)
        forgotten = len(older) if start else older_change(calm, older, best)
        if start or forgotten:
            calm, older = calm[start:], older[forgotten:]
            changed_at = (older or calm)[0]
            seen = [time for time in seen if time >= calm[0]]
            found = weigh(calm, zones, older, gaps)
            best = found[0]
        elif updated:
            return _decided(replace(updated, unchanged_for=0), seen, unknown, memory)
    kept = [(w, w.account) for w in found if 2.0 ** (best.bits - w.bits) >= NEGLIGIBLE]
    candidates = tuple(Candidate(w.hypothesis, w.bits, a.usual_skip, a.filling.residuals[-RECENT:]) for w, a in kept)
    fit = Fit(len(seen), enough, (older or seen)[0], seen[-1], changed_at, candidates, len(calm), best.fitted)
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


def _decided(fit: Fit, seen: Sequence[int], unknown: Sequence[Interval], memory: Memory) -> Fit:
    """The fit with the fields that follow from its candidates: the next slot, the overdue time, the confidence."""
    last = seen[-1]
    usual = usual_interval(history.without_bursts(list(seen))[0] or seen)
    gaps = [later - earlier for earlier, later in pairwise(seen)]
    missed_ms = MISSED_GAPS * max(gaps)
    later = [(start, end) for start, end in unknown if end > last]
    give_up_times, slots = [], []
    for candidate in fit.candidates:
        hypothesis = candidate.hypothesis
        bound, early = candidate.late_and_early
        following = partial(next_slot, hypothesis, early_ms=-1, skip=candidate.skip)  # none at that moment is filled
        slot = next_slot(hypothesis, last, early, candidate.skip)
        is_early = slot - last < early and hypothesis.lattice is not None
        if is_early and slot == next_slot(hypothesis, seen[-2], early, candidate.skip):
            slot = following(slot + 1)  # the second heartbeat in a slot was early for the next one
        if hypothesis.lattice is None and candidate is not fit.candidates[0]:
            following = partial(_in_step, slot, hypothesis.gap_ms)  # as a clock seems to start it
        slot, give_up = history.awaited(slot, with_slack(min(bound, missed_ms)), later, following)
        weight = 2.0 ** (fit.candidates[0].bits - candidate.bits)
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
    silence, irregular = repeated_silence(fit.candidates[0], known, weeks, overdue - last, usual, unknown)
    overdue = max(overdue, last + silence, last + irregular)
    weekly = as_a_week_ago(fit.candidates, known, overdue, later)
    near = min(usual // 4, MOVED_MS)
    if weekly is not None and (weekly[0] > overdue + near or near < overdue - weekly[1] < usual + WEEK_MS):
        slots, grace, overdue = [(weekly[0], 1.0)], weekly[1] - weekly[0], max(weekly[1], last + irregular)
    off = switched_off(fit.candidates[0], seen, usual, unknown)
    _, overdue = history.awaited(max(overdue, last + off), 0, later, lambda end: end + grace)
    return replace(
        fit,
        interval_ms=usual,
        expected_at=next((slot for slot, _ in slots if slot <= overdue), overdue),
        overdue_at=overdue,
        grace_ms=overdue - expected if off else grace,
        as_a_week_ago=weekly is not None,
        confidence=round(agreed * fit.fitted / (fit.counted + 1), 3),
    )


def _in_step(slot: int, gap_ms: int, end: int) -> int:
    """The first time from `end` on that is a multiple of `gap_ms` after a slot."""
    return end + (slot - end) % gap_ms


_decided_again = lru_cache(_CACHED_FITS)(_decided)  # of each host, whenever another host of its job reports


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


def _updated(previous: Fit, seen: list[int]) -> Fit | None:
    """The fit after one more heartbeat, the last of `seen`; None if all hypotheses have to be weighed again."""
    if len(seen) < NEW_JOB or previous.updates >= len(seen) // 8 or previous.last_at is None:
        return None
    time, candidates = seen[-1], []
    for candidate in previous.candidates:
        cost, residuals, hypothesis = OUTLIER_BITS, candidate.residuals, candidate.hypothesis
        residual = time - next_slot(hypothesis, previous.last_at, candidate.late_and_early[1], 0)
        is_next = abs(residual) < hypothesis.gap_ms / 2
        if hypothesis.lattice is not None:
            is_next = abs(filled_slot(hypothesis, time)[2] - residual) < SECOND_MS
        if is_next:  # it is the run of the slot after the last one's
            residuals = (*residuals, residual)[-RECENT:]
            cost = (residual_bits(residuals, 0, hypothesis.spacing_ms) or [OUTLIER_BITS])[-1]
        if cost >= OUTLIER_BITS:
            return None
        candidates.append(replace(candidate, bits=candidate.bits + cost, residuals=residuals))
    candidates.sort(key=lambda candidate: candidate.bits)
    counted = previous.counted + len(seen) - previous.seen
    return replace(
        previous,
        seen=len(seen),
        counted=counted,
        last_at=time,
        candidates=tuple(c for c in candidates if 2.0 ** (candidates[0].bits - c.bits) >= NEGLIGIBLE),
        fitted=min(counted, previous.fitted + 1),
        updates=previous.updates + 1,
        unchanged_for=previous.unchanged_for + 1,
    )
