"""Hypotheses: schedules that a history may follow, its cost under each, and the next slot of each, in milliseconds."""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, compress, pairwise
from operator import add, itemgetter
from statistics import median_low
from typing import cast

from obs.heartbeat.schedule import gates
from obs.heartbeat.schedule.bases import ALL_HOURS, Lattice, lattices
from obs.heartbeat.schedule.clock import offset_at, offsets, wall_to_epoch
from obs.heartbeat.schedule.cost import OUTLIER_BITS, Account, Filling, account, fill, residual_bits
from obs.heartbeat.schedule.gates import Gate
from obs.heartbeat.schedule.history import HOURLY_MS, Interval, Times, usual_interval
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS

NEGLIGIBLE = 1e-3  # a hypothesis is dropped if its weight is below this share of the weight of the best one
_NEGLIGIBLE_BITS = 10.0  # 2^-10 is less than NEGLIGIBLE
_FIRST_SHARE = 0.6
_LATTICE_BITS, _GAP_BITS = 1.0, 3.0  # far more jobs are started by a clock than by the end of the previous run
_OFFICE_BITS = 1.5  # jobs that run in office hours often run on working days only
_ALWAYS_BITS = (2.3, -0.4)  # jobs that run in every hour seldom leave out days, so they cost more, and all days less
_SAME_BEGINNING_MS = 5 * MINUTE_MS  # older heartbeats are the first of their hour, so this is close enough
_Draft = tuple[float, Lattice, Filling, list[tuple[str, int]]]
"""The least description length with a lattice; the lattice; the slots that are filled in it; and the zones in which it
is at the same moments, with their first offsets."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A candidate schedule: a basis (see bases.py), a gate (see gates.py) and a time zone."""

    zone: str
    lattice: Lattice | None  # the fixed times of day; None for a gap
    gate: Gate
    gap_ms: int  # the time from one run to the next, for a gap; 0 for a lattice
    prior_bits: float  # the cost of stating the hypothesis

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

    @property
    def fitted(self) -> int:
        """How many heartbeats match."""
        return sum(bits < OUTLIER_BITS for bits in self.account.filling.costs)


