"""Bases: the pattern of a schedule within a day, before the gate closes any days.

A basis is either a gap (see hypotheses.py) or a lattice. A lattice is a list of fixed times of day, called slots. To
find one, fold the wall times by the day or by the hour, sort them on the circle, and cut the circle at its widest gaps.
Each cluster between two cuts that is filled often enough is a slot. In a lattice by the hour the slots are minutes of
the hour, and the lattice may be closed in some hours of the day.

A lattice costs log2(period / 1 minute) bits for each slot after the first. It costs less when its slots are at the same
minute of different hours, because one cron expression has such slots.

All times are milliseconds of wall time (see clock.py).
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from operator import sub

from obs.heartbeat.schedule.history import median
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

ALL_HOURS = tuple(range(24))
_MAX_USUAL_BY_HOUR_MS, _MIN_MEAN_BY_DAY_MS = 90 * MINUTE_MS, 50 * MINUTE_MS
_MAX_DAY_SLOTS, _MAX_HOUR_SLOTS = 14, 12
_MIN_FILLED = 0.3  # a cluster is a slot if it has heartbeats in at least this share of the active days or hours
_CUTS_TRIED = 3
_SAME_SLOT_MS = 10 * SECOND_MS
_EARLY_SHARE = 0.35  # the share of the time between two slots that belongs to the later one
_EVEN_MINUTES = (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60)
_EVEN_MINUTES_BITS, _UNEVEN_MINUTES_BITS = 2.0, 6.0  # cron's */7 begins again with each hour
_STEP_ALL_DAY_BITS = 3.0  # about eight steps divide the day evenly
_STEP_IN_PART_BITS = 1 - math.log2(0.15) + math.log2(24)
_ALL_HOURS_BITS, _SOME_HOURS_BITS = -math.log2(0.85), -math.log2(0.15) + math.log2(24)


@dataclass(frozen=True, slots=True)
class Lattice:
    """Fixed times of day."""

    period_ms: int  # what the times were folded by: a day or an hour
    slots: tuple[int, ...]  # ascending times within the period, in milliseconds
    open: tuple[int, ...]  # the periods of the day in which they apply: (0,) by the day, hours (0 to 23) by the hour
    bits: float  # the cost of stating the lattice
    placed: int = 1  # how many positions were taken from the heartbeats themselves

    @property
    def size(self) -> int:
        """The number of slots in a day."""
        return len(self.slots) * len(self.open)

    @property
    def spacing_ms(self) -> int:
        """The shortest time from one slot to the next."""
        return min([later - slot for slot, later in pairwise([*self.slots, self.slots[0] + self.period_ms])])

    @property
    def hours(self) -> tuple[int, tuple[int, ...]]:
        """For a lattice by the hour: where its hours begin after full hours, and the hours that are open."""
        return self.slots[0] - int(_EARLY_SHARE * (self.slots[0] + self.period_ms - self.slots[-1])), self.open

    def assign(self, walls: Sequence[int]) -> tuple[list[int], list[int]]:
        """Assign each wall time to a slot. Returns the numbers of the slots (day * size + place) and the residuals.

        A residual is the time from the slot to the heartbeat; it is negative for a heartbeat before its slot. Between
        two slots, the last 35 % of the time belongs to the later slot, because runs are late more often than early.
        """
        slots, period, count = self.slots, self.period_ms, len(self.slots)
        begins, _ = self.hours
        # Periods begin where the time begins that belongs to their first slot.
        times, step, centre = [wall - begins for wall in walls], self.spacing_ms, slots[0] - begins
        if count * step == period:
            numbers, residuals = [time // step for time in times], [time % step - centre for time in times]
        else:
            ends = [later - int(_EARLY_SHARE * (later - slot)) - begins for slot, later in pairwise(slots)]
            rest, centres = [time % period for time in times], [slot - begins for slot in slots]
            parts = [bisect_right(ends, time) for time in rest]
            numbers = [time // period * count + part for time, part in zip(times, parts, strict=True)]
            residuals = [time - centres[part] for time, part in zip(rest, parts, strict=True)]
        if period == DAY_MS or self.open == ALL_HOURS:
            return numbers, residuals
        size, a_day, places = self.size, 24 * count, _places(self.open, count)
        for at, number in enumerate(numbers):
            day, within = divmod(number, a_day)
            if (place := places.get(within)) is None:
                # A heartbeat in a closed hour is a very late run of the last open hour.
                before = bisect_right(self.open, within // count) - 1
                if before < 0:
                    before, day = len(self.open) - 1, day - 1
                place = before * count + count - 1
                residuals[at] = walls[at] - day * DAY_MS - self.open[before] * period - slots[-1]
            numbers[at] = day * size + place
        return numbers, residuals

    def moved(self, ahead_ms: int) -> tuple["Lattice", int, int]:
        """The same moments on clocks that are `ahead_ms` ahead, whole hours for a lattice by the hour.

        Returns the lattice, how many days later its first slot falls, and how many of the last slots of the day fall
        one more day later; those come first in the new lattice.
        """
        is_by_day = self.period_ms == DAY_MS
        parts, ahead, whole = (self.slots, ahead_ms, DAY_MS) if is_by_day else (self.open, ahead_ms // HOUR_MS, 24)
        shift = (parts[0] + ahead) // whole
        moved = [part + ahead - shift * whole for part in parts]
        at = bisect_left(moved, whole)
        later, around = len(moved) - at, (*[part - whole for part in moved[at:]], *moved[:at])
        slots, hours_open = (around, self.open) if is_by_day else (self.slots, around)
        more = later * (1 if is_by_day else len(slots))
        return Lattice(self.period_ms, slots, hours_open, self.bits, self.placed), shift, more


@lru_cache(256)
def _places(hours: tuple[int, ...], count: int) -> dict[int, int]:
    """The places of the slots in a day with these open `hours`, by their places in a day without closed ones."""
    return {hour * count + at: place * count + at for place, hour in enumerate(hours) for at in range(count)}


def lattices(walls: Sequence[int], usual_ms: int, mean_ms: float, older: Sequence[int]) -> list[Lattice]:
    """Candidate lattices for a history with these usual and mean intervals. `older` has at most one time of an hour."""
    by_day = _by_day(walls) if mean_ms >= _MIN_MEAN_BY_DAY_MS else []
    return by_day + (_by_hour(walls, usual_ms, older) if usual_ms <= _MAX_USUAL_BY_HOUR_MS else [])


def _by_day(walls: Sequence[int]) -> list[Lattice]:
    active = len({wall // DAY_MS for wall in walls})
    found: list[Lattice] = []
    for clusters in _clusters(walls, DAY_MS, _MAX_DAY_SLOTS):
        # A single heartbeat may be a manual run, but on the first days it may be the only one of its slot.
        filled = [cluster for cluster in clusters if len(cluster) >= max(_MIN_FILLED * active, min(active - 1, 2))]
        if not filled:
            continue
        extra = len(filled) - 1
        _add(found, [median(cluster) for cluster in filled], extra * math.log2(DAY_MS / MINUTE_MS), len(filled))
        if extra:
            hours, shift = _whole_hours(filled)
            _add(found, [shift + hour * HOUR_MS for hour in hours], _hours_bits(hours), 1)
    return found


def _by_hour(walls: Sequence[int], interval_ms: int, older: Sequence[int]) -> list[Lattice]:
    """Lattices by the hour, each open all day, without the longest unused part of the day, and without unused hours."""
    by_hour: list[tuple[tuple[int, ...], float, int]] = []
    steps = [n * MINUTE_MS for n in _EVEN_MINUTES if interval_ms / 3 <= n * MINUTE_MS <= interval_ms * 1.3][-4:]
    if (step := round(interval_ms / MINUTE_MS)) < 30 and step not in (0, *_EVEN_MINUTES):
        steps.append(step * MINUTE_MS)
    in_hour = [wall % HOUR_MS for wall in walls]
    for period in steps:
        (cluster,) = _clusters(in_hour, period, 1)[0]
        slots = tuple(range(median(cluster) % period, HOUR_MS, period))
        bits = _UNEVEN_MINUTES_BITS if HOUR_MS % period else 0.0 if period == HOUR_MS else _EVEN_MINUTES_BITS
        by_hour.append((slots, bits, 1))
    hours = len({wall // HOUR_MS for wall in walls})
    for clusters in _clusters(walls, HOUR_MS, _MAX_HOUR_SLOTS)[1:]:
        filled = [cluster for cluster in clusters if len(cluster) >= _MIN_FILLED * hours]
        if len(filled) > 1:
            slots = tuple(sorted(median(cluster) % HOUR_MS for cluster in filled))
            by_hour.append((slots, (len(filled) - 1) * math.log2(HOUR_MS / MINUTE_MS), len(filled)))
    found = []
    for slots, bits, placed in dict.fromkeys(by_hour):  # different cuts may have the same clusters
        all_day = Lattice(HOUR_MS, slots, ALL_HOURS, bits + _ALL_HOURS_BITS, placed)
        found.append(all_day)
        used, stretch = _open_hours(all_day, walls, older)
        if len(stretch) < 24:
            found.append(Lattice(HOUR_MS, slots, stretch, bits + _SOME_HOURS_BITS, placed))
        if len(used) < len(stretch):
            found.append(Lattice(HOUR_MS, slots, used, bits + 2 * _SOME_HOURS_BITS, placed))
    return found


def _clusters(walls: Sequence[int], period: int, most: int) -> list[list[list[int]]]:
    """Ways to cut the folded times into at most `most` clusters; the times of a cluster may exceed the period.

    The first way is a single cluster. In the others, the narrowest gap that is cut stands out most from the next one.
    """
    folded = sorted([wall % period for wall in walls])
    size = len(folded)
    gaps = [*map(sub, folded[1:], folded), folded[0] + period - folded[-1]]
    around = folded + [time + period for time in folded]
    widest = sorted(range(size), key=gaps.__getitem__, reverse=True) if most > 1 else [gaps.index(max(gaps))]
    ranked = [*(gaps[place] for place in widest[: most + 1]), SECOND_MS]
    stands_out = [0.0, *(wider / max(narrower, SECOND_MS) for wider, narrower in pairwise(ranked))]
    several = sorted(range(2, min(most, size) + 1), key=stands_out.__getitem__, reverse=True)[:_CUTS_TRIED]
    ways = []
    for cuts in [1, *several]:
        ends = sorted(widest[:cuts])
        starts = [end + 1 for end in ends]
        ways.append([around[a:b] for a, b in zip(starts, [*starts[1:], starts[0] + size], strict=True)])
    return ways


def _add(found: list[Lattice], centres: Sequence[int], bits: float, placed: int) -> None:
    """Add a lattice by the day, unless a cheaper one has the same slots or two of its own slots coincide."""
    slots = tuple(sorted(centre % DAY_MS for centre in centres))
    for known in found:
        are_near = (abs(a - b) < _SAME_SLOT_MS for a, b in zip(known.slots, slots, strict=True))
        if len(known.slots) == len(slots) and known.bits <= bits and all(are_near):
            return
    if all(later - slot > _SAME_SLOT_MS for slot, later in pairwise(slots)):
        found.append(Lattice(DAY_MS, slots, (0,), bits, placed))


def _whole_hours(clusters: list[list[int]]) -> tuple[list[int], int]:
    """The ascending hours of the clusters' centres, and the one time past the hour that fits all of them best."""
    anchor = median(clusters[0]) % HOUR_MS
    hours = [round((median(cluster) - anchor) / HOUR_MS) for cluster in clusters]
    shift = median([time - hour * HOUR_MS for cluster, hour in zip(clusters, hours, strict=True) for time in cluster])
    return sorted(hour % 24 for hour in hours), shift


