"""From heartbeats to a fit, from nothing or from the fit before."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from threading import Lock

from obs.heartbeat.schedule.change import best_of, since_change
from obs.heartbeat.schedule.cost import OUTLIER_BITS, residual_bits
from obs.heartbeat.schedule.decision import NEGLIGIBLE, overdue_from
from obs.heartbeat.schedule.fit import VERSION, Fit, Standing
from obs.heartbeat.schedule.heartbeats import history, needed, usual_gap
from obs.heartbeat.schedule.hypotheses import filled_slot, next_slot, usual_skip, weigh
from obs.heartbeat.schedule.lateness import RECENT, SLACK_SECONDS, upper_bound

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
_NEW_JOB = 12  # with fewer heartbeats a single one can still change what is believed
_MATTERS = 1e-4  # a heartbeat that rules out a hypothesis of more weight makes room for others
_LOOK_AGAIN = 4  # heartbeats after which a change is looked for again
_EARLY_SECONDS = 60.0
_MISSED = 2.0  # a run that is later than this many of the longest gaps seen is not late: it was missed
_CACHED_FITS = 128


def learn(times: Iterable[float], zones: Sequence[str] = ZONES, previous: Fit | None = None) -> Fit:
    """What the heartbeats (epoch seconds, in any order) say of the job's schedule.

    `zones` are the names of the time zones the job may be scheduled in, beside UTC, likelier ones first.
    `previous` is what was learned before the latest of the heartbeats came: where that one came as
    expected, only what it changes is worked out. Raises zoneinfo.ZoneInfoNotFoundError for a zone that is
    not known.
    """
    seen = history(times)
    looked = len(seen)
    if previous is not None and previous.version == VERSION and previous.standings:
        present = [time for time in seen if previous.first is None or time >= previous.first]
        if present and present[-1] == previous.last and len(present) == previous.seen:
            return previous
        if len(present) > 1 and present[-2] == previous.last:
            continued = _continue(previous, present)
            if continued is not None:
                return continued
        looked = previous.unchanged_for + 1
        seen = present or seen
    enough = needed(seen)
    if len(seen) < enough:
        return Fit(len(seen), enough, seen[0] if seen else None, seen[-1] if seen else None)
    found = weigh(seen, zones)
    best = best_of(found)
    if looked >= min(len(seen), max(_LOOK_AGAIN, len(seen) // 16)):
        looked = 0
        start = since_change(seen, best)
        if start:
            seen = seen[start:]
            found = weigh(seen, zones)
            best = best_of(found)
    standings = tuple(
        Standing(w.hypothesis, w.bits, usual_skip(w.account), w.account.residuals[-RECENT:])
        for w in sorted(found, key=lambda weighed: weighed.bits)
        if 2.0 ** (best.bits - w.bits) >= NEGLIGIBLE
    )
    # a gap says nothing of the first heartbeat, so that one fits whatever the gap
    fitted = best.account.fit + (best.hypothesis.lattice is None)
    plain = Fit(len(seen), enough, seen[0], seen[-1], standings, fitted=fitted, unchanged_for=looked)
    return _decide(plain, seen)


def deadline(times: Iterable[float], zones: Sequence[str] = ZONES) -> float | None:
    """Epoch second from which silence means overdue; None while too few heartbeats were seen.

    Fits are remembered by the heartbeats they were learned from, so that asking after every heartbeat is
    cheap.
    """
    given = sorted(times)
    zones = tuple(zones)
    seen = tuple(history(given))
    with _lock:
        before = _fits.get((zones, tuple(history(given[:-1]))))
    fit = learn(seen, zones, before)
    with _lock:
        _fits[zones, seen] = fit
        _fits.move_to_end((zones, seen))
        while len(_fits) > _CACHED_FITS:
            _fits.popitem(last=False)
    return fit.deadline_at


_lock = Lock()
_fits: OrderedDict[tuple[tuple[str, ...], tuple[float, ...]], Fit] = OrderedDict()


def _early(residuals: Sequence[float], bound: float) -> float:
    """How far ahead of a slot, in seconds, a heartbeat may be and still be its run."""
    return max(_EARLY_SECONDS, bound, -3 * min(residuals))


def _decide(fit: Fit, seen: Sequence[float]) -> Fit:
    """The fit of the heartbeats seen, with what follows from its standings."""
    last = fit.last or 0.0
    usual = usual_gap(seen)
    missed = _MISSED * max(later - earlier for earlier, later in pairwise(seen))
    lowest = fit.standings[0].bits
    moments, slots = [], []
    for standing in fit.standings:
        bound = upper_bound(standing.residuals, standing.hypothesis.spacing)
        slot = next_slot(standing.hypothesis, last, _early(standing.residuals, bound), standing.skip)
        weight = 2.0 ** (lowest - standing.bits)
        moments.append((slot + min(bound, missed) + SLACK_SECONDS, weight))
        slots.append((slot, weight))
    expected = slots[0][0]
    lateness = max(0.0, moments[0][0] - expected)
    total = sum(weight for _, weight in slots)
    agreed = sum(weight for slot, weight in slots if abs(slot - expected) <= lateness) / total
    return replace(
        fit,
        usual_interval=usual,
        expected_at=expected,
        deadline_at=max(last, overdue_from(moments, usual)),
        lateness=lateness,
        confidence=round(agreed * fit.fitted / (fit.seen + 1), 3),
    )


def _continue(previous: Fit, seen: list[float]) -> Fit | None:
    """The fit after one more heartbeat, the last of those seen, that came as expected.

    None where all must be weighed again.
    """
    if len(seen) < _NEW_JOB or previous.updates >= len(seen) // 8 or previous.last is None:
        return None
    came = seen[-1]
    lowest = previous.standings[0].bits
    standings = []
    for standing in previous.standings:
        cost, residuals = OUTLIER_BITS, standing.residuals
        residual = _as_expected(standing, previous.last, came)
        if residual is not None:
            residuals = (*residuals, residual)[-RECENT:]
            cost = (residual_bits(residuals, 0) or [OUTLIER_BITS])[-1]
        if cost >= OUTLIER_BITS and 2.0 ** (lowest - standing.bits) > _MATTERS:
            return None
        standings.append(replace(standing, bits=standing.bits + cost, residuals=residuals))
    standings.sort(key=lambda standing: standing.bits)
    lowest = standings[0].bits
    fit = replace(
        previous,
        seen=len(seen),
        first=seen[0],
        last=came,
        standings=tuple(s for s in standings if 2.0 ** (lowest - s.bits) >= NEGLIGIBLE),
        fitted=min(len(seen), previous.fitted + 1),
        updates=previous.updates + 1,
        unchanged_for=previous.unchanged_for + 1,
    )
    return _decide(fit, seen)


def _as_expected(standing: Standing, last: float, came: float) -> float | None:
    """The residual of a heartbeat that is the run of the slot after the last one's; None where it is not."""
    hypothesis = standing.hypothesis
    if hypothesis.lattice is None:
        residual = came - last - hypothesis.period
        return residual if abs(residual) < hypothesis.period / 2 else None
    bound = upper_bound(standing.residuals, hypothesis.spacing)
    expected = next_slot(hypothesis, last, _early(standing.residuals, bound), 0)
    _, _, residual = filled_slot(hypothesis, came)
    return residual if abs(came - residual - expected) < 1.0 else None