class Past:
    """The older heartbeats that the memory has kept: what they cost under each hour gate, day gate and zone."""

    def __init__(self, recent: Sequence[int], older: Sequence[int]) -> None:
        by_hour = usual_interval(recent) <= HOUR_MS // 2  # for a job that runs in every hour; else only days matter
        self._unit, self._opened = (HOUR_MS, ALL_HOURS) if by_hour else (DAY_MS, (0,))
        self._times = [*older[bisect_left(older, recent[-1] - HOURLY_MS) if by_hour else 0 :], recent[0]]
        self.first_at = self._times[0] if by_hour else recent[0]  # from here on, hours matter
        # The wall times in a zone of the older heartbeats, and of the first recent one.
        self.walls = cache(lambda zone: list(map(add, self._times, offsets(zone, self._times))))
        self.days = cache(lambda zone: {wall // DAY_MS for wall in self.walls(zone)[:-1]})
        self.hours = cache(self._hours)
        self._bits: dict[tuple[str, int, tuple[int, ...], Gate], float] = {}

    def _hours(self, zone: str, begins: int) -> dict[int, list[int]]:
        """The hours of each day that have heartbeats, or only the days; they begin so long after midnight."""
        a_day, hours = DAY_MS // self._unit, defaultdict[int, list[int]](list)
        for cell in sorted({(wall - begins) // self._unit for wall in self.walls(zone)}):
            hours[cell // a_day].append(cell % a_day)
        return hours

    def bits(self, zone: str, lattice: Lattice | None, gate: Gate) -> float:
        """The cost of the older heartbeats."""
        if len(self._times) == 1:
            return 0.0
        begins, opened = 0, self._opened
        if lattice is not None and lattice.period_ms == self._unit == HOUR_MS:
            begins, opened = lattice.hours
            begins -= begins % _SAME_BEGINNING_MS
        key = (zone, begins, opened, gate)
        if key not in self._bits:
            hours = self.hours(zone, begins)
            place = {hour: position for position, hour in enumerate(opened)}
            ranks = [
                None if rank is None or hour not in place else rank * len(opened) + place[hour]
                for rank, each in zip(gate.ranks(list(hours)), hours.values(), strict=True)
                for hour in each
            ]
            zeros = [0] * len(ranks)
            self._bits[key] = account(fill(range(len(ranks)), zeros, zeros), ranks).bits
        return self._bits[key]


def weigh(times: Times, zones: Sequence[str], older: Times = (), unknown: Sequence[Interval] = ()) -> list[Weighed]:
    """All hypotheses with a weight that matters, for the ascending times of at least two heartbeats.

    `zones` are the names of the time zones to try, likelier ones first, also UTC. `older` are those of the heartbeats
    before `times` that the memory has kept. Slots in `unknown` times are not missed. The best hypothesis comes first.
    """
    excused, past = _excused(times, unknown), Past(times, older)
    found = [_gap(times, past, excused)]
    limit = found[0].bits + _NEGLIGIBLE_BITS
    usual = usual_interval(times)
    mean = (times[-1] - times[0]) / (len(times) - 1)
    groups: dict[tuple[int, ...], list[tuple[str, int]]] = {}
    names = tuple(dict.fromkeys((*zones, "UTC")))
    for zone in names:
        ahead = offsets(zone, times)
        # Zones that differ by the same number of whole hours throughout have the same slots: search once for all.
        pattern = (ahead[0] % HOUR_MS, *[offset - ahead[0] for offset in (*ahead, offset_at(zone, past.first_at))])
        groups.setdefault(pattern, []).append((zone, ahead[0]))
    # The first zone has a share of 0.6; earlier zones get more of the rest.
    parts = [1 / (place + 3) for place in range(len(names) - 1)]
    shares = {names[0]: _FIRST_SHARE}
    shares |= {name: (1 - _FIRST_SHARE) / sum(parts) * part for name, part in zip(names[1:], parts, strict=True)}
    drafts = list[_Draft]()
    for group in groups.values():
        clock = _Clock(group[0][0], times)
        for lattice in lattices(clock.walls, usual, mean, past.walls(group[0][0])):
            prior = _LATTICE_BITS + lattice.bits  # gate, zone and missed slots can only add to this
            if (filling := clock.filling(lattice, limit - prior)) is not None:
                drafts.append((prior + sum(filling.each), lattice, filling, group))
    for draft in sorted(drafts, key=itemgetter(0)):
        if draft[0] > limit:
            break
        found += _weighed(draft, shares, limit, past, excused)
        limit = min(weighed.bits for weighed in found) + _NEGLIGIBLE_BITS
    return sorted(found, key=lambda weighed: weighed.bits)


def weigh_again(known: Hypothesis, times: Times, older: Times = (), unknown: Sequence[Interval] = ()) -> list[Weighed]:
    """Only one hypothesis, with the arguments of `weigh`; none if the history is too short for it."""
    excused, past = _excused(times, unknown), Past(times, older)
    zone, lattice, gate = known.zone, known.lattice, known.gate
    if lattice is None:
        return [_gap(times, past, excused)]
    filling = _Clock(zone, times).filling(lattice, math.inf)
    if filling is None or not filling.slots:
        return []
    days = [slot // lattice.size for slot in filling.slots]
    seen = account(filling, _ranks(filling.slots, days, gate, lattice.size), excused)
    return [Weighed(known, seen, past.bits(zone, lattice, gate))]


class _Clock:
    """The wall clock in a zone at the times of a history."""

    def __init__(self, zone: str, times: Times) -> None:
        ahead = offsets(zone, times)
        self.walls = list(map(add, times, ahead))
        jumps = [(at, b - a) for at, (a, b) in enumerate(pairwise(ahead), 1) if b > a]
        # The clocks have just gone forward. This may be the run of a slot that they skipped.
        self._skipped = [(at, by) for at, by in jumps if offset_at(zone, times[at] - 2 * by) < ahead[at]]

    def filling(self, lattice: Lattice, most: float) -> Filling | None:
        """How the history fills a lattice; None if no residual is telling, or the heartbeats cost `most` bits."""
        numbers, residuals = lattice.assign(self.walls)
        for at, jump in self._skipped:
            (number,), (residual,) = lattice.assign([self.walls[at] - jump])
            if abs(residual) < abs(residuals[at]):
                numbers[at], residuals[at] = number, residual
        bits = residual_bits(tuple(residuals), lattice.placed, lattice.spacing_ms)
        return None if bits is None or sum(bits) >= most else fill(numbers, residuals, bits)


def _excused(times: Times, unknown: Sequence[Interval]) -> set[int]:
    """The indexes of the heartbeats before which no slot counts as missed."""
    return {bisect_left(times, start) for start, _ in unknown} | {bisect_left(times, end) for _, end in unknown}


def _gap(times: Sequence[int], past: Past, excused: set[int]) -> Weighed:
    """The hypothesis that each heartbeat comes one usual gap after the one before. The first one always fits."""
    gaps = [later - earlier for earlier, later in pairwise(times)]
    gaps = [gap for at, gap in enumerate(gaps, 1) if at not in excused] or gaps
    usual = median_low(gaps)
    steps = [max(1, round(gap / usual)) for gap in gaps]
    residuals = [gap - step * usual for gap, step in zip(gaps, steps, strict=True)]
    bits = residual_bits(tuple(residuals), 1, usual) or [OUTLIER_BITS] * len(residuals)
    filling = fill([0, *accumulate(steps)], [0, *residuals], [0.0, *bits])
    filling = replace(filling, residuals=filling.residuals[1:])  # the first one says nothing about delays
    recent = account(filling, filling.slots)
    prior = _GAP_BITS + min(bits) + 4 * math.log2(max(1, usual / (31 * DAY_MS)))
    prior += 7 * (usual > 1.5 * DAY_MS)  # few jobs count days from a run, and fewer count months
    return Weighed(Hypothesis("UTC", None, Gate(), usual, prior), recent, past.bits("UTC", None, Gate()))


def _weighed(draft: _Draft, shares: dict[str, float], limit: float, past: Past, excused: set[int]) -> Iterator[Weighed]:
    """A lattice under each zone and gate, except those of more than `limit` bits."""
    least, lattice, filling, group = draft
    size, prior, in_all_hours = lattice.size, _LATTICE_BITS + lattice.bits, len(lattice.open) == 24
    office_hours = lattice.period_ms == HOUR_MS and not in_all_hours
    are_on_time = [cost < OUTLIER_BITS for cost in filling.costs]
    account_of = cache(lambda ranks: account(filling, ranks, excused))
    for zone, offset in group:
        zone_bits = -math.log2(shares[zone])
        if least + zone_bits > limit or not filling.slots or (len(past.walls(zone)) == 1 and not any(are_on_time)):
            continue
        local, shift, more = lattice.moved(offset - group[0][1])
        ahead = shift * size + more
        days = [(slot + ahead) // size for slot in filling.slots]
        tried = {Gate(): gates.EVERY_BITS}
        if least + zone_bits + (gates.WORKDAYS_BITS - _OFFICE_BITS) <= limit:
            active = tuple(dict.fromkeys(compress(days, are_on_time)))
            tried |= gates.candidates(active, days[-1] - days[0]) if active else {}
            active = tuple(sorted(past.days(zone).union(active)))
            tried |= gates.candidates(active, days[-1] - active[0])
        for gate, gate_bits in tried.items():
            if gate.kind == "every" and in_all_hours and shares[zone] < max(shares.values()):
                continue  # running all hours of all days looks the same in every zone
            stated = gate_bits + zone_bits
            if office_hours and gate.numbers == gates.WORKDAYS:
                stated -= _OFFICE_BITS
            if in_all_hours:
                stated += _ALWAYS_BITS[gate.kind == "every"]
            if least + stated > limit or least + stated + (older_bits := past.bits(zone, local, gate)) > limit:
                continue
            seen = account_of(_ranks(filling.slots, days, gate, size))
            weighed = Weighed(Hypothesis(zone, local, gate, 0, prior + stated), seen, older_bits)
            if seen.filling.slots and weighed.bits <= limit:
                yield weighed


def _ranks(slots: Sequence[int], days: Sequence[int], gate: Gate, size: int) -> tuple[int | None, ...]:
    """The `ranks` of ascending slots for `account`, as if closed days had no slots. A day has `size` slots."""
    if gate.kind == "every":
        return ()
    active = list(dict.fromkeys(days))
    ranks = zip(active, gate.ranks(active), strict=True)
    begins = {day: None if rank is None else (rank - day) * size for day, rank in ranks}
    if len({*begins.values()}) == 1 and None not in begins.values():
        return ()  # no day is closed between two others
    return tuple([None if by is None else slot + by for slot, by in zip(slots, map(begins.get, days), strict=True)])


def filled_slot(hypothesis: Hypothesis, time: int) -> tuple[int, int, int]:
    """The day number and place of the slot of a lattice that an epoch time belongs to, and its residual."""
    lattice = cast(Lattice, hypothesis.lattice)
    (number,), (residual,) = lattice.assign([time + offset_at(hypothesis.zone, time)])
    return *divmod(number, lattice.size), residual


def next_slot(hypothesis: Hypothesis, last: int, early_ms: int, skip: int) -> int:
    """The epoch time of the slot after the one that the last heartbeat filled, and `skip` slots further."""
    lattice = hypothesis.lattice
    if lattice is None:
        return last + hypothesis.gap_ms * (1 + skip)
    gate = hypothesis.gate
    day, place, residual = filled_slot(hypothesis, last)
    steps = skip + (residual >= -early_ms)  # an earlier heartbeat has not filled its slot
    if gate.ranks([day])[0] is None:
        day, place, steps = gate.following(day), 0, skip
    for _ in range(steps):
        place += 1
        if place == lattice.size:
            day, place = gate.following(day), 0
    number, slot = divmod(place, len(lattice.slots))
    return wall_to_epoch(hypothesis.zone, day * DAY_MS + lattice.open[number] * lattice.period_ms + lattice.slots[slot])
