"""Hypotheses: the schedules that a history may follow, what the history costs under each, and what each expects next.

All times are milliseconds.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import cast

from obs.heartbeat.schedule import gates
from obs.heartbeat.schedule.bases import (
    MAX_INTERVAL_BY_HOUR_MS,
    MIN_INTERVAL_BY_DAY_MS,
    Lattice,
    day_lattices,
    hour_lattices,
)
from obs.heartbeat.schedule.clock import offset_at, offsets, wall_to_epoch
from obs.heartbeat.schedule.cost import OUTLIER_BITS, Account, account, residual_bits
from obs.heartbeat.schedule.gates import Gate
from obs.heartbeat.schedule.grace import RECENT
from obs.heartbeat.schedule.history import usual_interval
from obs.times import DAY_MS, HOUR_MS

NEGLIGIBLE = 1e-5
"""A hypothesis is dropped if its weight is below this share of the weight of the best one."""

_NEGLIGIBLE_BITS = 17.0  # 2^-17 is less than NEGLIGIBLE
_UTC_SHARE = 0.6
_LATTICE_BITS = 1.0
_GAP_BITS = 3.0  # far more jobs are started by a clock than by the end of the previous run
_OFFICE_BITS = 1.5  # jobs that run in office hours often run on working days only
_RARE_SHARE = 0.1  # of the runs; more missed slots than before the other runs are not usual


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A candidate schedule: a basis (see bases.py), a gate (see gates.py) and a time zone.

    lattice     the fixed times of day; None for a gap
    gap_ms      the time from one run to the next, for a gap; 0 for a lattice
    prior_bits  the cost of stating the hypothesis
    """

    zone: str
    lattice: Lattice | None
    gate: Gate
    gap_ms: int
    prior_bits: float

    @property
    def spacing_ms(self) -> int:
        """The shortest time from one slot to the next."""
        return self.gap_ms if self.lattice is None else self.lattice.spacing_ms


@dataclass(frozen=True, slots=True)
class Weighed:
    """A hypothesis with the account of the history under it."""

    hypothesis: Hypothesis
    account: Account

    @property
    def bits(self) -> float:
        """The description length: the cost of the hypothesis plus the cost of the history under it."""
        return self.hypothesis.prior_bits + self.account.bits


def weigh(times: Sequence[int], zones: Sequence[str]) -> list[Weighed]:
    """All hypotheses with a weight that matters, for the ascending times of at least two heartbeats.

    `zones` are the names of the time zones to try besides UTC, likelier ones first. The result has no particular order.
    """
    found = [_gap(times)]
    best = found[0].bits
    usual = usual_interval(times)
    mean = (times[-1] - times[0]) / (len(times) - 1)
    groups: dict[tuple[int, ...], list[tuple[str, int]]] = {}
    names = tuple(dict.fromkeys(("UTC", *zones)))
    for zone in names:
        ahead = offsets(zone, times)
        # Zones that differ by the same number of whole hours throughout have the same slots: search once for all.
        pattern = (ahead[0] % HOUR_MS, *(offset - ahead[0] for offset in ahead))
        groups.setdefault(pattern, []).append((zone, ahead[0]))
    shares = _zone_shares(names)
    drafts = []
    for pattern, group in groups.items():
        walls = [time + group[0][1] + change for time, change in zip(times, pattern[1:], strict=True)]
        lattices = day_lattices(walls) if mean >= MIN_INTERVAL_BY_DAY_MS else []
        if usual <= MAX_INTERVAL_BY_HOUR_MS:
            lattices += hour_lattices(walls, usual)
        skipped = _after_a_jump(group[0][0], times, pattern)
        for lattice in lattices:
            days, places, residuals = lattice.assign(walls)
            for at, jump in skipped:
                (day,), (place,), (residual,) = lattice.assign([walls[at] - jump])
                if abs(residual) < abs(residuals[at]):
                    days[at], places[at], residuals[at] = day, place, residual
            bits = residual_bits(residuals, lattice.placed)
            if bits is not None:
                drafts.append(_Draft(lattice, days, places, residuals, bits, group))
    drafts.sort(key=lambda draft: draft.least)
    for draft in drafts:
        if draft.least > best + _NEGLIGIBLE_BITS:
            break
        best = _weigh_draft(draft, shares, best, found)
    return found


def best_of(found: Sequence[Weighed]) -> Weighed:
    """The hypothesis with the shortest description length. Raises ValueError if there is none."""
    return min(found, key=lambda weighed: weighed.bits)


def _gap(times: Sequence[int]) -> Weighed:
    """The hypothesis that the next heartbeat comes one usual gap after the last one. Needs two heartbeats."""
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    usual = median_low(gaps)
    steps = [max(1, round(gap / usual)) for gap in gaps]
    residuals = [gap - step * usual for gap, step in zip(gaps, steps, strict=True)]
    ranks: list[int | None] = []
    rank = 0
    for step in steps:
        rank += step
        ranks.append(rank)
    bits = residual_bits(residuals, 1) or [OUTLIER_BITS] * len(residuals)
    # Without an allowance there is always an account.
    return Weighed(Hypothesis("UTC", None, Gate(), usual, _GAP_BITS), cast(Account, account(ranks, residuals, bits)))


