"""Scalar functions, and the operators that SQLite does not have. NULL gives NULL.

Matching takes time proportional to the length of the text, whatever the pattern.
"""

import json
import math
import operator
import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import re2  # type: ignore[import-untyped]

from obs.query.language.functions.definition import Family, Function, Number, Result, SqlFunction
from obs.sources import Type
from obs.times import WEEK_MS

_ALWAYS_INTEGER = 2**53
"""From here on, a float has no fraction."""
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)
_STEP = re.compile(r"""\.(?:([^."\[\]]+)|"([^"]*)")|\[(\d{1,9})\]""", re.ASCII)
_CLOCK = f"(CAST({{local}} AS INTEGER) + {200_000 * WEEK_MS})"
"""The local time, and whole weeks: 3,800 years. The sum is positive, as % in SQL needs it. 1970-01-01 was day 4."""


def _round(value: Number | None, digits: int = 0) -> Number | None:
    """Round halves away from zero, as SQL does."""
    if value is None or (isinstance(value, int) and digits >= 0) or not math.isfinite(value):
        return value
    scale = 10.0 ** max(-300, min(digits, 300))
    scaled = abs(value) * scale
    if not math.isfinite(scaled) or scaled >= _ALWAYS_INTEGER:
        return value
    return math.copysign(math.floor(scaled + 0.5) / scale, value) + 0.0  # never -0.0


def _to_integer(rounding: Callable[[Number], int]) -> Callable[[Number | None], Number | None]:
    def rounded(value: Number | None) -> Number | None:
        if value is None or isinstance(value, int) or abs(value) >= _ALWAYS_INTEGER or not math.isfinite(value):
            return value
        return rounding(value)

    return rounded


def _bin(value: Number | None, width: Number) -> Number | None:
    if value is None or not math.isfinite(value):
        return None
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
        value = json.loads(text)
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
        reason = error.args[0] if error.args else "RE2 cannot read it"
        raise ValueError(reason.decode() if isinstance(reason, bytes) else str(reason)) from error


def _extract(text: str, pattern: str) -> str | None:
    expression = regular_expression(pattern)
    match = expression.search(text)
    return None if match is None else match[min(1, expression.groups)]