def _hours_bits(hours: list[int]) -> float:
    """The cost of stating hours of the day: as a step through the whole day or part of it, or one by one."""
    steps = [later - earlier for earlier, later in pairwise([*hours, hours[0] + 24])]
    if len(set(steps)) == 1:
        return _STEP_ALL_DAY_BITS
    steps.remove(max(steps))
    return _STEP_IN_PART_BITS if len(set(steps)) == 1 else 1 + (len(hours) - 1) * math.log2(24)


def _open_hours(lattice: Lattice, walls: Sequence[int], older: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The hours of the day in which slots were filled, and all but the longest stretch in which none ever was."""
    begins, _ = lattice.hours
    seen = {(wall - begins) // HOUR_MS % 24 for wall in walls}
    if len(seen) == 24:
        return ALL_HOURS, ALL_HOURS
    count = Counter([(wall - begins) // HOUR_MS % 24 for wall in older])
    enough = max(2, len({wall // DAY_MS for wall in older}) / 5)  # fewer may be manual runs
    used = sorted(seen | {hour for hour, days in count.items() if days >= enough})
    stretches = [(later - earlier, later) for earlier, later in zip(used, [*used[1:], used[0] + 24], strict=True)]
    widest, opens = max(stretches)
    return tuple(used), tuple(sorted(hour % 24 for hour in range(opens, opens + 25 - widest)))
