"""The cost of a history under a hypothesis, in bits. The fewer bits, the better the hypothesis describes the history.

A heartbeat costs the length of its residual in a Laplace code, with a precision of one second. The scale of the code
comes from the median, so a few extreme residuals do not change it. A heartbeat costs at most 16 bits: that is the cost
of one that fills no slot, such as a manual run or a second run in the same slot. A missed slot costs 10 bits, and v
missed slots in a row cost 10 + log2(v). If a job often misses slots, stating how often is cheaper, and is used instead.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

from obs.heartbeat.schedule.history import median
from obs.times import SECOND_MS

OUTLIER_BITS = 16.0
"""The cost of a heartbeat that fills no slot, or is far from it."""

_MISS_BITS, _OFTEN_BITS, _OFTEN_STRETCHES = 10.0, 4.0, 3


@dataclass(frozen=True, slots=True)
class Account:
    """What a history costs under one basis and gate.

    bits          the cost of the heartbeats and the missed slots
    fitted        how many heartbeats are the run of a slot, on time
    residuals     their residuals in milliseconds, in order of time
    skips         how many slots were missed before each heartbeat that fills a slot
    misses_often  whether missed slots are usual for the job
    each          the cost of each heartbeat, including that of the missed slots before it
    """

    bits: float
    fitted: int
    residuals: tuple[int, ...]
    skips: tuple[int, ...]
    misses_often: bool
    each: tuple[float, ...]


def residual_bits(residuals: Sequence[int], placed: int) -> list[float] | None:
    """The cost of each residual. The scale of the Laplace code is max(median |residual| / ln 2, 1 second).

    The `placed` smallest residuals are left out of the median: as many positions were taken from these heartbeats.
    None if no residual is left; then the hypothesis is as long as the history and explains nothing.
    """
    telling = sorted(map(abs, residuals))[placed:]
    if not telling:
        return None
    scale = max(median(telling) / math.log(2), SECOND_MS)
    base, slope = math.log2(2 * scale / SECOND_MS), math.log2(math.e) / scale
    return [cost if (cost := base + slope * abs(each)) < OUTLIER_BITS else OUTLIER_BITS for each in residuals]


def account(
    ranks: Sequence[int | None],
    residuals: Sequence[int],
    bits: Sequence[float],
    allowance: float = math.inf,
    excused: Collection[int] = (),
) -> Account | None:
    """The account of a history; None as soon as it is certain to cost `allowance` bits more than the residuals alone.

    `ranks` number the slots in order of time, None for a heartbeat in no slot; `bits` is what `residual_bits` returned.
    No slot counts as missed before the heartbeats with the indexes `excused`.
    """
    kept, each, skips, filled_at, fitted = list[int](), list[float](), list[int](), list[int](), 0
    steps = [] if None in ranks else [later - slot for slot, later in pairwise(cast(Sequence[int], ranks))]
    if None not in ranks and min(steps, default=1) > 0 and (OUTLIER_BITS not in bits or min(residuals) >= 0):
        # The usual case: each heartbeat is the run of a slot of its own.
        kept, each, fitted = list(residuals), list(bits), len(bits) - bits.count(OUTLIER_BITS)
        filled_at = list(range(1, len(each)))
        skips = [0 if at in excused else step - 1 for at, step in enumerate(steps, 1)]
        if sum(map(int.bit_length, skips)) > allowance:
            return None
    else:
        previous: int | None = None
        kept_cost = more = 0.0
        for rank, residual, cost in zip(ranks, residuals, bits, strict=True):
            if rank is None or (residual < 0 and cost >= OUTLIER_BITS):
                each.append(OUTLIER_BITS)
                more += OUTLIER_BITS - cost
            elif previous is not None and rank <= previous:
                # A second heartbeat in the slot: the one that is nearer to the slot is its run.
                each.append(OUTLIER_BITS - max(0.0, kept_cost - cost))
                if cost < kept_cost:
                    fitted += (cost < OUTLIER_BITS) - (kept_cost < OUTLIER_BITS)
                    kept[-1], kept_cost = residual, cost
            else:
                if previous is not None:
                    skip = 0 if len(each) in excused else rank - previous - 1
                    skips.append(skip)
                    filled_at.append(len(each))
                    more += skip.bit_length()  # v missed slots in a row never cost less than 1 + log2 v
                each.append(cost)
                kept.append(residual)
                fitted += cost < OUTLIER_BITS
                previous, kept_cost = rank, cost
            if more > allowance:
                return None
    misses_often = False
    if any(skips):
        present, missed, misses_often = _miss_bits(skips)
        costs = {skip: missed(skip) if skip else present for skip in set(skips)}
        for skip, at in zip(skips, filled_at, strict=True):
            each[at] += costs[skip]
    total = sum(each) + (_OFTEN_BITS if misses_often else 0.0)
    return Account(total, fitted, tuple(kept), tuple(skips), misses_often, tuple(each))


def _miss_bits(skips: Sequence[int]) -> tuple[float, Callable[[int], float], bool]:
    """The cost of no missed slot before a heartbeat, the cost of v missed slots, and whether the job misses often.

    A job misses often if it is cheaper to state the share of heartbeats that follow a miss (a Bernoulli rate).
    """
    stretches = [v for v in skips if v]
    if len(stretches) >= _OFTEN_STRETCHES:
        rate = (len(stretches) + 0.5) / (len(skips) + 1)
        miss, present = 1 - math.log2(rate), -math.log2(1 - rate)
        lengths = sum(math.log2(v) for v in stretches)
        often = _OFTEN_BITS + len(stretches) * miss + (len(skips) - len(stretches)) * present + 1.5 * lengths
        if often < _MISS_BITS * len(stretches) + lengths:
            return present, lambda skip: miss + 1.5 * math.log2(skip), True
    return 0.0, lambda skip: _MISS_BITS + math.log2(skip), False
