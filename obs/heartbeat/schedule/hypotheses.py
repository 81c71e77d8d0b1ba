"""Every schedule a history may follow, what the history costs under each, and what each expects next."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import cast

from obs.heartbeat.schedule import gates, lateness
from obs.heartbeat.schedule.bases import FREQUENT_GAP, RARE_GAP, Lattice, day_lattices, hour_lattices
from obs.heartbeat.schedule.clock import DAY, HOUR, offset_at, offsets, wall_to_epoch
from obs.heartbeat.schedule.cost import OUTLIER_BITS, Account, account, residual_bits
from obs.heartbeat.schedule.gates import Gate
from obs.heartbeat.schedule.heartbeats import usual_gap

_UTC_SHARE = 0.6
_BASE_BITS = 1.0
_GAP_BITS = 3.0  # far more jobs are started by a clock than by the end of the run before
_HOPELESS_BITS = 17.0  # 2^-17 is less than decision.NEGLIGIBLE
_OFFICE_BITS = 1.5  # jobs that keep office hours often keep the working week as well
_RARE_SKIP = 0.1


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A schedule: a lattice gated by days in a zone, or, where `lattice` is None, a gap of `period` seconds.

    `prior_bits` is the cost of saying it.
    """

    zone: str
    lattice: Lattice | None
    gate: Gate
    period: float
    prior_bits: float

    @property
    def spacing(self) -> float:
        """Seconds from a slot to the next where they lie closest."""
        return self.period if self.lattice is None else self.lattice.spacing


@dataclass(frozen=True, slots=True)
class Weighed:
    """A hypothesis with the history's account under it."""

    hypothesis: Hypothesis
    account: Account

    @property
    def bits(self) -> float:
        return self.hypothesis.prior_bits + self.account.bits


def gap_hypothesis(times: Sequence[float]) -> Weighed:
    """The next heartbeat comes the median gap after the last. Needs two heartbeats."""
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    period = median_low(gaps)
    steps = [max(1, round(gap / period)) for gap in gaps]
    residuals = [gap - step * period for gap, step in zip(gaps, steps, strict=True)]
    ranks: list[int | None] = []
    rank = 0
    for step in steps:
        rank += step
        ranks.append(rank)
    bits = residual_bits(residuals, 1) or [OUTLIER_BITS] * len(residuals)
    # without an allowance there always is an account
    seen = cast(Account, account(ranks, residuals, bits))
    return Weighed(Hypothesis("UTC", None, Gate(), period, _GAP_BITS), seen)


def weigh(times: Sequence[float], zones: Sequence[str]) -> list[Weighed]:
    """All hypotheses worth weighing for ascending times of at least two heartbeats; likelier zones first."""
    found = [gap_hypothesis(times)]
    best = found[0].bits
    gap = usual_gap(times)
    mean = (times[-1] - times[0]) / (len(times) - 1)
    groups: dict[tuple[int, ...], list[tuple[str, int]]] = {}
    names = tuple(dict.fromkeys(("UTC", *zones)))
    for zone in names:
        ahead = offsets(zone, times)
        # zones whose clocks differ by the same whole hours throughout find the same slots: search once for
        # all of them
        pattern = (ahead[0] % HOUR, *(offset - ahead[0] for offset in ahead))
        groups.setdefault(pattern, []).append((zone, ahead[0]))
    shares = _zone_shares(names)
    drafts = []
    for pattern, group in groups.items():
        walls = [time + group[0][1] + change for time, change in zip(times, pattern[1:], strict=True)]
        lattices = day_lattices(walls) if mean >= RARE_GAP else []
        if gap <= FREQUENT_GAP:
            lattices += hour_lattices(walls, gap)
        skipped = _after_a_jump(group[0][0], times, pattern)
        for lattice in lattices:
            days, places, residuals = lattice.assign(walls)
            for at, seconds in skipped:
                (day,), (place,), (residual,) = lattice.assign([walls[at] - seconds])
                if abs(residual) < abs(residuals[at]):
                    days[at], places[at], residuals[at] = day, place, residual
            bits = residual_bits(residuals, lattice.placed)
            if bits is not None:
                drafts.append(_Draft(lattice, days, places, residuals, bits, group))
    drafts.sort(key=lambda draft: draft.least)
    for draft in drafts:
        if draft.least > best + _HOPELESS_BITS:
            break
        best = _weigh_draft(draft, shares, best, found)
    return found


def _after_a_jump(zone: str, times: Sequence[float], pattern: Sequence[int]) -> list[tuple[int, int]]:
    """Places of heartbeats right after the zone's clocks went forward, and by how many seconds they went.

    Such a heartbeat may be the run of a slot that the clock skipped.
    """
    found = []
    for at in range(1, len(times)):
        jump = pattern[at + 1] - pattern[at]
        if jump > 0 and offset_at(zone, times[at] - 2 * jump) < offset_at(zone, times[at]):
            found.append((at, jump))
    return found


