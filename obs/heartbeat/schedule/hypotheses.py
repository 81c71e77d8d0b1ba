"""Hypotheses: the schedules that a history may follow, what the history costs under each, and what each expects next.

All times are milliseconds.
"""

import itertools
import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import add
from statistics import median_low
from typing import cast

from obs.heartbeat.schedule import gates
from obs.heartbeat.schedule.bases import ALL_HOURS, Lattice, lattices
from obs.heartbeat.schedule.clock import offset_at, offsets, wall_to_epoch
from obs.heartbeat.schedule.cost import OUTLIER_BITS, Account, account, residual_bits
from obs.heartbeat.schedule.gates import Gate
from obs.heartbeat.schedule.grace import RECENT
from obs.heartbeat.schedule.history import HOURLY_MS, Interval, usual_interval
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS

NEGLIGIBLE = 1e-5
"""A hypothesis is dropped if its weight is below this share of the weight of the best one."""

_NEGLIGIBLE_BITS = 17.0  # 2^-17 is less than NEGLIGIBLE
_FIRST_SHARE = 0.6
_LATTICE_BITS = 1.0
_GAP_BITS = 3.0  # far more jobs are started by a clock than by the end of the previous run
_OFFICE_BITS = 1.5  # jobs that run in office hours often run on working days only
_ALWAYS_BITS = (2.3, -0.4)  # jobs that run in every hour seldom leave out days, so they cost more, and all days less
_SAME_BEGINNING_MS = 5 * MINUTE_MS  # older heartbeats are the first of their hour, so this is close enough
_RARE_SHARE = 0.13  # of the runs; more missed slots than before the other runs are not usual


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
        return self.gap_ms if self.lattice is None else self.lattice.spacing_ms


@dataclass(frozen=True, slots=True)
class Weighed:
    """A hypothesis with the accounts of the history under it: of the recent heartbeats, and of the older ones."""

    hypothesis: Hypothesis
    account: Account
    older_bits: float

    @property
    def bits(self) -> float:
        """The description length: the cost of the hypothesis plus the cost of the history under it."""
        return self.hypothesis.prior_bits + self.account.bits + self.older_bits


