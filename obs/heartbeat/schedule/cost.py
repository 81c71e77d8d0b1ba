"""The cost of a history under a hypothesis, in bits. The fewer bits, the better the hypothesis describes the history.

A heartbeat costs the length of its residual in a Laplace code, with a precision of one second. The scale of the code
comes from the median, so a few extreme residuals do not change it. A heartbeat costs at most 16 bits: that is the cost
of one that fills no slot, such as a manual run or a second run in the same slot. A missed slot costs 10 bits, and v
missed slots in a row cost 10 + log2(v). If a job often misses slots, stating how often is cheaper, and is used instead.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import compress, pairwise
from operator import gt
from typing import cast

from obs.heartbeat.schedule.grace import RECENT
from obs.heartbeat.schedule.history import median
from obs.times import SECOND_MS

OUTLIER_BITS = 16.0  # the cost of a heartbeat that fills no slot, or is far from it

_WIDE_BITS, _MOST, _BEYOND_MOST, _WINDOW_SHARE = OUTLIER_BITS - 2.0, 0.9, 1.2, 0.65
_MISS_BITS, _OFTEN_BITS, _OFTEN_STRETCHES = 10.0, 4.0, 3
_RARE_SHARE = 0.13  # of the runs; more missed slots than before the other runs are not usual


@dataclass(frozen=True, slots=True)
class Filling:
    """The slots that a history fills, and what its heartbeats cost as long as no slot counts as missed."""

    slots: Sequence[int]  # the numbers of the slots that have a run, ascending
    firsts: Sequence[int]  # the index of the first heartbeat in each of them
    residuals: tuple[int, ...]  # of the runs, in milliseconds
    costs: Sequence[float]  # of the runs, in bits
    each: Sequence[float]  # the costs of all heartbeats, in bits

    def only(self, is_open: Sequence[bool]) -> "Filling":
        """The same where only some of the slots exist: the heartbeats in the others fill no slot."""
        each = list(self.each)
        for stays, first, after in zip(is_open, self.firsts, (*self.firsts[1:], len(each)), strict=True):
            if not stays:
                each[first:after] = [OUTLIER_BITS] * (after - first)
        names = ("slots", "firsts", "residuals", "costs")
        return replace(self, each=each, **{name: tuple(compress(getattr(self, name), is_open)) for name in names})


@dataclass(frozen=True, slots=True)
class Account:
    """What a history costs under one basis and gate."""

    bits: float  # the cost of the heartbeats and the missed slots
    filling: Filling  # the slots that are filled
    skips: Sequence[int]  # how many slots were missed before each filled slot but the first
    skip_bits: Mapping[int, float]  # what so many missed slots cost
    misses_often: bool  # whether missed slots are usual for the job

    @property
    def each(self) -> list[float]:
        """The cost of each heartbeat, including that of the missed slots before it."""
        each = list(self.filling.each)
        for at, skip in zip(self.filling.firsts[1:], self.skips, strict=True):
            each[at] += self.skip_bits[skip]
        return each

    @property
    def usual_skip(self) -> int:
        """How many missed slots in a row are usual: at most one run in eight follows more. 0 if it misses seldom."""
        recent = sorted(self.skips[-RECENT:])
        return recent[min(len(recent) - 1, int((1 - _RARE_SHARE) * len(recent)))] if self.misses_often else 0


@lru_cache(maxsize=32)  # in zones that differ by whole hours, lattices by the hour have the same residuals
def residual_bits(residuals: tuple[int, ...], placed: int, spacing_ms: int) -> Sequence[float] | None:
    """The cost of each residual. The scale of the Laplace code is max(median |residual| / ln 2, 1 second).

    The `placed` smallest residuals are left out of the median: as many positions were taken from these heartbeats.
    Of delays that are drawn from many hours, all of a window cost the same (docs/decisions/0005); it is at most 0.65 of
    `spacing_ms`. None if no residual is left; then the hypothesis is as long as the history and explains nothing.
    """
    telling = sorted(sizes := [*map(abs, residuals)])[placed:]
    if not telling:
        return None
    scale = max(median(telling) / math.log(2), SECOND_MS)
    base, slope = math.log2(2 * scale / SECOND_MS), math.log2(math.e) / scale
    if base > _WIDE_BITS:
        widest = telling[int(_MOST * len(telling))] * _BEYOND_MOST
        flat = math.log2(2 * widest / SECOND_MS)
        if flat < OUTLIER_BITS and 2 * widest < _WINDOW_SHARE * spacing_ms:
            return [flat if size <= widest else OUTLIER_BITS for size in sizes]
    return [cost if (cost := base + slope * size) < OUTLIER_BITS else OUTLIER_BITS for size in sizes]


def fill(numbers: Sequence[int], residuals: Sequence[int], bits: Sequence[float]) -> Filling:
    """How heartbeats fill slots: the `numbers` of their slots in order of time, and what `residual_bits` returned."""
    if all(map(gt, numbers[1:], numbers)) and (OUTLIER_BITS not in bits or min(residuals) >= 0):
        return Filling(numbers, range(len(numbers)), tuple(residuals), bits, bits)
    each, firsts, runs, last = list(bits), list[int](), list[int](), -math.inf
    for at, (number, cost) in enumerate(zip(numbers, bits, strict=True)):
        if cost >= OUTLIER_BITS and residuals[at] < 0:
            continue
        if number > last:
            firsts.append(at)
            runs.append(at)
            last = number
        else:
            # A second heartbeat in the slot: the one that is nearer to the slot is its run.
            each[at] = OUTLIER_BITS - max(0.0, bits[runs[-1]] - cost)
            if cost < bits[runs[-1]]:
                runs[-1] = at
    slots, costs = [numbers[at] for at in firsts], [bits[at] for at in runs]
    return Filling(slots, firsts, tuple([residuals[at] for at in runs]), costs, each)


def account(filling: Filling, ranks: Sequence[int | None], excused: Collection[int] = ()) -> Account:
    """The account of a history.

    `ranks` number the filled slots without those of closed days; None for one that does not exist; empty if they are
    the slots' own numbers. No slot counts as missed before the heartbeats with the indexes `excused`.
    """
    if None in ranks:
        filling = filling.only([rank is not None for rank in ranks])
        ranks = [rank for rank in ranks if rank is not None]
    skips = [later - slot - 1 for slot, later in pairwise(cast(Sequence[int], ranks or filling.slots))]
    if excused:
        skips = [0 if at in excused else skip for at, skip in zip(filling.firsts[1:], skips, strict=True)]
    counts = Counter(skips)
    skip_bits, misses_often = _skip_bits(counts)
    bits = sum(filling.each)
    bits += sum(skip_bits[skip] * count for skip, count in counts.items()) + (_OFTEN_BITS if misses_often else 0.0)
    return Account(bits, filling, skips, skip_bits, misses_often)


def _skip_bits(counts: Mapping[int, int]) -> tuple[dict[int, float], bool]:
    """The cost of each number of missed slots in a row, 0 included, and whether the job misses often."""
    missed = {skip: count for skip, count in counts.items() if skip}
    stretches = sum(missed.values())
    if stretches >= _OFTEN_STRETCHES:
        whole = sum(counts.values())
        rate = (stretches + 0.5) / (whole + 1)  # a Bernoulli rate: the share of heartbeats that follow a miss
        miss, present = 1 - math.log2(rate), -math.log2(1 - rate)
        lengths = sum(math.log2(skip) * count for skip, count in missed.items())
        often = _OFTEN_BITS + stretches * miss + (whole - stretches) * present + 1.5 * lengths
        if often < _MISS_BITS * stretches + lengths:
            return {0: present} | {skip: miss + 1.5 * math.log2(skip) for skip in missed}, True
    return {0: 0.0} | {skip: _MISS_BITS + math.log2(skip) for skip in missed}, False
