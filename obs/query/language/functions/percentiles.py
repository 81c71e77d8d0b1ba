"""Percentiles of many values: exact ones, and ones accurate to 1 % that need little memory (DDSketch).

DDSketch counts each value in a bucket by its logarithm. The values of a bucket differ by at most 2 %, and its middle
represents all of them. Source: Masson, Rim and Lee 2019, "DDSketch: a fast and fully-mergeable quantile sketch with
relative-error guarantees".
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence

Number = int | float
_SORTED_AT_ONCE = 50_000

ACCURACY = 0.01
"""The largest relative error of a percentile of a sketch."""
_GAMMA = (1 + ACCURACY) / (1 - ACCURACY)
_LOG_GAMMA = math.log(_GAMMA)
_ZERO = 1e-9


def percentile(values: list[Number], fraction: float, is_over: Callable[[], bool]) -> Number | None:
    """The percentile at `fraction` (0 to 1), interpolated between the two nearest values (SQL: percentile_cont).

    None if there are no values, and as soon as `is_over` returns True: it takes several passes. It changes `values`.
    """
    if not values:
        return None
    position = fraction * (len(values) - 1)
    found = _neighbours(values, math.floor(position), is_over)
    return None if found is None else _between(*found, position)


def merged_percentile(parts: Sequence[Sequence[int]], fraction: float) -> Number | None:
    """The percentile of the values of all `parts`, each of which is sorted; None if there are no values."""
    count = sum(map(len, parts))
    if not count:
        return None
    position = fraction * (count - 1)
    return _between(*merged_neighbours(parts, math.floor(position)), position)


def merged_neighbours(parts: Sequence[Sequence[int]], rank: int) -> tuple[int, int]:
    """The value at `rank` and the one after it among those of all `parts`, each of which is sorted.

    At the end both are the last value. A binary search over the range of values finds the smallest value with more than
    `rank` values at or below it, so no value is moved.
    """
    least, most = min(part[0] for part in parts if part), max(part[-1] for part in parts if part)
    while least < most:
        middle = (least + most) // 2
        if sum(bisect_right(part, middle) for part in parts) > rank:
            most = middle
        else:
            least = middle + 1
    places = [bisect_right(part, least) for part in parts]
    if sum(places) > rank + 1:
        return least, least
    return least, min(
        (part[place] for part, place in zip(parts, places, strict=True) if place < len(part)), default=least
    )


def _between(low: Number, high: Number, position: float) -> Number:
    return low if low == high else low + (high - low) * (position - math.floor(position))


def _neighbours(values: list[Number], rank: int, is_over: Callable[[], bool]) -> tuple[Number, Number] | None:
    """The value at `rank` and the one after it in sorted order; at the end both are the last value.

    Source: Hoare 1961, "Find" (quickselect).
    """
    above: Number | None = None  # the smallest value known to be larger than all remaining ones
    while len(values) > _SORTED_AT_ONCE:
        if is_over():
            return None
        sample = sorted(values[:: max(1, len(values) // 1_000)])
        pivot = sample[min(len(sample) - 1, rank * len(sample) // len(values))]
        smaller = [value for value in values if value < pivot]
        if rank < len(smaller):
            above, values = pivot, smaller
            continue
        larger = [value for value in values if value > pivot]
        equal = len(values) - len(smaller) - len(larger)
        if rank < len(smaller) + equal:
            if rank + 1 < len(smaller) + equal:
                return pivot, pivot
            return pivot, min(larger) if larger else pivot if above is None else above
        rank -= len(smaller) + equal
        values = larger
    values.sort()
    low = values[rank]
    if rank + 1 < len(values):
        return low, values[rank + 1]
    return low, low if above is None else above


class Sketch:
    """Counts of values by bucket, separately for negative and positive ones. Values that are not finite are ignored."""

    __slots__ = ("_above", "_below", "_count", "_zeros")

    def __init__(self) -> None:
        self._above: dict[int, int] = {}
        self._below: dict[int, int] = {}
        self._zeros = 0
        self._count = 0

    def add(self, value: float) -> None:
        """Count one value."""
        if not math.isfinite(value):
            return
        self._count += 1
        if -_ZERO < value < _ZERO:
            self._zeros += 1
            return
        side = self._above if value > 0 else self._below
        bucket = _bucket(value)
        side[bucket] = side.get(bucket, 0) + 1

    def percentile(self, fraction: float) -> float | None:
        """The value at the rank ``fraction * (count - 1)``, rounded down, within ACCURACY; None without values."""
        if not self._count:
            return None
        rank = math.floor(fraction * (self._count - 1))
        passed = 0
        for sign, side in ((-1, self._below), (0, {0: self._zeros}), (1, self._above)):
            # Of negative values, those with the largest logarithm come first.
            for bucket in sorted(side, reverse=sign < 0):
                passed += side[bucket]
                if passed > rank:
                    return _middle(sign, bucket)
        raise AssertionError("every value is in a bucket")


def representative(value: float) -> float:
    """The percentile that a sketch returns if the value at the rank is `value`, which is finite."""
    if -_ZERO < value < _ZERO:
        return _middle(0, 0)
    return _middle(1 if value > 0 else -1, _bucket(value))


def _bucket(value: float) -> int:
    return math.ceil(math.log(abs(value)) / _LOG_GAMMA)


def _middle(sign: int, bucket: int) -> float:
    return sign * 2 * _GAMMA**bucket / (_GAMMA + 1)
