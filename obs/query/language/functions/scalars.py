"""Scalar functions: one value for each row."""

import math
from collections.abc import Callable
from typing import Any

from obs.query.language.functions.definition import Family, Function, Result, SqlFunction
from obs.sources import Type
from obs.times import WEEK_MS

Number = int | float
_ALWAYS_INTEGER = 2**53
"""From here on, a float has no fraction."""
_WEEKS_MS = 200_000 * WEEK_MS
"""Whole weeks, 3,800 years. A time before 1970 plus these is positive, as % in SQL needs it. 1970-01-01 was day 4."""


def _round(value: Number | None, digits: int = 0) -> Number | None:
    """Round halves away from zero, as SQL does."""
    if value is None or (isinstance(value, int) and digits >= 0) or not math.isfinite(value):
        return value
    scale = 10.0 ** max(-300, min(digits, 300))
    scaled = abs(value) * scale
    if not math.isfinite(scaled) or scaled >= _ALWAYS_INTEGER:
        return value
    return math.copysign(math.floor(scaled + 0.5) / scale, value)


def _to_integer(rounding: Callable[[Number], int]) -> Callable[[Number | None], Number | None]:
    def rounded(value: Number | None) -> Number | None:
        if value is None or isinstance(value, int) or abs(value) >= _ALWAYS_INTEGER or not math.isfinite(value):
            return value
        return rounding(value)

    return rounded


def _of_text(function: Callable[[str], Any]) -> Callable[[str | None], Any]:
    return lambda text: None if text is None else function(text)


def _python(name: str, family: Family, type_: Type | Result, description: str, python: Callable[..., Any]) -> Function:
    """A function of one argument that SQLite does not have, or not for all of Unicode."""
    return Function(name, (family,), type_, description, sqlite=SqlFunction(f"obs_{name}", 1, python))


def case_sql(*branches: str) -> str:
    """CASE: condition, value, condition, value..., value of ELSE.

    If the value of ELSE is a CASE too, both become one, because SQLite's parser limits nesting.
    """
    *pairs, otherwise = branches
    conditions_and_values = zip(pairs[::2], pairs[1::2], strict=True)
    cases = " ".join(f"WHEN {condition} THEN {value}" for condition, value in conditions_and_values)
    if otherwise.startswith("CASE WHEN "):
        return f"CASE {cases} {otherwise.removeprefix('CASE ')}"
    return f"CASE {cases} ELSE {otherwise} END"


SCALARS = (
    Function("abs", (Family.NUMBER,), Result.FIRST, "The value without its sign.", "abs({0})"),
    Function(
        "round",
        (Family.NUMBER, Family.DIGITS),
        Result.FIRST,
        "The nearest whole number, or rounded to n digits.",
        sqlite=SqlFunction("obs_round", -1, _round),
        optional=1,
    ),
    _python(
        "floor",
        Family.NUMBER,
        Result.FIRST,
        "The largest whole number that is not above the value.",
        _to_integer(math.floor),
    ),
    _python(
        "ceil",
        Family.NUMBER,
        Result.FIRST,
        "The smallest whole number that is not below the value.",
        _to_integer(math.ceil),
    ),
    _python("lower", Family.TEXT, Type.TEXT, "The text in lower case.", _of_text(str.lower)),
    _python("upper", Family.TEXT, Type.TEXT, "The text in upper case.", _of_text(str.upper)),
    _python("length", Family.TEXT, Type.INTEGER, "The number of characters.", _of_text(len)),
    Function(
        "coalesce",
        (Family.ANY,),
        Result.COMMON,
        "The first argument that is not null.",
        "coalesce({arguments}, NULL)",
        repeats=True,
    ),
    Function(
        "if",
        (Family.CONDITION, Family.ANY, Family.ANY),
        Result.COMMON,
        "The second argument if the condition is true, else the third.",
        case_sql,
    ),
    Function(
        "hour",
        (Family.TIME,),
        Type.INTEGER,
        "The hour of the day, 0 to 23, in TIMEZONE.",
        f"((CAST({{local}} AS INTEGER) + {_WEEKS_MS}) / 3600000 % 24)",
    ),
    Function(
        "weekday",
        (Family.TIME,),
        Type.INTEGER,
        "The day of the week, 1 (Monday) to 7 (Sunday), in TIMEZONE.",
        f"(((CAST({{local}} AS INTEGER) + {_WEEKS_MS}) / 86400000 + 3) % 7 + 1)",
    ),
    Function(
        "date",
        (Family.TIME,),
        Type.TEXT,
        "The day as a text such as `2026-06-21`, in TIMEZONE.",
        "strftime('%Y-%m-%d', CAST({local} AS INTEGER) / 1000, 'unixepoch')",
    ),
)
