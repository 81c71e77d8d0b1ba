"""The functions of OQL: one table for the checker, the SQL compiler, the query connections and the reference."""

import json
import math
import re
from array import array
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from enum import Enum, auto
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, NamedTuple

import re2  # type: ignore[import-untyped]

from obs.sources import Type
from obs.storage.packed import together, with_ranks
from obs.times import WEEK_MS

Number = int | float
NUMERIC = frozenset({Type.INTEGER, Type.NUMBER, Type.DURATION})


class Family(Enum):
    """What an argument may be: the text with which errors and the reference name it, and its types."""

    ANY = ("anything", frozenset(Type))
    NUMBER = ("a number or a duration", NUMERIC)
    ORDERED = ("a number, a duration, a time or a text", NUMERIC | {Type.TIME, Type.TEXT})
    TEXT = ("a text", {Type.TEXT})
    TIME = ("a time", {Type.TIME})
    CONDITION = ("a condition", {Type.BOOLEAN})
    DIGITS = ("a whole number", {Type.INTEGER})
    PERCENT = ("a number from 0 to 100", {Type.INTEGER, Type.NUMBER})
    AGGREGATE = ("an aggregate", NUMERIC)
    LENGTH = ("a duration", {Type.DURATION})
    WIDTH = ("a width above 0", NUMERIC)
    REGEX = ("a regular expression of RE2", {Type.TEXT})
    PATH = ("a path such as '$.list[0]'", {Type.TEXT})

    def __init__(self, text: str, types: Set[Type]) -> None:
        self.text, self.types = text, types


class Result(Enum):
    """The type of a result that depends on the arguments."""

    FIRST = auto()  # that of the first argument
    MEAN = auto()  # that of the first argument, and a number for an integer
    COMMON = auto()  # the common type of all arguments of Family.ANY; a text among times is read as a time


class SqlFunction(NamedTuple):
    """A function that SQLite does not have.

    `python` gets stored values, None for NULL. For an aggregate it is a class with step(*arguments) and finalize(). A
    query can only be stopped within it by killing the process.
    """

    name: str
    python: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Function:
    """A function of OQL.

    `sql` is a call or an expression in parentheses, or a function of the arguments' SQL. In it, ``{0}``, ``{1}``...
    stand for the arguments, ``{arguments}`` for all of them, and

    - ``{local}``: for a scalar, the first argument, a time, shifted by the offset of TIMEZONE from UTC,
    - ``{distinct}``, ``{time}``: for an aggregate, DISTINCT, where it may have that, and the time of the row,
    - ``{fractions}``: the percentage, or as JSON all those of the statement, divided by 100,
    - ``{covered}``: the time that one row of the result covers, in milliseconds.
    """

    name: str
    parameters: tuple[Family, ...]
    result: Type | Result
    sql: str | Callable[..., str]
    sqlite: SqlFunction | None = None  # what the SQL calls, if SQLite does not have it
    aggregate: bool = False
    optional: int = 0  # how many of the last arguments may be left out
    repeats: bool = False  # whether the last argument may follow any number of times
    counts: bool = False  # whether it may have ``*``, and the number that is stored for a text does as well as the text
    percent: float | None = None  # of p50 and the like

    def write(self, *arguments: str, **fields: str) -> str:
        """The SQL of a call, whose `arguments` and `fields` are SQL."""
        if callable(self.sql):
            return self.sql(*arguments)
        return self.sql.format(*arguments, arguments=", ".join(arguments), **fields)


def percentile(values: Sequence[Number], blobs: Sequence[bytes], fractions: float | str) -> Number | str | None:
    """The percentile at a fraction (0 to 1), interpolated between the two nearest values (percentile_cont in SQL), or
    for a list of fractions as JSON, a list of percentiles as JSON.

    It is that of single `values` and of packed whole numbers together. None if there are none.
    """
    every = together(values, blobs)
    last = len(every) - 1
    if last < 0:
        return None
    positions = [each * last for each in (json.loads(fractions) if isinstance(fractions, str) else [fractions])]
    ranks = sorted({round_(position) for position in positions for round_ in (math.floor, math.ceil)})
    at, found = dict(zip(ranks, with_ranks(every, *ranks), strict=True)), []
    for position in positions:
        low, high = at[math.floor(position)], at[math.ceil(position)]
        found.append(low if low == high else low + (high - low) * (position - math.floor(position)))
    return json.dumps(found) if isinstance(fractions, str) else found[0]


def _standard_deviation(values: Sequence[Number], _: Sequence[bytes]) -> float | None:
    """The standard deviation of a sample, in two passes, so that there is no cancellation."""
    if len(values) < 2:
        return None
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) * (value - mean) for value in values) / (len(values) - 1))


def deviation(count: int | None, total: int, squares_high: int, squares_low: int) -> float | None:
    """The standard deviation of whole numbers, without rounding; the sum of squares is in units of 2^32 and of 1."""
    squares = (squares_high or 0) * 2**32 + (squares_low or 0)
    return math.sqrt(max(0, count * squares - total * total) / (count * (count - 1))) if count and count > 1 else None


