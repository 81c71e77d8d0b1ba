"""Aggregates: one value for each group of rows."""

import math
from collections.abc import Callable
from typing import Any

from obs.query.language.functions.definition import Family, Function, Result, SqlFunction
from obs.query.language.functions.percentiles import Number, Sketch, percentile
from obs.sources import Type

PERCENTS = (50, 75, 90, 95, 99)
"""The percentiles that have functions of their own: p50, approx_p50..."""

IsOver = Callable[[], bool]


class _Percentile:
    """An exact percentile. It keeps all values."""

    def __init__(self, is_over: IsOver) -> None:
        self.is_over = is_over
        self.values: list[Number] = []
        self.fraction = 0.0

    def step(self, value: Number | None, fraction: float) -> None:
        if value is not None:
            self.values.append(value)
        self.fraction = fraction

    def finalize(self) -> Number | None:
        return percentile(self.values, self.fraction, self.is_over)


class _ApproximatePercentile:
    """A percentile from a sketch."""

    def __init__(self, _is_over: IsOver) -> None:
        self.sketch = Sketch()
        self.fraction = 0.0

    def step(self, value: Number | None, fraction: float) -> None:
        if value is not None:
            self.sketch.add(value)
        self.fraction = fraction

    def finalize(self) -> float | None:
        return self.sketch.percentile(self.fraction)


class _StandardDeviation:
    """The standard deviation of a sample, by Welford's method: in one pass, without cancellation."""

    def __init__(self, _is_over: IsOver) -> None:
        self.count = 0
        self.mean = 0.0
        self.squares = 0.0

    def step(self, value: Number | None) -> None:
        if value is None:
            return
        self.count += 1
        distance = value - self.mean
        self.mean += distance / self.count
        self.squares += distance * (value - self.mean)

    def finalize(self) -> float | None:
        return None if self.count < 2 else math.sqrt(max(self.squares, 0.0) / (self.count - 1))


class _First:
    """The value of the earliest row in which it is not null."""

    def __init__(self, _is_over: IsOver) -> None:
        self.time: Number | None = None
        self.value: Any = None

    def replaces(self, time: Number, known: Number) -> bool:
        return time < known

    def step(self, time: Number | None, value: Any) -> None:
        if value is not None and time is not None and (self.time is None or self.replaces(time, self.time)):
            self.time, self.value = time, value

    def finalize(self) -> Any:
        return self.value


class _Last(_First):
    """The value of the latest row in which it is not null; among rows of the same time, the one read last."""

    def replaces(self, time: Number, known: Number) -> bool:
        return time >= known


_EXACT = SqlFunction("obs_percentile", 2, _Percentile)
_APPROXIMATE = SqlFunction("obs_approximate_percentile", 2, _ApproximatePercentile)


def _aggregate(
    name: str, parameter: Family, result: Type | Result, description: str, sql: str = "", **options: Any
) -> Function:
    return Function(name, (parameter,), result, description, sql, aggregate=True, **options)


def _percentile_of(name: str, percent: int, description: str, python: SqlFunction = _EXACT) -> Function:
    sql = f"{python.name}({{0}}, {{fraction}})"
    return _aggregate(name, Family.NUMBER, Result.MEAN, description, sql, sqlite=python, percent=percent)


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
    *(
        _percentile_of(
            f"approx_p{each}", each, f"The {each}th percentile, accurate to 1 %, using little memory.", _APPROXIMATE
        )
        for each in PERCENTS
    ),
    Function(
        "rate",
        (Family.AGGREGATE, Family.LENGTH),
        Type.NUMBER,
        "An aggregate per unit of time: `rate(count(*), 1m)`.",
        "({0} * {rate})",
        aggregate=True,
    ),
)
