"""The exact percentile of many values, found in passes between which it can be given up."""

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence

Number = int | float
_SORTED_AT_ONCE = 50_000


def percentile(values: list[Number], fraction: float, is_over: Callable[[], bool]) -> Number | None:
    """The value at `fraction` of the sorted `values`, between two neighbours by their distance (SQL: percentile_cont).

    None without values, and as soon as `is_over` says so. `values` is used up.
    """
    if not values:
        return None
    position = fraction * (len(values) - 1)
    found = _neighbours(values, math.floor(position), is_over)
    return None if found is None else _between(*found, position)


def merged_percentile(parts: Sequence[Sequence[int]], fraction: float) -> Number | None:
    """The same of the values of all `parts`, each of which is ascending; None without values."""
    count = sum(map(len, parts))
    if not count:
        return None
    position = fraction * (count - 1)
    return _between(*merged_neighbours(parts, math.floor(position)), position)


def merged_neighbours(parts: Sequence[Sequence[int]], rank: int) -> tuple[int, int]:
    """The values at `rank` and behind it among those of all `parts`, each ascending; at the end, twice the last.

    It is the least value that more than `rank` others do not exceed: looked for between the least and the largest of
    all, halving what is left, so that no value is moved.
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
    """The values at `rank` and behind it in sorted order; at the end, twice the last (Hoare 1961: "Find")."""
    above: Number | None = None  # the least of all that is known to be larger than what is left
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
