"""Bases: the repeating pattern of a schedule before any day is closed.

A lattice is a list of times of day. It is found by folding wall seconds by the day or by the hour, sorting
them on the circle and cutting at the widest gaps; each cluster that is filled often enough is a slot. A
lattice by the hour has minutes for slots, and some hours of the day may be closed to it.

What a lattice costs in bits: log2(T / 60 s) for each slot after the first, T being what was folded by; less
where the slots share their minute of the hour, as those of one cron line do.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from obs.heartbeat.schedule.clock import DAY, HOUR
from obs.heartbeat.schedule.heartbeats import median

MAX_DAY_SLOTS = 14
MAX_HOUR_SLOTS = 12
FREQUENT_GAP = 90 * 60  # by the hour only where runs are at most this far apart
RARE_GAP = 50 * 60  # by the day only where they are on average at least this far apart
_FILLED = 0.3
_CANDIDATE_CUTS = 3
_SAME_SECONDS = 10.0
_EARLY = 0.35  # how much of the way between two slots belongs to the later one
_STEP_ALL_DAY = 3.0  # about eight steps divide the day
_STEP_IN_PART = 1 - math.log2(0.15) + math.log2(24)
_OPEN_ALL_DAY = -math.log2(0.85)
_HOURS_CLOSED = -math.log2(0.15) + math.log2(24)


@dataclass(frozen=True, slots=True)
class Lattice:
    """Times of day: ascending `slots`, in seconds of a period (a day or an hour), in each of the day's
    `open` periods.

    `bits` is what it costs to say; `placed` how many positions the heartbeats themselves decided.
    """

    period: int
    slots: tuple[float, ...]
    open: tuple[int, ...]
    bits: float
    placed: int = 1

    @property
    def size(self) -> int:
        """How many slots a day has."""
        return len(self.slots) * len(self.open)

    @property
    def all_hours(self) -> bool:
        return len(self.open) == 24

    @property
    def spacing(self) -> float:
        """Seconds from a slot to the next where they lie closest."""
        return min(later - slot for slot, later in pairwise([*self.slots, self.slots[0] + self.period]))

    def second(self, place: int) -> float:
        """The second of the day of the day's slot at this place."""
        return self.open[place // len(self.slots)] * self.period + self.slots[place % len(self.slots)]

    def assign(self, walls: Sequence[float]) -> tuple[list[int], list[int], list[float]]:
        """For each wall second the day and the place of the slot it belongs to, and its residual in seconds.

        Of the way between two slots the later 35 % belong to the later one: runs are late more often than
        early.
        """
        slots, period, count = self.slots, self.period, len(self.slots)
        ahead = [*slots[1:], slots[0] + period]
        bounds = [later - _EARLY * (later - slot) for slot, later in zip(slots, ahead, strict=True)]
        bounds.insert(0, bounds[-1] - period)
        a_day = DAY // period
        opened = {number: position for position, number in enumerate(self.open)}
        days, places, residuals = [], [], []
        for wall in walls:
            whole = int(wall // period)
            second = wall - whole * period
            place = bisect_right(bounds, second) - 1
            if place < 0:
                place, whole, second = count - 1, whole - 1, second + period
            elif place == count:
                place, whole, second = 0, whole + 1, second - period
            day, number = divmod(whole, a_day)
            position = opened.get(number)
            if position is None:
                # in a closed hour: a very late run of the last open one
                position = bisect_right(self.open, number) - 1
                if position < 0:
                    position, day = len(self.open) - 1, day - 1
                place, second = count - 1, wall - day * DAY - self.open[position] * period
            days.append(day)
            places.append(position * count + place)
            residuals.append(second - slots[place])
        return days, places, residuals

    def moved(self, seconds: int) -> tuple["Lattice", int, int]:
        """The lattice on clocks this far ahead; how many days its first slot moves; how many slots move a
        day more.

        Those that move a day more come first in the new lattice. By the hour, only whole hours can be moved.
        """
        if self.period == DAY:
            shift = int((self.slots[0] + seconds) // DAY)
            at = [slot + seconds - shift * DAY for slot in self.slots]
            more = sum(slot >= DAY for slot in at)
            return (
                Lattice(DAY, tuple(sorted(slot % DAY for slot in at)), self.open, self.bits, self.placed),
                shift,
                more,
            )
        hours = seconds // HOUR
        shift = (self.open[0] + hours) // 24
        moved = [number + hours - shift * 24 for number in self.open]
        more = sum(number >= 24 for number in moved)
        hours_open = tuple(sorted(number % 24 for number in moved))
        return Lattice(HOUR, self.slots, hours_open, self.bits, self.placed), shift, more * len(self.slots)


def _clusters(walls: Sequence[float], period: int, most: int) -> list[list[list[float]]]:
    """Ways to cut the folded times into clusters; each holds seconds that may run past the period's end."""
    folded = sorted(wall % period for wall in walls)
    size = len(folded)
    gaps = [later - earlier for earlier, later in pairwise(folded)]
    gaps.append(folded[0] + period - folded[-1])
    widest = sorted(range(size), key=gaps.__getitem__, reverse=True)
    ranked = [gaps[i] for i in widest]

    def stands_out(cuts: int) -> float:
        following = ranked[cuts] if cuts < size else 1.0
        return ranked[cuts - 1] / max(following, 1.0)

    several = sorted(range(2, min(most, size) + 1), key=stands_out, reverse=True)[:_CANDIDATE_CUTS]
    ways = []
    for cuts in [1, *several]:
        ends = sorted(widest[:cuts])
        around = folded + [second + period for second in folded]
        starts = [end + 1 for end in ends]
        ways.append([around[a:b] for a, b in zip(starts, [*starts[1:], starts[0] + size], strict=True)])
    return ways


def day_lattices(walls: Sequence[float]) -> list[Lattice]:
    """Lattices of 1 to 14 times of day that a history may follow."""
    active = len({int(wall // DAY) for wall in walls})
    found: list[Lattice] = []
    for clusters in _clusters(walls, DAY, MAX_DAY_SLOTS):
        full = [cluster for cluster in clusters if len(cluster) >= _FILLED * active]
        if not full:
            continue
        extra = len(full) - 1
        _add(found, [median(cluster) for cluster in full], extra * math.log2(DAY / 60), len(full))
        if extra:
            hours, shift = _whole_hours(full)
            _add(found, [shift + hour * HOUR for hour in hours], _hours_bits(hours), 1)
    return found


def _add(found: list[Lattice], centres: Sequence[float], bits: float, placed: int) -> None:
    """Adds a lattice by the day, unless it has the slots of one found before."""
    slots = tuple(sorted(centre % DAY for centre in centres))
    for known in found:
        if len(known.slots) == len(slots) and known.bits <= bits:
            apart = max(abs(a - b) for a, b in zip(known.slots, slots, strict=True))
            if apart < _SAME_SECONDS:
                return
    if all(later - slot > _SAME_SECONDS for slot, later in pairwise(slots)):
        found.append(Lattice(DAY, slots, (0,), bits, placed))


def _whole_hours(clusters: list[list[float]]) -> tuple[list[int], float]:
    """The hours of the clusters' centres, ascending, and the second past the hour that suits all of them."""
    anchor = median(clusters[0]) % HOUR
    hours = [round((median(cluster) - anchor) / HOUR) for cluster in clusters]
    shift = median([second - hour * HOUR for cluster, hour in zip(clusters, hours, strict=True) for second in cluster])
    return sorted(hour % 24 for hour in hours), shift


def _hours_bits(hours: list[int]) -> float:
    """The cost of naming hours of the day: as one step through all of it or part of it, or one by one."""
    steps = [later - earlier for earlier, later in pairwise([*hours, hours[0] + 24])]
    if len(set(steps)) == 1:
        return _STEP_ALL_DAY
    steps.remove(max(steps))
    if len(set(steps)) == 1:
        return _STEP_IN_PART
    return 1 + (len(hours) - 1) * math.log2(24)


def hour_lattices(walls: Sequence[float], gap: float) -> list[Lattice]:
    """Lattices by the hour that a history with this usual gap may follow.

    Each is open all day, and once more with the widest unused stretch of the day closed.
    """
    hourly: list[tuple[list[float], float, int]] = []
    even = [60 * m for m in (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60) if gap / 3 <= 60 * m <= gap * 1.3]
    for period in even[-4:]:
        (cluster,) = _clusters(walls, period, 1)[0]
        centre = median(cluster) % period
        hourly.append(([centre + period * i for i in range(HOUR // period)], 0.0 if period == HOUR else 2.0, 1))
    hours = len({int(wall // HOUR) for wall in walls})
    for clusters in _clusters(walls, HOUR, MAX_HOUR_SLOTS)[1:]:
        full = [cluster for cluster in clusters if len(cluster) >= _FILLED * hours]
        if len(full) > 1:
            minutes = sorted(median(cluster) % HOUR for cluster in full)
            hourly.append((minutes, (len(full) - 1) * math.log2(HOUR / 60), len(full)))
    lattices = []
    for minutes, bits, placed in hourly:
        whole = Lattice(HOUR, tuple(minutes), tuple(range(24)), bits + _OPEN_ALL_DAY, placed)
        lattices.append(whole)
        hours_open = _open_hours(whole, walls)
        if len(hours_open) < 24:
            lattices.append(Lattice(HOUR, whole.slots, hours_open, bits + _HOURS_CLOSED, placed))
    return lattices


def _open_hours(lattice: Lattice, walls: Sequence[float]) -> tuple[int, ...]:
    """The hours of the day but for the widest stretch in which no slot was ever filled."""
    _, places, _ = lattice.assign(walls)
    used = sorted({place // len(lattice.slots) for place in places})
    stretches = [(later - earlier, later) for earlier, later in zip(used, [*used[1:], used[0] + 24], strict=True)]
    widest, opens = max(stretches)
    return tuple(sorted(hour % 24 for hour in range(opens, opens + 25 - widest)))
