"""Percentiles of many values."""

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence

Number = int | float
_SORTED_AT_ONCE = 50_000


def percentile(values: Sequence[Number], fraction: float, is_over: Callable[[], bool]) -> Number | None:
    """The percentile at `fraction` (0 to 1), interpolated between the two nearest values (SQL: percentile_cont).

    None if there are no values, and as soon as `is_over` returns True: it takes several passes.
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


def _neighbours(values: Sequence[Number], rank: int, is_over: Callable[[], bool]) -> tuple[Number, Number] | None:
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
    values = sorted(values)
    low = values[rank]
    if rank + 1 < len(values):
        return low, values[rank + 1]
    return low, low if above is None else above