def _after_a_jump(zone: str, times: Sequence[int], pattern: Sequence[int]) -> list[tuple[int, int]]:
    """The indexes of heartbeats right after the zone's clocks went forward, with the milliseconds that were skipped.

    Such a heartbeat may be the run of a slot that the clock skipped.
    """
    found = []
    for at in range(1, len(times)):
        jump = pattern[at + 1] - pattern[at]
        if jump > 0 and offset_at(zone, times[at] - 2 * jump) < offset_at(zone, times[at]):
            found.append((at, jump))
    return found


def _zone_shares(names: Sequence[str]) -> dict[str, float]:
    """The prior probability of each zone: 0.6 for UTC, which is the first; earlier zones get more of the rest."""
    parts = [1 / (place + 3) for place in range(len(names) - 1)]
    rest = (1 - _UTC_SHARE) / sum(parts) if parts else 0.0
    return {"UTC": _UTC_SHARE} | {name: rest * part for name, part in zip(names[1:], parts, strict=True)}


@dataclass(frozen=True, slots=True)
class _Draft:
    """A lattice with the history assigned to its slots, for a group of zones that share it.

    `group` are the names of the zones with their offset at the first heartbeat.
    """

    lattice: Lattice
    days: list[int]
    places: list[int]
    residuals: list[int]
    bits: list[float]
    group: list[tuple[str, int]]

    @property
    def least(self) -> float:
        """The cost of the lattice and the residuals, to which gate, zone and missed slots can only add."""
        return _LATTICE_BITS + self.lattice.bits + sum(self.bits)


def _weigh_draft(draft: _Draft, shares: dict[str, float], best: float, found: list[Weighed]) -> float:
    """Append the lattice under each zone and gate to `found`, except those with a negligible weight.

    `best` is the description length of the best hypothesis so far; returns it as it is afterwards.
    """
    lattice, residuals, bits = draft.lattice, draft.residuals, draft.bits
    least = draft.least
    office_hours = lattice.period_ms == HOUR_MS and not lattice.all_hours
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
                continue  # running all hours of all days looks the same in every zone
            stated = gate_bits - math.log2(shares[zone])
            if office_hours and gate.numbers == gates.WORKDAYS:
                stated -= _OFFICE_BITS
            allowance = best + _NEGLIGIBLE_BITS - least - stated
            if allowance < 0:
                continue
            if gate not in known:
                ranks = [
                    None if rank is None else rank * size + place
                    for rank, place in zip(gate.ranks(days), places, strict=True)
                ]
                known[gate] = account(ranks, residuals, bits, allowance)
            seen = known[gate]
            if seen is not None and seen.residuals:
                prior = _LATTICE_BITS + lattice.bits + stated
                found.append(Weighed(Hypothesis(zone, local, gate, 0, prior), seen))
                best = min(best, found[-1].bits)
    return best


def usual_skip(seen: Account) -> int:
    """How many missed slots in a row are usual for a job that misses often: at most one run in ten follows more.

    0 for a job that does not miss often.
    """
    if not seen.misses_often:
        return 0
    recent = sorted(seen.skips[-RECENT:])
    return recent[min(len(recent) - 1, int((1 - _RARE_SHARE) * len(recent)))]


def filled_slot(hypothesis: Hypothesis, time: int) -> tuple[int, int, int]:
    """The day number and place of the slot that an epoch time belongs to, and its residual.

    Raises ValueError for a gap, which has no slots of its own.
    """
    if hypothesis.lattice is None:
        raise ValueError("a gap has no slots of its own")
    days, places, residuals = hypothesis.lattice.assign([time + offset_at(hypothesis.zone, time)])
    return days[0], places[0], residuals[0]


def next_slot(hypothesis: Hypothesis, last: int, early_ms: int, skip: int) -> int:
    """The epoch time of the slot after the one that the last heartbeat filled, and `skip` slots further.

    A heartbeat more than `early_ms` before its slot has not filled it.
    """
    lattice = hypothesis.lattice
    if lattice is None:
        return last + hypothesis.gap_ms * (1 + skip)
    gate = hypothesis.gate
    day, place, residual = filled_slot(hypothesis, last)
    steps = skip + (residual >= -early_ms)
    if gate.ranks([day])[0] is None:
        day, place, steps = gate.following(day), 0, skip
    for _ in range(steps):
        place += 1
        if place == lattice.size:
            day, place = gate.following(day), 0
    return wall_to_epoch(hypothesis.zone, day * DAY_MS + lattice.time_of_day(place))
