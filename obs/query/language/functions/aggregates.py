"""Aggregates: one value for each group of rows."""

import math
from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from obs.query.language.functions.definition import Family, Function, Number, Result, SqlFunction
from obs.sources import Type
from obs.storage.packed import unpack

PERCENTS = (50, 75, 90, 95, 99)
"""The percentiles that have functions of their own: p50, approx_p50..."""


def percentile(parts: Sequence[Sequence[int]], fraction: float) -> Number | None:
    """The percentile at `fraction` (0 to 1), interpolated between the two nearest values (percentile_cont in SQL).

    All `parts` but the last are sorted blocks of whole numbers. With blocks, a binary search over the range of values
    finds the one with this rank, so that no value is moved. None if there are no values.
    """
    *blocks, values = parts
    ascending = sorted(values)
    filled = [part for part in (*blocks, ascending) if part]
    if not filled:
        return None
    position = fraction * (sum(map(len, filled)) - 1)
    rank = math.floor(position)
    if blocks:
        low, most = min(part[0] for part in filled), max(part[-1] for part in filled)
        low += bisect_right(range(low, most), rank, key=lambda value: sum(bisect_right(part, value) for part in filled))
        places = [bisect_right(part, low) for part in filled]
        following = (part[place] for part, place in zip(filled, places, strict=True) if place < len(part))
        high = low if sum(places) > rank + 1 else min(following, default=low)
    else:
        low, high = ascending[rank], ascending[min(rank + 1, len(ascending) - 1)]
    return low if low == high else low + (high - low) * (position - rank)


def _standard_deviation(parts: Sequence[Sequence[Number]]) -> float | None:
    """The standard deviation of a sample, in two passes, so that there is no cancellation."""
    count = sum(map(len, parts))
    if count < 2:
        return None
    mean = sum(map(sum, parts)) / count
    return math.sqrt(sum((value - mean) * (value - mean) for part in parts for value in part) / (count - 1))


class _Collected:
    """What `of` returns for packed blocks of sorted values, followed by all single values, which take 8 bytes each."""

    def __init__(self, of: Callable[..., Any]) -> None:
        self.of = of
        self.arguments: tuple[float, ...] = ()
        self.values: Any = array("q")
        self.blocks: list[Sequence[int]] = []

    def step(self, value: Number | bytes | None, *arguments: float) -> None:
        self.arguments = arguments
        if isinstance(value, bytes):  # all durations of a cell of a rollup
            self.blocks.append(unpack(value))
        elif value is not None:
            if isinstance(value, float) and isinstance(self.values, array):
                self.values = list(self.values)
            self.values.append(value)

    def finalize(self) -> Any:
        return self.of([*self.blocks, self.values], *self.arguments)


class _Chosen:
    """The value, if not null, of the row that `choose` prefers: by its time, and for the same time by the value."""

    def __init__(self, choose: Callable[..., Any]) -> None:
        self.choose = choose
        self.found: tuple[Number | None, Any] = (None, None)

    def step(self, time: Number | None, value: Any) -> None:
        if value is not None and time is not None:
            self.found = (time, value) if self.found[0] is None else self.choose(self.found, (time, value))

    def finalize(self) -> Any:
        return self.found[1]


_EXACT = SqlFunction("obs_percentile", 2, partial(_Collected, percentile))


def _aggregate(
    name: str, parameter: Family, result: Type | Result, description: str, sql: str, **options: Any
) -> Function:
    return Function(name, (parameter,), result, description, sql, aggregate=True, **options)


def _by_time(name: str, description: str, choose: Callable[..., Any]) -> Function:
    sqlite = SqlFunction(f"obs_{name}", 2, partial(_Chosen, choose))
    return _aggregate(name, Family.ANY, Result.FIRST, description, f"obs_{name}({{time}}, {{0}})", sqlite=sqlite)


def _percentile_of(description: str, name: str, percent: int | None, *more: Family) -> Function:
    sql = f"{_EXACT.name}({{0}}, {{fraction}})"
    parameters = (Family.NUMBER, *more)
    return Function(name, parameters, Result.MEAN, description, sql, _EXACT, aggregate=True, percent=percent)


_STDDEV = SqlFunction("obs_stddev", 1, partial(_Collected, _standard_deviation))
_COUNT = "The number of rows (`count(*)`), of values, or of different values (`count(DISTINCT x)`)."
_SUM = "The sum of the values; null if there are none."
_SAMPLE = "The standard deviation of a sample; null for fewer than two values."
_RATE = "An aggregate per unit of time: `rate(count(*), 1m)`."
_PER_LENGTH = "({0} * CAST({1} AS REAL) / {covered})"
AGGREGATES = (
    _aggregate("count", Family.ANY, Type.INTEGER, _COUNT, "count({distinct}{0})", counts=True),
    _aggregate("sum", Family.NUMBER, Result.FIRST, _SUM, "sum({distinct}{0})"),
    _aggregate("avg", Family.NUMBER, Result.MEAN, "The mean of the values.", "avg({distinct}{0})"),
    _aggregate("min", Family.ORDERED, Result.FIRST, "The smallest value.", "min({0})"),
    _aggregate("max", Family.ORDERED, Result.FIRST, "The largest value.", "max({0})"),
    _aggregate("any", Family.ANY, Result.FIRST, "Any one of the values.", "min({0})"),
    _by_time("first", "The value of the earliest row that has one.", min),
    _by_time("last", "The value of the latest row that has one.", max),
    _aggregate("stddev", Family.NUMBER, Result.MEAN, _SAMPLE, f"{_STDDEV.name}({{0}})", sqlite=_STDDEV),
    _percentile_of("The middle value; the same as p50.", "median", 50),
    *(
        _percentile_of(f"The {each}th percentile, interpolated between the two nearest values.", f"p{each}", each)
        for each in PERCENTS
    ),
    _percentile_of("Any percentile: `percentile(duration_ms, 99.9)`.", "percentile", None, Family.PERCENT),
    *(_percentile_of(f"The same as p{each}; an older name.", f"approx_p{each}", each) for each in PERCENTS),
    Function("rate", (Family.AGGREGATE, Family.LENGTH), Type.NUMBER, _RATE, _PER_LENGTH, aggregate=True),
)
