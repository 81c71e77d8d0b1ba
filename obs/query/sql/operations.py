"""Operators and scalar functions to SQL: one writer for each."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from obs.query.language.functions import FUNCTIONS
from obs.query.language.plan import Apply, Checked, Plan
from obs.sources import Type
from obs.times import WEEK_MS


class Expressions(Protocol):
    """What writes the operands: `obs.query.writing.Writer`."""

    plan: Plan

    def expression(self, expression: Checked) -> str:
        """An expression, in parentheses where it needs them."""

    def raw(self, expression: Checked) -> str:
        """An expression, as it is stored."""

    def enumerated(self, expression: Apply) -> str | None:
        """A comparison of a column of `values`, as one of stored numbers."""


def _chain(sql: Expressions, expression: Apply) -> str:
    """AND and OR of many, as a balanced tree: SQLite walks at most 1,000 levels."""
    parts = [sql.expression(argument) for argument in expression.arguments]
    if _depth(parts) > _SHALLOW:
        parts.sort(key=lambda part: _depth([part]), reverse=True)
    word = f" {expression.name.upper()} "
    while len(parts) > 2:
        parts = [
            f"({word.join(pair)})" if len(pair) > 1 else pair[0]
            for pair in (parts[index : index + 2] for index in range(0, len(parts), 2))
        ]
    return word.join(parts)


_SHALLOW = 10


def _depth(parts: Sequence[str]) -> int:
    """How deep parentheses are nested in the deepest of `parts`.

    SQLite's parser keeps at most 100 things in mind. An opening parenthesis is one of them, what stands left of it two
    or three more: where nesting is deep, what is deepest is written first.
    """
    deepest = 0
    for part in parts:
        level = 0
        for bracket in re.findall(r"[()]", part):
            level += 1 if bracket == "(" else -1
            deepest = max(deepest, level)
    return deepest


_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<=", "+": "+", "*": "*"}


def _infix(sql: Expressions, expression: Apply) -> str:
    left, right = (sql.expression(argument) for argument in expression.arguments)
    if expression.name in _MIRRORED and (depth := _depth([right])) > _SHALLOW and depth > _depth([left]):
        return f"{right} {_MIRRORED[expression.name]} {left}"
    return f"{left} {expression.name} {right}"


def _compare(sql: Expressions, expression: Apply) -> str:
    return sql.enumerated(expression) or _infix(sql, expression)


def _in(sql: Expressions, expression: Apply) -> str:
    stored = sql.enumerated(expression)
    if stored is not None:
        return stored
    value, *others = (sql.expression(argument) for argument in expression.arguments)
    return f"{value} {expression.name.upper()} ({', '.join(others)})"


def _between(sql: Expressions, expression: Apply) -> str:
    value, low, high = (sql.expression(argument) for argument in expression.arguments)
    return f"{value} {expression.name.upper()} {low} AND {high}"


def _is_null(sql: Expressions, expression: Apply) -> str:
    return f"{sql.raw(expression.arguments[0])} {expression.name.upper()}"


def _call(name: str) -> Callable[[Expressions, Apply], str]:
    def write(sql: Expressions, expression: Apply) -> str:
        return f"{name}({', '.join(sql.expression(argument) for argument in expression.arguments)})"

    return write


def _match(name: str, *, negated: bool = False) -> Callable[[Expressions, Apply], str]:
    write = _call(name)
    return (lambda sql, expression: f"NOT {write(sql, expression)}") if negated else write


def _divide(sql: Expressions, expression: Apply) -> str:
    left, right = (sql.expression(argument) for argument in expression.arguments)
    return f"CAST({left} AS REAL) / {right}"


def _remainder(sql: Expressions, expression: Apply) -> str:
    left, right = (sql.expression(argument) for argument in expression.arguments)
    if Type.NUMBER in (argument.type for argument in expression.arguments):
        return f"obs_remainder({left}, {right})"
    return f"{left} % {right}"


def _case(sql: Expressions, expression: Apply) -> str:
    *pairs, otherwise = (sql.expression(argument) for argument in expression.arguments)
    cases = " ".join(f"WHEN {pairs[index]} THEN {pairs[index + 1]}" for index in range(0, len(pairs), 2))
    return f"CASE {cases} ELSE {otherwise} END"


def _coalesce(sql: Expressions, expression: Apply) -> str:
    values = [sql.expression(argument) for argument in expression.arguments]
    return f"coalesce({', '.join([*values, 'NULL'])})"


def _if(sql: Expressions, expression: Apply) -> str:
    condition, yes, no = (sql.expression(argument) for argument in expression.arguments)
    return f"CASE WHEN {condition} THEN {yes} ELSE {no} END"


_WEEKS_MS = 200_000 * WEEK_MS
"""Whole weeks, 3,800 years: added to a time before 1970 they make it positive, so that % counts the right way."""


def _clock(sql: Expressions, expression: Apply) -> str:
    """hour, weekday and date, by the clocks of TIMEZONE. 1970-01-01 was a Thursday, day 4 of the week."""
    time = sql.expression(expression.arguments[0])
    if sql.plan.timezone is not None:
        time = f"obs_local({time})"
    match expression.name:
        case "hour":
            return f"(CAST({time} AS INTEGER) + {_WEEKS_MS}) / 3600000 % 24"
        case "weekday":
            return f"((CAST({time} AS INTEGER) + {_WEEKS_MS}) / 86400000 + 3) % 7 + 1"
    return f"strftime('%Y-%m-%d', CAST({time} AS INTEGER) / 1000, 'unixepoch')"


OPERATIONS: Mapping[str, Callable[[Expressions, Apply], str]] = {
    **dict.fromkeys(("and", "or"), _chain),
    **dict.fromkeys(("=", "!=", "<", "<=", ">", ">="), _compare),
    **dict.fromkeys(("in", "not in"), _in),
    **dict.fromkeys(("between", "not between"), _between),
    **dict.fromkeys(("is null", "is not null"), _is_null),
    **dict.fromkeys(("+", "-", "*"), _infix),
    **dict.fromkeys(("hour", "weekday", "date"), _clock),
    "/": _divide,
    "%": _remainder,
    "not": lambda sql, expression: f"NOT {sql.expression(expression.arguments[0])}",
    "negative": lambda sql, expression: f"- {sql.expression(expression.arguments[0])}",
    "now": lambda _sql, _expression: ":now",
    "case": _case,
    "if": _if,
    "coalesce": _coalesce,
    "contains": _match("obs_contains"),
    "not contains": _match("obs_contains", negated=True),
    "starts with": _match("obs_starts_with"),
    "not starts with": _match("obs_starts_with", negated=True),
    "like": _match("obs_like"),
    "not like": _match("obs_like", negated=True),
    "ilike": _match("obs_ilike"),
    "not ilike": _match("obs_ilike", negated=True),
    "=~": _match("obs_matches"),
    "!~": _match("obs_matches", negated=True),
    **{name: _call(f"obs_{name}") for name in ("round", "floor", "ceil", "lower", "upper", "length")},
    "abs": _call("abs"),
}

CLOSED = frozenset(name for name in FUNCTIONS if name not in ("hour", "weekday")) | {"case"}
"""What is written as a call or up to an END, and needs no parentheses around it."""
