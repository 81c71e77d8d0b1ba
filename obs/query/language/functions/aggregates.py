"""Aggregates: one value for each group of rows."""

import math
from array import array
from typing import Any

from obs.query.language.functions.definition import Family, Function, Result, SqlFunction
from obs.query.language.functions.percentiles import Number, percentile
from obs.sources import Type
from obs.storage.packed import unpack

PERCENTS = (50, 75, 90, 95, 99)
"""The percentiles that have functions of their own: p50, approx_p50..."""


class _Percentile:
    """A percentile. It keeps all values, whole numbers in 8 bytes each."""

    def __init__(self) -> None:
        self.values: Any = array("q")
        self.fraction = 0.0

    def step(self, value: Number | None, fraction: float) -> None:
        self.fraction = fraction
        if value is None:
            return
        if isinstance(value, float) and isinstance(self.values, array):
            self.values = list(self.values)
        self.values.append(value)

    def finalize(self) -> Number | None:
        return percentile(self.values, self.fraction)


class _StandardDeviation:
    """The standard deviation of a sample, by Welford's method: in one pass, without cancellation."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self.squares = 0.0

    def step(self, value: Number | bytes | None) -> None:
        if isinstance(value, bytes):  # all durations of a cell of a rollup
            for each in unpack(value):
                self.step(each)
        if value is None or isinstance(value, bytes):
            return
        self.count += 1
        distance = value - self.mean
        self.mean += distance / self.count
        self.squares += distance * (value - self.mean)

    def finalize(self) -> float | None:
        return None if self.count < 2 else math.sqrt(max(self.squares, 0.0) / (self.count - 1))


class _First:
    """The value of the earliest row in which it is not null; among rows of the same time, the smallest."""

    def __init__(self) -> None:
        self.time: Number | None = None
        self.value: Any = None

    def replaces(self, found: tuple[Number, Any], known: tuple[Number, Any]) -> bool:
        return found < known

    def step(self, time: Number | None, value: Any) -> None:
        if value is None or time is None:
            return
        if self.time is None or self.replaces((time, value), (self.time, self.value)):
            self.time, self.value = time, value

    def finalize(self) -> Any:
        return self.value


class _Last(_First):
    """The value of the latest row in which it is not null; among rows of the same time, the largest."""

    def replaces(self, found: tuple[Number, Any], known: tuple[Number, Any]) -> bool:
        return found > known


_EXACT = SqlFunction("obs_percentile", 2, _Percentile)


def _aggregate(
    name: str, parameter: Family, result: Type | Result, description: str, sql: str = "", **options: Any
) -> Function:
    return Function(name, (parameter,), result, description, sql, aggregate=True, **options)


def _percentile_of(name: str, percent: int, description: str) -> Function:
    sql = f"{_EXACT.name}({{0}}, {{fraction}})"
    return _aggregate(name, Family.NUMBER, Result.MEAN, description, sql, sqlite=_EXACT, percent=percent)


AGGREGATES = (
    _aggregate(
        "count",
        Family.ANY,
        Type.INTEGER,
        "The number of rows (`count(*)`), of values, or of different values (`count(DISTINCT x)`).",
        "count({distinct}{0})",
        distinct=True,
        star=True,
        stored=True,
    ),
    _aggregate(
        "sum",
        Family.NUMBER,
        Result.FIRST,
        "The sum of the values; null if there are none.",
        "sum({distinct}{0})",
        distinct=True,
    ),
    _aggregate("avg", Family.NUMBER, Result.MEAN, "The mean of the values.", "avg({distinct}{0})", distinct=True),
    _aggregate("min", Family.ORDERED, Result.FIRST, "The smallest value.", "min({0})"),
    _aggregate("max", Family.ORDERED, Result.FIRST, "The largest value.", "max({0})"),
    _aggregate("any", Family.ANY, Result.FIRST, "Any one of the values.", "min({0})"),
    _aggregate(
        "first",
        Family.ANY,
        Result.FIRST,
        "The value of the earliest row that has one.",
        "obs_first({time}, {0})",
        sqlite=SqlFunction("obs_first", 2, _First),
    ),
    _aggregate(
        "last",
        Family.ANY,
        Result.FIRST,
        "The value of the latest row that has one.",
        "obs_last({time}, {0})",
        sqlite=SqlFunction("obs_last", 2, _Last),
    ),
    _aggregate(
        "stddev",
        Family.NUMBER,
        Result.MEAN,
        "The standard deviation of a sample; null for fewer than two values.",
        sqlite=SqlFunction("obs_stddev", 1, _StandardDeviation),
    ),
    _percentile_of("median", 50, "The middle value; the same as p50."),
    *(
        _percentile_of(f"p{each}", each, f"The {each}th percentile, interpolated between the two nearest values.")
        for each in PERCENTS
    ),
    Function(
        "percentile",
        (Family.NUMBER, Family.PERCENT),
        Result.MEAN,
        "Any percentile: `percentile(duration_ms, 99.9)`.",
        "obs_percentile({0}, {fraction})",
        _EXACT,
        aggregate=True,
    ),
    *(_percentile_of(f"approx_p{each}", each, f"The same as p{each}; an older name.") for each in PERCENTS),
    Function(
        "rate",
        (Family.AGGREGATE, Family.LENGTH),
        Type.NUMBER,
        "An aggregate per unit of time: `rate(count(*), 1m)`.",
        "({0} * {rate})",
        aggregate=True,
    ),
)
