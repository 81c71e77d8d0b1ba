"""Learns a job's schedule from its heartbeats. Start reading here; `schedule/__init__.py` defines the terms.

`learn` weighs all hypotheses for the history and keeps those with weight as candidates. The candidates determine when
the next heartbeat is expected, and from when on silence means overdue. When the next heartbeat comes as expected,
`learn` only updates the previous fit. It weighs all hypotheses again if the heartbeat disagrees, or after a while.

Times are milliseconds since the epoch, except in `deadline`.
"""

import math
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from threading import Lock

from obs.heartbeat.schedule.change import since_change
from obs.heartbeat.schedule.clock import offsets
from obs.heartbeat.schedule.cost import OUTLIER_BITS, residual_bits
from obs.heartbeat.schedule.fit import Candidate, Fit
from obs.heartbeat.schedule.grace import RECENT, SLACK_MS, upper_bound
from obs.heartbeat.schedule.history import history, needed, usual_interval
from obs.heartbeat.schedule.hypotheses import NEGLIGIBLE, best_of, filled_slot, next_slot, usual_skip, weigh
from obs.times import MINUTE_MS, SECOND_MS

ZONES = (
    "UTC",
    "America/New_York",
    "Europe/Berlin",
    "America/Chicago",
    "Europe/London",
    "America/Los_Angeles",
    "Asia/Kolkata",
    "Asia/Tokyo",
    "Australia/Sydney",
)
"""The time zones that a job may be scheduled in by default, likelier ones first."""

_NEW_JOB = 12  # with fewer heartbeats, each one may change which hypotheses are plausible
_MATTERS = 1e-4  # a heartbeat that contradicts a candidate of more weight than this requires weighing all again
_CHANGE_CHECK_INTERVAL = 4  # heartbeats between two checks for a change of schedule; more when the history is long
_MIN_EARLY_MS = MINUTE_MS
_MISSED_GAPS = 2  # a run that is later than this many of the longest gaps seen was missed, it is not late
_PATIENCE = 0.002  # the share of the weight that the candidates still waiting need to have
_PATIENCE_GROWTH = 1.03  # for each usual interval of further waiting
_CACHED_FITS = 128
_WATCHED_SLOTS = 10
_DOUBLE_SLOTS = 3


