"""What a history costs under a hypothesis, in bits: the fewer, the better the hypothesis describes it.

A heartbeat costs its residual in a Laplace code whose scale is limited by the median, to the second, and at
most 16 bits, which is what a heartbeat in no slot costs (an extra manual run, a second one in a slot). A
slot that was missed costs 10 bits, a stretch of v of them 10 + log2 v; where misses are a habit a Bernoulli
rate for them is cheaper and is used.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import sub
from typing import cast

from obs.heartbeat.schedule.heartbeats import median

OUTLIER_BITS = 16.0
_MISS_BITS = 10.0
_HABIT_BITS = 4.0
_HABIT_STRETCHES = 3
_LOG2E = math.log2(math.e)


@dataclass(frozen=True, slots=True)
class Account:
    """How a history looks under one base and gate.

    bits       the cost of the heartbeats and the missed slots
    fit        how many heartbeats are the run of a slot
    residuals  their residuals in seconds, in order of time
    skips      how many slots stayed silent before each heartbeat that fills one
    habit      whether missed slots are usual
    each       the cost of each heartbeat, with that of the silent slots before it
    """

    bits: float
    fit: int
    residuals: tuple[float, ...]
    skips: tuple[int, ...]
    habit: bool
    each: tuple[float, ...]


def residual_bits(residuals: Sequence[float], placed: int) -> list[float] | None:
    """The cost of each residual; the scale is max(median |r| / ln 2, 1 s).

    `placed` positions were taken from these very heartbeats, so as many of the least residuals say nothing.
    None where no residual is left: the history is as long as its description.
    """
    telling = sorted(abs(r) for r in residuals)[placed:]
    if not telling:
        return None
    scale = max(median(telling) / math.log(2), 1.0)
    base, slope = math.log2(2 * scale), _LOG2E / scale
    return [min(OUTLIER_BITS, base + slope * abs(r)) for r in residuals]


def account(
    ranks: Sequence[int | None],
    residuals: Sequence[float],
    bits: Sequence[float],
    allowance: float = math.inf,
) -> Account | None:
    """The account of a history; None once it is sure to cost `allowance` bits more than the residuals alone.

    `ranks` are the places of the slots in the sequence of all slots, None for a heartbeat in no slot.
    """
    if None not in ranks:
        steps = list(map(sub, cast("Sequence[int]", ranks[1:]), cast("Sequence[int]", ranks)))
        stray = any(cost >= OUTLIER_BITS and residual < 0 for residual, cost in zip(residuals, bits, strict=True))
        if min(steps, default=1) > 0 and not stray:
            return _tidy_account([step - 1 for step in steps], residuals, bits, allowance)
    kept: list[float] = []
    skips: list[int] = []
    each: list[float] = []
    filled_at: list[int] = []
    previous: int | None = None
    held = 0.0
    fit = 0
    more = 0.0
    for rank, residual, cost in zip(ranks, residuals, bits, strict=True):
        if rank is None or (residual < 0 and cost >= OUTLIER_BITS):
            each.append(OUTLIER_BITS)
            more += OUTLIER_BITS - cost
        elif previous is not None and rank <= previous:
            # a second heartbeat in the slot: the one nearer to it is its run
            each.append(OUTLIER_BITS - max(0.0, held - cost))
            if cost < held:
                fit += (cost < OUTLIER_BITS) - (held < OUTLIER_BITS)
                kept[-1], held = residual, cost
        else:
            if previous is not None:
                skip = rank - previous - 1
                skips.append(skip)
                filled_at.append(len(each))
                more += skip.bit_length()  # no stretch of v silent slots costs less than 1 + log2 v
            each.append(cost)
            kept.append(residual)
            fit += cost < OUTLIER_BITS
            previous, held = rank, cost
        if more > allowance:
            return None
    return _settled(skips, filled_at, each, fit, kept)


def _tidy_account(
    skips: list[int], residuals: Sequence[float], bits: Sequence[float], allowance: float
) -> Account | None:
    """The account where each heartbeat is the only run of its slot."""
    if sum(map(int.bit_length, skips)) > allowance:
        return None
    fit = sum(cost < OUTLIER_BITS for cost in bits)
    return _settled(skips, range(1, len(bits)), list(bits), fit, residuals)


def _settled(skips: list[int], filled_at: Sequence[int], each: list[float], fit: int, kept: Sequence[float]) -> Account:
    """The account with the cost of the silent slots added to the heartbeats that came after them."""
    habit = False
    if any(skips):
        present, missed, habit = _miss_bits(skips)
        for skip, at in zip(skips, filled_at, strict=True):
            each[at] += missed(skip) if skip else present
    total = sum(each) + (_HABIT_BITS if habit else 0.0)
    return Account(total, fit, tuple(kept), tuple(skips), habit, tuple(each))


def _miss_bits(skips: Sequence[int]) -> tuple[float, Callable[[int], float], bool]:
    """The cost of no missed slot before a heartbeat, of a stretch of them, and whether misses are a habit."""
    stretches = [v for v in skips if v]
    if len(stretches) >= _HABIT_STRETCHES:
        rate = (len(stretches) + 0.5) / (len(skips) + 1)
        miss, present = 1 - math.log2(rate), -math.log2(1 - rate)
        lengths = sum(math.log2(v) for v in stretches)
        often = _HABIT_BITS + len(stretches) * miss + (len(skips) - len(stretches)) * present + 1.5 * lengths
        if often < _MISS_BITS * len(stretches) + lengths:
            return present, lambda skip: miss + 1.5 * math.log2(skip), True
    return 0.0, lambda skip: _MISS_BITS + math.log2(skip), False