def _of_texts(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *texts: None if None in texts else function(*texts)


def _python(
    name: str,
    takes: tuple[Family, ...],
    type_: Type | Result,
    about: str,
    python: Callable[..., Any],
    optional: int = 0,
) -> Function:
    sqlite = SqlFunction(f"obs_{name}", -1, python)
    return Function(name, takes, type_, about, f"{sqlite.name}({{arguments}})", sqlite, optional=optional)


def _of_time(name: str, type_: Type, description: str, sql: str) -> Function:
    return Function(name, (Family.TIME,), type_, description, sql)


def case_sql(*branches: str) -> str:
    """CASE: condition, value, condition, value..., value of ELSE. A CASE in ELSE is merged: SQLite limits nesting."""
    *pairs, otherwise = branches
    conditions_and_values = zip(pairs[::2], pairs[1::2], strict=True)
    cases = " ".join(f"WHEN {condition} THEN {value}" for condition, value in conditions_and_values)
    if otherwise.startswith("CASE WHEN "):
        return f"CASE {cases} {otherwise.removeprefix('CASE ')}"
    return f"CASE {cases} ELSE {otherwise} END"


_EXTRACT = "What the first group matches, or the whole expression without a group; null without a match."
_JSON = (
    "What JSON has at a path such as `'$.list[0].name'`, as a text; null where there is nothing, and for other texts."
)
_BIN = "Where the bin with the value begins: the largest multiple of the width that is not above it."
_ROUND = "The nearest whole number, or rounded to n digits."
_FLOOR = "The value rounded down to a whole number."
_CONCAT = "The texts, one after the other; null if one of them is null."
_COALESCE = "The first argument that is not null."
_IF = "The second argument if the condition is true, else the third."
_WEEKDAY = "The day of the week, 1 (Monday) to 7 (Sunday), in TIMEZONE."
_DATE = "The day as a text such as `2026-06-21`, in TIMEZONE."
SCALARS = (
    Function("abs", (Family.NUMBER,), Result.FIRST, "The value without its sign.", "abs({0})"),
    _python("round", (Family.NUMBER, Family.DIGITS), Result.FIRST, _ROUND, _round, optional=1),
    _python("floor", (Family.NUMBER,), Result.FIRST, _FLOOR, _to_integer(math.floor)),
    _python("ceil", (Family.NUMBER,), Result.FIRST, "The value rounded up to a whole number.", _to_integer(math.ceil)),
    _python("lower", (Family.TEXT,), Type.TEXT, "The text in lower case.", _of_texts(str.lower)),
    _python("upper", (Family.TEXT,), Type.TEXT, "The text in upper case.", _of_texts(str.upper)),
    _python("length", (Family.TEXT,), Type.INTEGER, "The number of characters.", _of_texts(len)),
    _python("extract", (Family.TEXT, Family.REGEX), Type.TEXT, _EXTRACT, _of_texts(_extract)),
    _python("json", (Family.TEXT, Family.PATH), Type.TEXT, _JSON, _of_texts(_json)),
    _python("number", (Family.TEXT,), Type.NUMBER, "The text as a number; null if it is none.", _of_texts(_number)),
    _python("histogram", (Family.NUMBER, Family.WIDTH), Result.MEAN, _BIN, _bin),
    Function("concat", (Family.TEXT,), Type.TEXT, _CONCAT, lambda *texts: f"({' || '.join(texts)})", repeats=True),
    Function("coalesce", (Family.ANY,), Result.COMMON, _COALESCE, "coalesce({arguments}, NULL)", repeats=True),
    Function("if", (Family.CONDITION, Family.ANY, Family.ANY), Result.COMMON, _IF, case_sql),
    _of_time("hour", Type.INTEGER, "The hour of the day, 0 to 23, in TIMEZONE.", f"({_CLOCK} / 3600000 % 24)"),
    _of_time("weekday", Type.INTEGER, _WEEKDAY, f"(({_CLOCK} / 86400000 + 3) % 7 + 1)"),
    _of_time("date", Type.TEXT, _DATE, "strftime('%Y-%m-%d', CAST({local} AS INTEGER) / 1000, 'unixepoch')"),
)


# Operators


@lru_cache(256)
def _like(pattern: str, escape: str, *, ignore_case: bool) -> re.Pattern[str]:
    """A LIKE pattern as a regular expression that never backtracks: it searches each part once, from the left."""
    pieces: list[list[str]] = [[]]
    for piece in re.findall(f"(?s:(?:{re.escape(escape)})?.)", pattern):
        if piece == "%":
            pieces.append([])
        else:
            pieces[-1].append("." if piece == "_" else re.escape(piece[-1]))
    first, *rest = map("".join, pieces)
    parts = [first, *(f"(?>.*?{part})" for part in rest[:-1])]
    if rest:
        # The last part has to match at the end. Its length is known, and so is its place.
        length = len(pieces[-1])
        parts.append(f"(?>.*(?=.{{{length}}}\\Z)){rest[-1]}" if length else ".*")
    return re.compile("".join(parts) + r"\Z", re.DOTALL | (re.IGNORECASE if ignore_case else 0))


def like(text: str | None, pattern: str, escape: str, *, ignore_case: bool = False) -> bool | None:
    """LIKE, and ILIKE, which ignores case: ``%`` is any text, ``_`` any character, but not after `escape`."""
    return None if text is None else _like(pattern, escape, ignore_case=ignore_case).match(text) is not None


def matches(text: str | None, pattern: str) -> bool | None:
    """``=~``: whether a regular expression matches anywhere in the text."""
    return None if text is None else regular_expression(pattern).search(text) is not None


def _remainder(left: Number | None, right: Number | None) -> Number | None:
    """``%``: the rest of a division that rounds towards 0, with the sign of `left`; null for a division by 0."""
    if left is None or not right or not math.isfinite(left):
        return None
    if isinstance(left, int) and isinstance(right, int):
        return abs(left) % abs(right) * (-1 if left < 0 else 1)
    return math.fmod(left, right)


OPERATORS = (
    SqlFunction("obs_like", 3, like),
    SqlFunction("obs_ilike", 3, partial(like, ignore_case=True)),
    SqlFunction("obs_matches", 2, matches),
    SqlFunction("obs_contains", 2, _of_texts(operator.contains)),
    SqlFunction("obs_starts_with", 2, _of_texts(str.startswith)),
    SqlFunction("obs_remainder", 2, _remainder),
)
