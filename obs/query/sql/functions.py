"""The functions that SQLite lacks, in Python. None can run long on one row: texts are at most 1 MB."""

import math
import re
import sqlite3
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any
from zoneinfo import ZoneInfo

from obs.query.language.patterns import ilike, like, regular_expression
from obs.query.sql.percentiles import Number, merged_neighbours, merged_percentile, percentile
from obs.query.sql.sketch import Sketch, stand_in
from obs.storage.packed import unpack
from obs.times import offset_ms

PERMITTED = frozenset(
    re.findall(
        r"\w+",
        "abs avg char coalesce count instr match max min nullif strftime sum obs_approximate_percentile obs_bucket "
        "obs_ceil obs_contains obs_first obs_floor obs_ilike obs_last obs_length obs_like obs_local obs_lower "
        "obs_matches obs_merged_approximate_percentile obs_merged_percentile obs_percentile obs_remainder obs_round "
        "obs_starts_with obs_stddev obs_upper",
    )
)
"""Every function that a compiled statement may call."""


class _ApproximatePercentile:
    """A percentile out of a sketch."""

    def __init__(self) -> None:
        self.sketch = Sketch()
        self.fraction = 0.0

    def step(self, value: Number | None, fraction: float) -> None:
        if value is not None:
            self.sketch.add(value)
        self.fraction = fraction

    def finalize(self) -> float | None:
        return self.sketch.percentile(self.fraction)


class _Merged:
    """Of values as they are and of blobs of sorted ones, in any order. See obs.storage.packed."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self.sorted: list[Sequence[int]] = []
        self.fraction = 0.0

    def step(self, value: int | bytes | None, fraction: float) -> None:
        if isinstance(value, bytes):
            self.sorted.append(unpack(value))
        elif value is not None:
            self.values.append(value)
        self.fraction = fraction

    def all_sorted(self) -> list[Sequence[int]]:
        return [*self.sorted, sorted(self.values)] if self.values else self.sorted


class _MergedPercentile(_Merged):
    """The exact percentile."""

    def finalize(self) -> Number | None:
        return merged_percentile(self.all_sorted(), self.fraction)


class _MergedApproximatePercentile(_Merged):
    """What a sketch of all the values would say."""

    def finalize(self) -> Number | None:
        values = self.all_sorted()
        count = sum(map(len, values))
        if not count:
            return None
        low, _ = merged_neighbours(values, math.floor(self.fraction * (count - 1)))
        return stand_in(low)


class _StandardDeviation:
    """Of a sample, by Welford's method: one pass, no cancellation."""

    def __init__(self) -> None:
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
    """The value that is not null of the earliest row."""

    def __init__(self) -> None:
        self.time: Number | None = None
        self.value: Any = None

    def is_better(self, time: Number, known: Number) -> bool:
        return time < known

    def step(self, time: Number | None, value: Any) -> None:
        if value is not None and time is not None and (self.time is None or self.is_better(time, self.time)):
            self.time, self.value = time, value

    def finalize(self) -> Any:
        return self.value


class _Last(_First):
    """The value that is not null of the latest row; of equally late ones the last that was read."""

    def is_better(self, time: Number, known: Number) -> bool:
        return time >= known


def _matches(text: str | None, pattern: str) -> bool | None:
    return None if text is None else regular_expression(pattern).search(text) is not None


def _contains(text: str | None, part: str | None) -> bool | None:
    return None if text is None or part is None else part in text


def _starts_with(text: str | None, start: str | None) -> bool | None:
    return None if text is None or start is None else text.startswith(start)


def _round(value: Number | None, digits: int = 0) -> Number | None:
    """Halves go away from zero, as people and SQL round, not to the even neighbour."""
    if value is None or (isinstance(value, int) and digits >= 0) or not math.isfinite(value):
        return value
    scale = 10.0 ** max(-300, min(digits, 300))
    scaled = abs(value) * scale
    if not math.isfinite(scaled) or scaled >= 2**53:
        return value
    return math.copysign(math.floor(scaled + 0.5) / scale, value)


def _whole(rounding: Callable[[Number], int]) -> Callable[[Number | None], Number | None]:
    def whole(value: Number | None) -> Number | None:
        if value is None or isinstance(value, int) or abs(value) >= 2**53 or not math.isfinite(value):
            return value
        return rounding(value)

    return whole


def _remainder(left: Number | None, right: Number | None) -> Number | None:
    if left is None or not right or not math.isfinite(left):
        return None
    return math.fmod(left, right)


def _text(change: Callable[[str], Any]) -> Callable[[str | None], Any]:
    return lambda text: None if text is None else change(text)


def register(
    connection: sqlite3.Connection,
    zone: ZoneInfo | None,
    timelines: Sequence[Sequence[int]],
    is_over: Callable[[], bool],
) -> None:
    """Make the functions known to a connection; `zone` is that of its statement, `timelines` are starts of buckets.

    `is_over` says whether the statement has used up what it may.
    """

    def local(moment: Number | None) -> int | None:
        if moment is None:
            return None
        assert zone is not None
        try:
            return int(moment) + offset_ms(int(moment), zone)
        except OverflowError:  # before the year 1 or after 9999
            return None

    def bucket(timeline: int, moment: int) -> int:
        return bisect_right(timelines[timeline], moment) - 1

    class Percentile:
        """Keeps all values."""

        def __init__(self) -> None:
            self.values: list[Number] = []
            self.fraction = 0.0

        def step(self, value: Number | None, fraction: float) -> None:
            if value is not None:
                self.values.append(value)
            self.fraction = fraction

        def finalize(self) -> Number | None:
            return percentile(self.values, self.fraction, is_over)

    functions: list[tuple[str, int, Callable[..., Any]]] = [
        ("obs_like", 2, like),
        ("obs_ilike", 2, ilike),
        ("obs_matches", 2, _matches),
        ("obs_contains", 2, _contains),
        ("obs_starts_with", 2, _starts_with),
        ("obs_round", -1, _round),
        ("obs_floor", 1, _whole(math.floor)),
        ("obs_ceil", 1, _whole(math.ceil)),
        ("obs_remainder", 2, _remainder),
        ("obs_lower", 1, _text(str.lower)),
        ("obs_upper", 1, _text(str.upper)),
        ("obs_length", 1, _text(len)),
        ("obs_local", 1, local),
        ("obs_bucket", 2, bucket),
    ]
    for name, arguments, function in functions:
        connection.create_function(name, arguments, function, deterministic=True)
    aggregates: list[tuple[str, int, Any]] = [
        ("obs_percentile", 2, Percentile),
        ("obs_approximate_percentile", 2, _ApproximatePercentile),
        ("obs_merged_percentile", 2, _MergedPercentile),
        ("obs_merged_approximate_percentile", 2, _MergedApproximatePercentile),
        ("obs_stddev", 1, _StandardDeviation),
        ("obs_first", 2, _First),
        ("obs_last", 2, _Last),
    ]
    for name, arguments, aggregate in aggregates:
        connection.create_aggregate(name, arguments, aggregate)
