"""The exact percentile of many values, found in passes between which it can be given up."""

import math
from collections.abc import Callable

Number = int | float
_SORTED_AT_ONCE = 50_000


def percentile(values: list[Number], fraction: float, is_over: Callable[[], bool]) -> Number | None:
    """The value at `fraction` of the sorted `values`, between two neighbours by their distance (SQL: percentile_cont).

    None without values, and as soon as `is_over` says so. `values` is used up.
    """
    if not values:
        return None
    position = fraction * (len(values) - 1)
    rank = math.floor(position)
    found = _neighbours(values, rank, is_over)
    if found is None:
        return None
    low, high = found
    return low if low == high else low + (high - low) * (position - rank)


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