class Past:
    """The older heartbeats that the memory has kept: what they cost under each hour gate, day gate and zone.

    Their hours matter for a job that runs in every hour, otherwise only their days.
    """

    def __init__(self, recent: Sequence[int], older: Sequence[int]) -> None:
        by_hour = usual_interval(recent) <= HOUR_MS // 2
        self._unit, self._opened = (HOUR_MS, ALL_HOURS) if by_hour else (DAY_MS, (0,))
        self._times = [*older[bisect_left(older, recent[-1] - HOURLY_MS) if by_hour else 0 :], recent[0]]
        self.first_at = self._times[0] if by_hour else recent[0]  # from here on, hours matter
        self._walls: dict[str, list[int]] = {}
        self._bits: dict[tuple[str, int, tuple[int, ...], Gate], float] = {}

    def walls(self, zone: str) -> list[int]:
        """The wall times of the older heartbeats, and of the first recent one."""
        if zone not in self._walls:
            self._walls[zone] = list(map(add, self._times, offsets(zone, self._times)))
        return self._walls[zone]

    def bits(self, zone: str, lattice: Lattice | None, gate: Gate) -> float:
        if len(self._times) == 1:
            return 0.0
        begins, opened = 0, self._opened
        if lattice is not None and lattice.period_ms == self._unit == HOUR_MS:
            begins, opened = lattice.hours
            begins -= begins % _SAME_BEGINNING_MS
        key = (zone, begins, opened, gate)
        if key not in self._bits:
            a_day = DAY_MS // self._unit
            place = {hour: position for position, hour in enumerate(opened)}
            cells = sorted({(wall - begins) // self._unit for wall in self.walls(zone)})
            ranks = [
                None if rank is None or cell % a_day not in place else rank * len(opened) + place[cell % a_day]
                for rank, cell in zip(gate.ranks([cell // a_day for cell in cells]), cells, strict=True)
            ]
            zeros = [0] * len(ranks)
            self._bits[key] = cast(Account, account(ranks, zeros, zeros)).bits
        return self._bits[key]


def weigh(
    times: Sequence[int], zones: Sequence[str], older: Sequence[int] = (), unknown: Sequence[Interval] = ()
) -> list[Weighed]:
    """All hypotheses with a weight that matters, for the ascending times of at least two heartbeats.

    `zones` are the names of the time zones to try, likelier ones first, also UTC. `older` are those of the heartbeats
    before `times` that the memory has kept. Slots in `unknown` times are not missed. The best hypothesis comes first.
    """
    excused = {bisect_left(times, start) for start, _ in unknown} | {bisect_left(times, end) for _, end in unknown}
    past = Past(times, older)
    found = [_gap(times, past, excused)]
    best = found[0].bits
    usual = usual_interval(times)
    mean = (times[-1] - times[0]) / (len(times) - 1)
    groups: dict[tuple[int, ...], list[tuple[str, int]]] = {}
    names = tuple(dict.fromkeys((*zones, "UTC")))
    for zone in names:
        ahead = offsets(zone, times)
        # Zones that differ by the same number of whole hours throughout have the same slots: search once for all.
        pattern = (ahead[0] % HOUR_MS, *(offset - ahead[0] for offset in (*ahead, offset_at(zone, past.first_at))))
        groups.setdefault(pattern, []).append((zone, ahead[0]))
    # The first zone has a share of 0.6; earlier zones get more of the rest.
    parts = [1 / (place + 3) for place in range(len(names) - 1)]
    shares = {names[0]: _FIRST_SHARE}
    shares |= {name: (1 - _FIRST_SHARE) / sum(parts) * part for name, part in zip(names[1:], parts, strict=True)}
    drafts = list[_Draft]()
    for pattern, group in groups.items():
        walls = [time + group[0][1] + change for time, change in zip(times, pattern[1 : len(times) + 1], strict=True)]
        jumps = [(at, pattern[at + 1] - pattern[at]) for at in range(1, len(times)) if pattern[at + 1] > pattern[at]]
        for lattice in lattices(walls, usual, mean, past.walls(group[0][0])):
            days, places, residuals = lattice.assign(walls)
            for at, jump in jumps:
                if offset_at(group[0][0], times[at] - 2 * jump) < offset_at(group[0][0], times[at]):
                    # The clocks have just gone forward. This may be the run of a slot that they skipped.
                    (day,), (place,), (residual,) = lattice.assign([walls[at] - jump])
                    if abs(residual) < abs(residuals[at]):
                        days[at], places[at], residuals[at] = day, place, residual
            bits = residual_bits(residuals, lattice.placed)
            if bits is not None:
                # Gate, zone and missed slots can only add to this. Only one heartbeat is the run of a slot.
                slots = zip(zip(days, places, strict=True), bits, strict=True)
                filled = dict(sorted(slots, key=lambda slot: slot[1], reverse=True))  # of each slot the least
                least = _LATTICE_BITS + lattice.bits + sum(filled.values()) + OUTLIER_BITS * (len(bits) - len(filled))
                drafts.append((least, lattice, (days, places, residuals, bits), group))
    drafts.sort(key=lambda draft: draft[0])
    for draft in drafts:
        if draft[0] > best + _NEGLIGIBLE_BITS:
            break
        found += _weighed(draft, shares, best, past, excused)
        best = min(weighed.bits for weighed in found)
    return sorted(found, key=lambda weighed: weighed.bits)


def _gap(times: Sequence[int], past: Past, excused: set[int]) -> Weighed:
    """The hypothesis that each heartbeat comes one usual gap after the one before. The first costs as one on time."""
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    gaps = [gap for at, gap in enumerate(gaps, 1) if at not in excused] or gaps
    usual = median_low(gaps)
    steps = [max(1, round(gap / usual)) for gap in gaps]
    residuals = [gap - step * usual for gap, step in zip(gaps, steps, strict=True)]
    bits = residual_bits(residuals, 1) or [OUTLIER_BITS] * len(residuals)
    # Without an allowance there is always an account.
    recent = cast(Account, account(list(itertools.accumulate(steps)), residuals, bits))
    prior = _GAP_BITS + min(bits) + 4 * math.log2(max(1, usual / (31 * DAY_MS)))  # few jobs count months from a run
    return Weighed(Hypothesis("UTC", None, Gate(), usual, prior), recent, past.bits("UTC", None, Gate()))


_Draft = tuple[float, Lattice, tuple[list[int], list[int], list[int], list[float]], list[tuple[str, int]]]
"""The least description length with a lattice; the lattice; the days, places, residuals and costs of the heartbeats in
it; and the zones in which it is at the same moments, with their first offsets."""


def _weighed(draft: _Draft, shares: dict[str, float], best: float, past: Past, excused: set[int]) -> Iterator[Weighed]:
    """A lattice under each zone and gate, except those with a negligible weight; `best` is the least length so far."""
    least, lattice, (first_days, first_places, residuals, bits), group = draft
    spare = least - (_LATTICE_BITS + lattice.bits + sum(bits))
    office_hours = lattice.period_ms == HOUR_MS and len(lattice.open) < 24
    first_offset = group[0][1]
    known: dict[tuple[int | None, ...], tuple[Account | None, float]] = {}
    for zone, offset in group:
        local, shift, more = lattice.moved(offset - first_offset)
        size = lattice.size
        days = [day + shift + (place >= size - more) for day, place in zip(first_days, first_places, strict=True)]
        places = [(place + more) % size for place in first_places]
        active = {day for day, cost in zip(days, bits, strict=True) if cost < OUTLIER_BITS}
        tried = dict(gates.candidates(tuple(sorted(active)), days[-1] - days[0])) if active else {}
        active.update(wall // DAY_MS for wall in past.walls(zone)[:-1])
        if active:
            tried.update(gates.candidates(tuple(sorted(active)), days[-1] - min(active)))
        for gate, gate_bits in tried.items():
            if gate.kind == "every" and len(lattice.open) == 24 and shares[zone] < max(shares.values()):
                continue  # running all hours of all days looks the same in every zone
            stated = gate_bits - math.log2(shares[zone])
            if office_hours and gate.numbers == gates.WORKDAYS:
                stated -= _OFFICE_BITS
            if len(lattice.open) == 24:
                stated += _ALWAYS_BITS[gate.kind == "every"]
            allowance = best + _NEGLIGIBLE_BITS - least - stated
            if allowance < 0 or allowance < (older_bits := past.bits(zone, local, gate)):
                continue
            ranks = [
                None if rank is None else rank * size + place
                for rank, place in zip(gate.ranks(days), places, strict=True)
            ]
            # Only their distances matter. They are the same for all gates that close no day of the history.
            first = next((rank for rank in ranks if rank is not None), 0)
            key = tuple([None if rank is None else rank - first for rank in ranks])
            seen, allowed = known.get(key, (None, -math.inf))
            if seen is None and allowed < allowance:
                seen = account(ranks, residuals, bits, allowance + spare, excused)
                known[key] = seen, allowance
            if seen is not None and seen.residuals:
                prior = _LATTICE_BITS + lattice.bits + stated
                weighed = Weighed(Hypothesis(zone, local, gate, 0, prior), seen, older_bits)
                best = min(best, weighed.bits)
                yield weighed


def usual_skip(seen: Account) -> int:
    """How many missed slots in a row are usual for a job that misses often: at most one run in eight follows more.

    0 for a job that does not miss often.
    """
    recent = sorted(seen.skips[-RECENT:])
    return recent[min(len(recent) - 1, int((1 - _RARE_SHARE) * len(recent)))] if seen.misses_often else 0


def filled_slot(hypothesis: Hypothesis, time: int) -> tuple[int, int, int]:
    """The day number and place of the slot of a lattice that an epoch time belongs to, and its residual."""
    days, places, residuals = cast(Lattice, hypothesis.lattice).assign([time + offset_at(hypothesis.zone, time)])
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
    number, slot = divmod(place, len(lattice.slots))
    return wall_to_epoch(hypothesis.zone, day * DAY_MS + lattice.open[number] * lattice.period_ms + lattice.slots[slot])
