"""Expressions to SQL: a value becomes a bound parameter, a column what its source says of it."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from obs.query.functions import FUNCTIONS
from obs.query.plan import Aggregate, Apply, Checked, Constant, Plan, Read
from obs.query.timeline import Range
from obs.sources import Column, Type
from obs.times import WEEK_MS

Value = str | int | float | None


@dataclass(frozen=True, slots=True)
class Reading:
    """What a plan is read with: the window, the moment, how buckets are told apart, how many rows are wanted at most.

    Buckets are `interval_ms` long and begin at `starts`; where they are not all of one length, ``obs_bucket`` knows
    them by the number `by_clock`. With `group_by_group` the rows of one group are read after those of another, where
    `driver_of` has a column for that. `rate_ms` is the length of time that stands behind one row of the answer.
    """

    window: Range
    now_ms: int
    rate_ms: int
    most_rows: int | None
    interval_ms: int | None = None
    starts: Sequence[int] = ()
    by_clock: int | None = None
    group_by_group: bool = False


@dataclass(slots=True)
class Writer:
    """Writes expressions of a plan, and collects the parameters and the joins that they need.

    With `groups_bound` the groups are parameters: ``:group0``, ``:group1``...
    """

    plan: Plan
    reading: Reading
    groups_bound: bool = False
    parameters: dict[str, Value] = field(default_factory=dict)
    joins: set[str] = field(default_factory=set)

    def bind(self, value: Value) -> str:
        """The parameter that holds a value."""
        name = f"p{len(self.parameters)}"
        self.parameters[name] = value
        return f":{name}"

    def group(self, expression: Checked) -> str:
        """A group as a column; where it has a key, the value is looked up once for every group."""
        if isinstance(expression, Read) and expression.column.key:
            return f"({expression.column.lookup})"
        return self.shown(expression)

    def shown(self, expression: Checked) -> str:
        """An expression as a column; a stored number stays one where `obs.query.shape` knows its text."""
        return self.raw(expression) if isinstance(expression, Read) else self.expression(expression)

    def raw(self, expression: Checked) -> str:
        """An expression, as it is stored: for what is the same of a number and of the text it stands for."""
        if not isinstance(expression, Read):
            return self.expression(expression)
        if self.groups_bound and expression in self.plan.groups:
            return f":group{self.plan.groups.index(expression)}"
        if expression.column.join:
            self.joins.add(expression.column.join)
        return expression.column.sql

    def expression(self, expression: Checked) -> str:
        """An expression, in parentheses where it needs them."""
        if self.groups_bound and expression in self.plan.groups and not isinstance(expression, Read):
            return f":group{self.plan.groups.index(expression)}"
        match expression:
            case Read():
                sql = self.raw(expression)
                return (
                    _text_of(sql, expression.column) if expression.column.values else f"({sql})" if " " in sql else sql
                )
            case Constant():
                value = expression.value
                if value is None or isinstance(value, bool):
                    return {None: "NULL", True: "1", False: "0"}[value]
                return self.bind(value)
            case Aggregate():
                return self._aggregate(expression)
            case Apply():
                sql = _WRITERS[expression.name](self, expression)
                return sql if expression.name in _CLOSED else f"({sql})"

    def _aggregate(self, aggregate: Aggregate) -> str:
        filter_ = f" FILTER (WHERE {self.expression(aggregate.filter)})" if aggregate.filter is not None else ""
        distinct = "DISTINCT " if aggregate.distinct else ""
        name = aggregate.name
        if name == "count":
            counted = self.raw(aggregate.arguments[0]) if aggregate.arguments else "*"
            return f"count({distinct}{counted}){filter_}"
        if name == "rate":
            assert aggregate.per_ms is not None
            factor = aggregate.per_ms / self.reading.rate_ms
            return f"({self.expression(aggregate.arguments[0])} * {self.bind(factor)})"
        argument = self.expression(aggregate.arguments[0])
        if aggregate.percent is not None:
            function = "obs_approximate_percentile" if name.startswith("approx_") else "obs_percentile"
            return f"{function}({argument}, {self.bind(aggregate.percent / 100)}){filter_}"
        if name in ("first", "last"):
            return f"obs_{name}({self.plan.source.time_sql}, {argument}){filter_}"
        if name == "stddev":
            return f"obs_stddev({argument}){filter_}"
        return f"{'min' if name == 'any' else name}({distinct}{argument}){filter_}"

    def enumerated(self, expression: Apply) -> str | None:
        """``=``, ``!=`` and IN between a column of `values` and texts, as one of the numbers that are stored."""
        column, *others = expression.arguments
        if expression.name in ("=", "!=") and isinstance(column, Constant):
            column, others = others[0], [column]
        if not isinstance(column, Read) or not column.column.values:
            return None
        values = column.column.values
        numbers = []
        for other in others:
            if not isinstance(other, Constant):
                return None
            numbers.append(self.bind(values.index(other.value) if other.value in values else -1))
        if expression.name in ("=", "!="):
            return f"{self.raw(column)} {expression.name} {numbers[0]}"
        return f"{self.raw(column)} {expression.name.upper()} ({', '.join(numbers)})"


def _text_of(sql: str, column: Column) -> str:
    """The text that a stored number stands for. The texts are ours: STATUSES and the like."""
    cases = " ".join(f"WHEN {number} THEN '{value}'" for number, value in enumerate(column.values))
    return f"CASE {sql} {cases} END"


def _chain(sql: Writer, expression: Apply) -> str:
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


def _infix(sql: Writer, expression: Apply) -> str:
    left, right = (sql.expression(argument) for argument in expression.arguments)
    if _depth([right]) > max(_SHALLOW, _depth([left])) and expression.name in _MIRRORED:
        return f"{right} {_MIRRORED[expression.name]} {left}"
    return f"{left} {expression.name} {right}"


def _compare(sql: Writer, expression: Apply) -> str:
    return sql.enumerated(expression) or _infix(sql, expression)


def _in(sql: Writer, expression: Apply) -> str:
    stored = sql.enumerated(expression)
    if stored is not None:
        return stored
    value, *others = (sql.expression(argument) for argument in expression.arguments)
    return f"{value} {expression.name.upper()} ({', '.join(others)})"


def _between(sql: Writer, expression: Apply) -> str:
    value, low, high = (sql.expression(argument) for argument in expression.arguments)
    return f"{value} {expression.name.upper()} {low} AND {high}"


def _is_null(sql: Writer, expression: Apply) -> str:
    return f"{sql.raw(expression.arguments[0])} {expression.name.upper()}"


def _call(name: str) -> Callable[["Writer", Apply], str]:
    def write(sql: Writer, expression: Apply) -> str:
        return f"{name}({', '.join(sql.expression(argument) for argument in expression.arguments)})"

    return write


def _match(name: str, *, negated: bool = False) -> Callable[["Writer", Apply], str]:
    write = _call(name)
    return (lambda sql, expression: f"NOT {write(sql, expression)}") if negated else write


def _divide(sql: Writer, expression: Apply) -> str:
    left, right = (sql.expression(argument) for argument in expression.arguments)
    return f"CAST({left} AS REAL) / {right}"


def _remainder(sql: Writer, expression: Apply) -> str:
    left, right = (sql.expression(argument) for argument in expression.arguments)
    if Type.NUMBER in (argument.type for argument in expression.arguments):
        return f"obs_remainder({left}, {right})"
    return f"{left} % {right}"


def _case(sql: Writer, expression: Apply) -> str:
    *pairs, otherwise = (sql.expression(argument) for argument in expression.arguments)
    cases = " ".join(f"WHEN {pairs[index]} THEN {pairs[index + 1]}" for index in range(0, len(pairs), 2))
    return f"CASE {cases} ELSE {otherwise} END"


def _coalesce(sql: Writer, expression: Apply) -> str:
    values = [sql.expression(argument) for argument in expression.arguments]
    return f"coalesce({', '.join([*values, 'NULL'])})"


def _if(sql: Writer, expression: Apply) -> str:
    condition, yes, no = (sql.expression(argument) for argument in expression.arguments)
    return f"CASE WHEN {condition} THEN {yes} ELSE {no} END"


_WEEKS_MS = 200_000 * WEEK_MS
"""Whole weeks, 3,800 years: added to a time before 1970 they make it positive, so that % counts the right way."""


def _clock(sql: Writer, expression: Apply) -> str:
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


_WRITERS: Mapping[str, Callable[[Writer, Apply], str]] = {
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

_CLOSED = frozenset(name for name in FUNCTIONS if name not in ("hour", "weekday")) | {"case"}
"""What is written as a call or up to an END, and needs no parentheses around it."""

SQL_FUNCTIONS = frozenset(
    re.findall(
        r"\w+",
        "abs avg char coalesce count instr match max min nullif strftime sum obs_approximate_percentile obs_bucket "
        "obs_ceil obs_contains obs_first obs_floor obs_ilike obs_last obs_length obs_like obs_local obs_lower "
        "obs_matches obs_percentile obs_remainder obs_round obs_starts_with obs_stddev obs_upper",
    )
)
"""Every function that a compiled statement may call."""