class _Collected:
    """What `of` returns for all single values, which take 8 bytes each, and the packed values of cells of rollups."""

    def __init__(self, of: Callable[..., Any]) -> None:
        self.of = of
        self.arguments: tuple[float, ...] = ()
        self.values: Any = array("q")
        self.blobs: list[bytes] = []

    def step(self, value: Number | bytes | None, *arguments: float) -> None:
        self.arguments = arguments
        if isinstance(value, bytes):
            self.blobs.append(value)
        elif value is not None:
            if isinstance(value, float) and isinstance(self.values, array):
                self.values = list(self.values)
            self.values.append(value)

    def finalize(self) -> Any:
        return self.of(self.values, self.blobs, *self.arguments)


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


class _Covered:
    """How long at least one of the periods lasts: what several have in common counts once."""

    def __init__(self) -> None:
        self.periods: list[tuple[Number, Number]] = []

    def step(self, start: Number | None, end: Number | None) -> None:
        if start is not None and end is not None:
            self.periods.append((start, end))

    def finalize(self) -> Number | None:
        total, until = None, -math.inf
        for start, end in sorted(self.periods):
            total = (total or 0) + max(0, end - max(start, until))
            until = max(until, end)
        return total


_ALWAYS_INTEGER = 2**53  # from here on, a float has no fraction
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)
_STEP = re.compile(r"""\.(?:([^."\[\]]+)|"([^"]*)")|\[(\d{1,9})\]""", re.ASCII)
_CLOCK = f"(CAST({{local}} AS INTEGER) + {200_000 * WEEK_MS})"
"""The local time, and whole weeks: 3,800 years. The sum is positive, as % in SQL needs it. 1970-01-01 was day 4."""


def _round(value: Number, digits: int = 0) -> Number:
    """Round halves away from zero, as SQL does."""
    if (isinstance(value, int) and digits >= 0) or not math.isfinite(value):
        return value
    scale = 10.0 ** max(-300, min(digits, 300))
    scaled = abs(value) * scale
    if not math.isfinite(scaled) or scaled >= _ALWAYS_INTEGER / 2:  # from there on, adding 0.5 may add 1
        return value
    return math.copysign(math.floor(scaled + 0.5) / scale, value) + 0.0  # never -0.0


def _to_integer(rounding: Callable[[Number], int]) -> Callable[..., Any]:
    return null_safe(lambda value: rounding(value) if abs(value) < _ALWAYS_INTEGER else value)