def learn(times: Iterable[int], zones: Sequence[str] = ZONES, previous: Fit | None = None) -> Fit:
    """What the heartbeats show about the job's schedule. `times` may be in any order.

    `zones` are the names of the time zones that the job may be scheduled in, besides UTC, likelier ones first.
    `previous` is the fit from before the latest heartbeat; it saves work if that heartbeat came as expected. Raises
    zoneinfo.ZoneInfoNotFoundError for an unknown zone.
    """
    seen = history(times)
    unchecked = len(seen)
    if previous is not None and previous.candidates:
        current = [time for time in seen if previous.first_at is None or time >= previous.first_at]
        if current and current[-1] == previous.last_at and len(current) == previous.seen:
            return previous
        if len(current) > 1 and current[-2] == previous.last_at:
            updated = _updated(previous, current)
            if updated is not None:
                return updated
        unchecked = previous.unchanged_for + 1
        seen = current or seen
    enough = needed(seen)
    if len(seen) < enough:
        return Fit(len(seen), enough, seen[0] if seen else None, seen[-1] if seen else None)
    found = weigh(seen, zones)
    best = best_of(found)
    if unchecked >= min(len(seen), max(_CHANGE_CHECK_INTERVAL, len(seen) // 16)):
        unchecked = 0
        start = since_change(seen, best)
        if start:
            seen = seen[start:]
            found = weigh(seen, zones)
            best = best_of(found)
    candidates = tuple(
        Candidate(w.hypothesis, w.bits, usual_skip(w.account), w.account.residuals[-RECENT:])
        for w in sorted(found, key=lambda weighed: weighed.bits)
        if 2.0 ** (best.bits - w.bits) >= NEGLIGIBLE
    )
    # A gap says nothing about the first heartbeat, so that one always matches.
    fitted = best.account.fitted + (best.hypothesis.lattice is None)
    return _decided(Fit(len(seen), enough, seen[0], seen[-1], candidates, fitted=fitted, unchanged_for=unchecked), seen)


def deadline(times: list[float], zones: Sequence[str] = ZONES) -> float | None:
    """The time from which silence means overdue; None while there are too few heartbeats.

    For tools that score a learner: `times` and the result are SECONDS since the epoch. Times that are not finite are
    ignored. Fits are cached by the heartbeats they were learned from, so asking after every heartbeat is cheap.
    """
    times_ms = sorted(round(time * SECOND_MS) for time in times if math.isfinite(time * SECOND_MS))
    zones = tuple(zones)
    seen = tuple(history(times_ms))
    with _lock:
        before = _fits.get((zones, tuple(history(times_ms[:-1]))))
    fit = learn(seen, zones, before)
    with _lock:
        _fits[zones, seen] = fit
        _fits.move_to_end((zones, seen))
        while len(_fits) > _CACHED_FITS:
            _fits.popitem(last=False)
    return None if fit.overdue_at is None else fit.overdue_at / SECOND_MS


_lock = Lock()
_fits: OrderedDict[tuple[tuple[str, ...], tuple[int, ...]], Fit] = OrderedDict()


def too_often(times: Iterable[int], fit: Fit) -> bool:
    """Whether three or more of the last ten slots have two or more heartbeats.

    `fit` is what was learned before the job began to run too often: learning from these heartbeats would take the new
    pace for the schedule. For a gap, two heartbeats are in one slot if they are less than half the gap apart.
    """
    hypothesis = fit.hypothesis
    seen = history(times)
    if hypothesis is None or len(seen) < 2:
        return False
    if hypothesis.lattice is None:
        since = seen[-1] - _WATCHED_SLOTS * hypothesis.gap_ms
        gaps = [later - earlier for earlier, later in pairwise(seen) if earlier >= since]
        return sum(gap < hypothesis.gap_ms / 2 for gap in gaps) >= _DOUBLE_SLOTS
    walls = [time + offset for time, offset in zip(seen, offsets(hypothesis.zone, seen), strict=True)]
    days, places, _ = hypothesis.lattice.assign(walls)
    count = Counter(zip(days, places, strict=True))
    return sum(count[slot] > 1 for slot in sorted(count)[-_WATCHED_SLOTS:]) >= _DOUBLE_SLOTS


def _decided(fit: Fit, seen: Sequence[int]) -> Fit:
    """The fit with the fields that follow from its candidates: the next slot, the overdue time, the confidence."""
    last = seen[-1]
    usual = usual_interval(seen)
    missed_ms = _MISSED_GAPS * max(later - earlier for earlier, later in pairwise(seen))
    lowest = fit.candidates[0].bits
    give_up_times, slots = [], []
    for candidate in fit.candidates:
        bound = upper_bound(candidate.residuals, candidate.hypothesis.spacing_ms)
        slot = next_slot(candidate.hypothesis, last, _early_ms(candidate.residuals, bound), candidate.skip)
        weight = 2.0 ** (lowest - candidate.bits)
        give_up_times.append((slot + min(bound, missed_ms) + SLACK_MS, weight))
        slots.append((slot, weight))
    expected = slots[0][0]
    grace = max(0, give_up_times[0][0] - expected)
    total = sum(weight for _, weight in slots)
    agreed = sum(weight for slot, weight in slots if abs(slot - expected) <= grace) / total
    return replace(
        fit,
        interval_ms=usual,
        expected_at=expected,
        overdue_at=max(last, _overdue_at(give_up_times, usual)),
        grace_ms=grace,
        confidence=round(agreed * fit.fitted / (fit.seen + 1), 3),
    )


def _overdue_at(give_up_times: Sequence[tuple[int, float]], usual_ms: int) -> int:
    """The first time at which the candidates that are still waiting have too little weight to wait for.

    `give_up_times` are the time at which each candidate gives up waiting, and its weight. Too little is less than 0.2 %
    of the weight. The limit grows by 3 % for each usual interval after the first candidate has given up.
    """
    ordered = sorted(give_up_times)
    total = sum(weight for _, weight in ordered)
    waiting = total
    for moment, weight in ordered:
        waiting -= weight
        intervals = min(1000, (moment - ordered[0][0]) / max(usual_ms, SECOND_MS))
        if waiting / total < _PATIENCE * _PATIENCE_GROWTH**intervals:
            return moment
    return ordered[-1][0]


def _early_ms(residuals: Sequence[int], bound: int) -> int:
    """How long before a slot a heartbeat may come and still be the run of that slot."""
    return max(_MIN_EARLY_MS, bound, -3 * min(residuals))


def _updated(previous: Fit, seen: list[int]) -> Fit | None:
    """The fit after one more heartbeat, the last of `seen`; None if all hypotheses have to be weighed again."""
    if len(seen) < _NEW_JOB or previous.updates >= len(seen) // 8 or previous.last_at is None:
        return None
    time = seen[-1]
    lowest = previous.candidates[0].bits
    candidates = []
    for candidate in previous.candidates:
        cost, residuals = OUTLIER_BITS, candidate.residuals
        residual = _residual_if_next(candidate, previous.last_at, time)
        if residual is not None:
            residuals = (*residuals, residual)[-RECENT:]
            cost = (residual_bits(residuals, 0) or [OUTLIER_BITS])[-1]
        if cost >= OUTLIER_BITS and 2.0 ** (lowest - candidate.bits) > _MATTERS:
            return None
        candidates.append(replace(candidate, bits=candidate.bits + cost, residuals=residuals))
    candidates.sort(key=lambda candidate: candidate.bits)
    lowest = candidates[0].bits
    fit = replace(
        previous,
        seen=len(seen),
        first_at=seen[0],
        last_at=time,
        candidates=tuple(c for c in candidates if 2.0 ** (lowest - c.bits) >= NEGLIGIBLE),
        fitted=min(len(seen), previous.fitted + 1),
        updates=previous.updates + 1,
        unchanged_for=previous.unchanged_for + 1,
    )
    return _decided(fit, seen)


def _residual_if_next(candidate: Candidate, last: int, time: int) -> int | None:
    """The residual of a heartbeat that is the run of the slot after the last one's; None if it is not that run."""
    hypothesis = candidate.hypothesis
    if hypothesis.lattice is None:
        residual = time - last - hypothesis.gap_ms
        return residual if abs(residual) < hypothesis.gap_ms / 2 else None
    bound = upper_bound(candidate.residuals, hypothesis.spacing_ms)
    expected = next_slot(hypothesis, last, _early_ms(candidate.residuals, bound), 0)
    _, _, residual = filled_slot(hypothesis, time)
    return residual if abs(time - residual - expected) < SECOND_MS else None
