"""Percentiles of many values."""

import math
from bisect import bisect_right
from collections.abc import Sequence

Number = int | float


def percentile(values: Sequence[Number], fraction: float) -> Number | None:
    """The percentile at `fraction` (0 to 1), interpolated between the two nearest values (SQL: percentile_cont).

    None if there are no values.
    """
    if not values:
        return None
    ascending = sorted(values)
    position = fraction * (len(values) - 1)
    place = math.floor(position)
    return _between(ascending[place], ascending[min(place + 1, len(values) - 1)], position)


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