def _bin(value: Number | None, width: Number) -> Number | None:
    if value is None or not math.isfinite(value):
        return None
    if isinstance(value + width, float) and abs(value) < _ALWAYS_INTEGER:
        exact = Fraction(str(width))  # 0.1, and not the nearest float
        return float(Fraction(str(value)) // exact * exact)
    start = value // width * width
    return start if abs(start) < 2**63 else float(start)


def _number(text: str) -> Number | None:
    value = float(text) if _NUMBER.fullmatch(text.strip()) else math.nan
    if not math.isfinite(value):
        return None
    return int(value) if value.is_integer() and abs(value) < _ALWAYS_INTEGER else value


@lru_cache(256)
def json_path(path: str) -> list[Any]:
    """The keys and places in a path such as ``$.list[0]``. Raises ValueError with a message for the user."""
    steps = list(_STEP.finditer(path, 1))
    if "$" + "".join(step[0] for step in steps) != path:
        raise ValueError("it begins with $, and then has .key or [0] for each step")
    return [int(step[3]) if step[3] else step[1] or step[2] for step in steps]


def _json(text: str, path: str) -> str | None:
    """A text at the path as it is, and any other value as JSON."""
    try:
        value = json.loads(text, parse_constant=int)  # no NaN: int raises ValueError
        for step in json_path(path):
            value = value[step] if isinstance(value, dict | list) else None
        found = value if isinstance(value, str | None) else json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return found and found.encode(errors="replace").decode()


@lru_cache(256)
def regular_expression(pattern: str) -> Any:
    """Raises ValueError with a message for the user."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise ValueError(error.args[0].decode()) from error


def _extract(text: str, pattern: str) -> str | None:
    expression = regular_expression(pattern)
    match = expression.search(text.encode())  # for a str, it would count the characters before each match
    found = None if match is None else match[min(1, expression.groups)]
    return None if found is None else found.decode()


def null_safe(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with NULL where one of its arguments is that."""
    return lambda *values: None if None in values else function(*values)


def _python(
    name: str, takes: tuple[Family, ...], result: Type | Result, python: Callable[..., Any], sent: str = "", **more: Any
) -> Function:
    """A function that SQLite does not have; `sent` is the SQL of what `python` gets, by default all arguments."""
    sqlite = SqlFunction(f"obs_{name}", python)
    return Function(name, takes, result, f"{sqlite.name}({sent or '{arguments}'})", sqlite, **more)


def case_sql(*branches: str) -> str:
    """CASE: condition, value, condition, value..., value of ELSE. A CASE in ELSE is merged: SQLite limits nesting."""
    *pairs, otherwise = branches
    cases = " ".join(f"WHEN {condition} THEN {value}" for condition, value in zip(pairs[::2], pairs[1::2], strict=True))
    if otherwise.startswith("CASE WHEN "):
        return f"CASE {cases} {otherwise.removeprefix('CASE ')}"
    return f"CASE {cases} ELSE {otherwise} END"


_aggregate = partial(_python, aggregate=True)
_PERCENTILE = _aggregate(
    "percentile", (Family.NUMBER,), Result.MEAN, partial(_Collected, percentile), "{0}, {fractions}"
)
_PERCENTS = (50, 75, 90, 95, 99)  # the percentiles that have functions of their own: p50, approx_p50...
_PER_LENGTH = "({0} * CAST({1} AS REAL) / {covered})"
DAY_SQL = f"({_CLOCK} / 86400000)"  # the number of the day, in the order of days
_DATE_SQL = f"strftime('%Y-%m-%d', {_CLOCK} / 1000 - {200 * WEEK_MS}, 'unixepoch')"
_TABLE = (
    Function("count", (Family.ANY,), Type.INTEGER, "count({distinct}{0})", aggregate=True, counts=True),
    Function("sum", (Family.NUMBER,), Result.FIRST, "sum({distinct}{0})", aggregate=True),
    Function("avg", (Family.NUMBER,), Result.MEAN, "avg({distinct}{0})", aggregate=True),
    Function("min", (Family.ORDERED,), Result.FIRST, "min({0})", aggregate=True),
    Function("max", (Family.ORDERED,), Result.FIRST, "max({0})", aggregate=True),
    Function("any", (Family.ANY,), Result.FIRST, "min({0})", aggregate=True),
    _aggregate("first", (Family.ANY,), Result.FIRST, partial(_Chosen, min), "{time}, {0}"),
    _aggregate("last", (Family.ANY,), Result.FIRST, partial(_Chosen, max), "{time}, {0}"),
    _aggregate("stddev", (Family.NUMBER,), Result.MEAN, partial(_Collected, _standard_deviation)),
    _aggregate("covered", (Family.TIME, Family.TIME), Type.DURATION, _Covered),
    replace(_PERCENTILE, name="median", percent=50),
    replace(_PERCENTILE, parameters=(Family.NUMBER, Family.PERCENT)),
    *(replace(_PERCENTILE, name=f"{kind}{each}", percent=each) for kind in ("p", "approx_p") for each in _PERCENTS),
    Function("rate", (Family.AGGREGATE, Family.LENGTH), Type.NUMBER, _PER_LENGTH, aggregate=True),
    Function("abs", (Family.NUMBER,), Result.FIRST, "abs({0})"),
    _python("round", (Family.NUMBER, Family.DIGITS), Result.FIRST, null_safe(_round), optional=1),
    _python("floor", (Family.NUMBER,), Result.FIRST, _to_integer(math.floor)),
    _python("ceil", (Family.NUMBER,), Result.FIRST, _to_integer(math.ceil)),
    _python("lower", (Family.TEXT,), Type.TEXT, null_safe(str.lower)),
    _python("upper", (Family.TEXT,), Type.TEXT, null_safe(str.upper)),
    _python("length", (Family.TEXT,), Type.INTEGER, null_safe(len)),
    _python("extract", (Family.TEXT, Family.REGEX), Type.TEXT, null_safe(_extract)),
    _python("json", (Family.TEXT, Family.PATH), Type.TEXT, null_safe(_json)),
    _python("number", (Family.TEXT,), Type.NUMBER, null_safe(_number)),
    _python("histogram", (Family.NUMBER, Family.WIDTH), Result.MEAN, _bin),
    Function("concat", (Family.TEXT,), Type.TEXT, lambda *texts: f"({' || '.join(texts)})", repeats=True),
    Function("coalesce", (Family.ANY,), Result.COMMON, "coalesce({arguments}, NULL)", repeats=True),
    Function("if", (Family.CONDITION, Family.ANY, Family.ANY), Result.COMMON, case_sql),
    Function("hour", (Family.TIME,), Type.INTEGER, f"({_CLOCK} / 3600000 % 24)"),
    Function("minute", (Family.TIME,), Type.INTEGER, f"({_CLOCK} / 60000 % 60)"),
    Function("weekday", (Family.TIME,), Type.INTEGER, f"(({_CLOCK} / 86400000 + 3) % 7 + 1)"),
    Function("date", (Family.TIME,), Type.TEXT, _DATE_SQL),
)
FUNCTIONS: Mapping[str, Function] = {function.name: function for function in _TABLE}