def _zone_shares(names: Sequence[str]) -> dict[str, float]:
    """The prior of each zone: 0.6 for UTC, the first; the rest shared, earlier ones a little more."""
    parts = [1 / (place + 3) for place in range(len(names) - 1)]
    rest = (1 - _UTC_SHARE) / sum(parts) if parts else 0.0
    return {"UTC": _UTC_SHARE} | {name: rest * part for name, part in zip(names[1:], parts, strict=True)}


@dataclass(frozen=True, slots=True)
class _Draft:
    """A lattice with the history laid on it, for all zones (with their first offset) that share it."""

    lattice: Lattice
    days: list[int]
    places: list[int]
    residuals: list[float]
    bits: list[float]
    group: list[tuple[str, int]]

    @property
    def least(self) -> float:
        """What the lattice and its residuals cost, to which gate, zone and missed slots only add."""
        return _BASE_BITS + self.lattice.bits + sum(self.bits)


def _weigh_draft(draft: _Draft, shares: dict[str, float], best: float, found: list[Weighed]) -> float:
    """Adds the lattice under each zone and day gate, but for those that hold no weight beside the best.

    Gives the bits of the best hypothesis there now is.
    """
    lattice, residuals, bits = draft.lattice, draft.residuals, draft.bits
    least = draft.least
    office_hours = lattice.period == HOUR and not lattice.all_hours
    first_offset = draft.group[0][1]
    accounts: dict[tuple[int, int], dict[Gate, Account | None]] = {}
    for zone, offset in draft.group:
        local, shift, more = lattice.moved(offset - first_offset)
        size = lattice.size
        stay = size - more
        days = [day + shift + (place >= stay) for day, place in zip(draft.days, draft.places, strict=True)]
        places = [(place + more) % size for place in draft.places]
        active = sorted({day for day, cost in zip(days, bits, strict=True) if cost < OUTLIER_BITS})
        known = accounts.setdefault((shift, more), {})
        for gate, gate_bits in gates.candidates(active, days[-1] - days[0]) if active else ():
            if gate.kind == "every" and lattice.all_hours and zone != "UTC":
                continue  # every hour of every day is the same in every zone
            said = gate_bits - math.log2(shares[zone])
            if office_hours and gate.numbers == gates.WORKDAYS:
                said -= _OFFICE_BITS
            allowance = best + _HOPELESS_BITS - least - said
            if allowance < 0:
                continue
            if gate not in known:
                ranks = [
                    None if of is None else of * size + place
                    for of, place in zip(gate.ranks(days), places, strict=True)
                ]
                known[gate] = account(ranks, residuals, bits, allowance)
            seen = known[gate]
            if seen is not None and seen.residuals:
                prior = _BASE_BITS + lattice.bits + said
                found.append(Weighed(Hypothesis(zone, local, gate, 0.0, prior), seen))
                best = min(best, found[-1].bits)
    return best


def usual_skip(seen: Account) -> int:
    """How many silent slots in a row are usual where misses are a habit: more come in under one of ten runs."""
    if not seen.habit:
        return 0
    recent = sorted(seen.skips[-lateness.RECENT :])
    return recent[min(len(recent) - 1, int((1 - _RARE_SKIP) * len(recent)))]


def filled_slot(hypothesis: Hypothesis, time: float) -> tuple[int, int, float]:
    """The day and place of a lattice's slot nearest to a moment, and the moment's residual in seconds."""
    if hypothesis.lattice is None:
        raise ValueError("a gap has no slots of its own")
    days, places, residuals = hypothesis.lattice.assign([time + offset_at(hypothesis.zone, time)])
    return days[0], places[0], residuals[0]


def next_slot(hypothesis: Hypothesis, last: float, early: float, skip: int) -> float:
    """Epoch second of the slot that follows the one the last heartbeat filled, `skip` slots on.

    A heartbeat more than `early` seconds ahead of the nearest slot has not filled it.
    """
    lattice = hypothesis.lattice
    if lattice is None:
        return last + hypothesis.period * (1 + skip)
    gate = hypothesis.gate
    day, place, residual = filled_slot(hypothesis, last)
    steps = skip + (residual >= -early)
    if gate.ranks([day])[0] is None:
        day, place, steps = gate.following(day), 0, skip
    for _ in range(steps):
        place += 1
        if place == lattice.size:
            day, place = gate.following(day), 0
    return wall_to_epoch(hypothesis.zone, day * DAY + lattice.second(place))
