"""The plan of a checked statement, and the scans that read it.

Expressions are equal if they mean the same, wherever they are in the statement.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

from obs import times
from obs.query.language.functions import NUMERIC
from obs.query.language.nodes import BUCKET, Literal, Node, Span, Window
from obs.sources import Column, Source, Type


@dataclass(frozen=True, slots=True)
class Read(Node):
    column: Column

    @property
    def type(self) -> Type:
        return self.column.type


@dataclass(frozen=True, slots=True)
class Apply(Node):
    """An operator or a scalar function. `name` is the operator of nodes.Operation, or the name of the function."""

    name: str
    arguments: tuple["Checked", ...]
    type: Type | None


@dataclass(frozen=True, slots=True)
class Aggregate(Node):
    """``count(*)`` has no argument. `percent` is set for percentiles. ``rate`` is a function of an aggregate."""

    name: str
    arguments: tuple["Checked", ...]
    type: Type | None
    distinct: bool = False
    filter: "Checked | None" = None
    percent: float | None = None


@dataclass(frozen=True, slots=True)
class Derived(Node):
    """A column of the result that is known once the rows are put together, such as ``count_previous`` or ``t``."""

    name: str
    type: Type | None


Checked = Read | Literal | Apply | Aggregate | Derived


@dataclass(frozen=True, slots=True)
class Output:
    """A column of the result. `group` is its index among the groups. A `hidden` one is only for HAVING or ORDER BY."""

    name: str
    expression: Checked
    group: int | None = None
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """A checked SELECT. Groups that SELECT does not list are the first outputs."""

    source: Source
    outputs: tuple[Output, ...]
    output_type: str
    window: Window
    grouped: bool  # whether a row of the result is a group of rows
    where: Checked | None = None
    groups: tuple[Checked, ...] = ()
    interval_ms: int | None = None  # of EVERY; 0 for AUTO
    months: int = 0  # of EVERY 1mo
    having: Checked | None = None
    order: tuple[tuple[Checked, bool], ...] = ()  # expressions, and whether they are descending
    top: int | None = None
    limit: int | None = None
    offset: int = 0
    fill: Literal | None = None
    timezone: ZoneInfo | None = None
    back_ms: int | None = None  # of COMPARE WITH
    around: "Plan | None" = None  # for the times, names and titles of the annotations of AROUND
    within_ms: int = 0
    explain: bool = False

    @property
    def values(self) -> list[Output]:
        """The outputs that are not groups."""
        return [output for output in self.outputs if output.group is None]

    @property
    def results(self) -> list[Output]:
        """The columns of the result once the rows are put together; HAVING and ORDER BY can use the hidden ones."""
        results = [] if self.interval_ms is None else [_derived(BUCKET, Type.TIME)]
        if self.around is not None:
            results += [_derived(each.name, each.expression.type) for each in self.around.outputs]
        for output in self.outputs:
            name, type_ = output.name, output.expression.type
            if self.around is not None:
                results += [_derived(f"{name}_{side}", type_) for side in ("before", "after")]
                results.append(_derived(f"{name}_change_pct", Type.NUMBER))
                continue
            results.append(output)
            if self.back_ms is not None and has_aggregate(output.expression):
                results.append(_derived(f"{name}_previous", type_, hidden=output.hidden))
                if type_ in NUMERIC:
                    results.append(_derived(f"{name}_change_pct", Type.NUMBER, hidden=True))
        return results

    @property
    def expressions(self) -> list[Checked | None]:
        """The expressions of SELECT, HAVING and ORDER BY."""
        return [*(output.expression for output in self.outputs), self.having, *(each for each, _ in self.order)]

    @property
    def first_aggregate(self) -> Checked:
        """The aggregate by which TOP ranks groups."""
        return next(output.expression for output in self.outputs if has_aggregate(output.expression))

    @property
    def is_derived(self) -> bool:
        """Whether HAVING, TOP and LIMIT need columns that are known once the rows are put together."""
        return self.back_ms is not None or self.around is not None

    @property
    def is_ordered_last(self) -> bool:
        """Whether ORDER BY and LIMIT apply once the rows are put together, and not in SQL."""
        if self.interval_ms is None:
            return self.is_derived or (self.top is not None and bool(self.order or self.offset))
        computed = (each for each, _ in self.order if not isinstance(each, Derived))  # `t` itself is ordered by SQL
        return self.is_derived or self.fills or any(isinstance(part, Derived) for part in walk(*computed))

    def to_read(self) -> "Plan":
        """The plan without what applies once the rows are put together."""
        if self.is_derived:
            top = self.top if self.interval_ms is not None else None
            return replace(self, having=None, order=(), limit=None, offset=0, top=top)
        return replace(self, order=(), limit=None, offset=0) if self.is_ordered_last else self

    @property
    def fills(self) -> bool:
        return self.fill is None or self.fill.value != "none"


@dataclass(frozen=True, slots=True)
class Listing:
    """The result of SHOW."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def _derived(name: str, type_: Type | None, *, hidden: bool = False) -> Output:
    return Output(name, Derived(Span(0, 0), name, type_), hidden=hidden)


def walk(*expressions: Checked | None) -> Iterator[Checked]:
    """The expressions, but for None, and all expressions in them."""
    for expression in expressions:
        if expression is not None:
            yield expression
        if isinstance(expression, Apply | Aggregate):
            yield from walk(*expression.arguments)
        if isinstance(expression, Aggregate):
            yield from walk(expression.filter)


def columns_of(*expressions: Checked | None) -> set[str]:
    """The names of the columns in the expressions."""
    return {each.column.name for each in walk(*expressions) if isinstance(each, Read)}


def as_key(expression: Checked) -> Checked:
    """A column by its key, if it has one, and any other expression as it is: to count values, as many as keys."""
    match expression:
        case Read(column=column) if column.key:
            return replace(expression, column=replace(column, sql=column.key, join=""))
    return expression


def terms(where: Checked | None) -> Sequence[Checked]:
    """The terms of WHERE that all rows have to meet."""
    if where is None:
        return ()
    return where.arguments if isinstance(where, Apply) and where.name == "and" else (where,)


def has_aggregate(expression: Checked) -> bool:
    return any(isinstance(part, Aggregate) for part in walk(expression))


MAX_GROUPS = 1_000_000  # that are read to count or compare them; the limits on time and bytes are reached first


@dataclass(frozen=True, slots=True)
class Range:
    """A range of time in milliseconds since the epoch: from `start` up to, but not including, `end`."""

    start: int
    end: int

    @property
    def length_ms(self) -> int:
        return self.end - self.start

    def __str__(self) -> str:
        return f"{times.format_ms(self.start)}/{times.format_ms(self.end)}"


@dataclass(frozen=True, slots=True)
class Timeline:
    """The buckets of EVERY within a window: their `starts`, ascending, `interval_ms` apart where no clock changes."""

    window: Range
    interval_ms: int
    starts: Sequence[int]
    labels: Sequence[int] = ()  # what the clocks of a time zone, if any, show there, in intervals since 1970
    numbers: Sequence[int] = ()  # of the buckets; none for 0, 1, 2...

    def bucket(self, time: int) -> int:
        place = bisect_right(self.starts, time) - 1
        return self.numbers[place] if self.numbers else place

    def length_ms(self, number: int) -> int:
        """How much of the window a bucket covers."""
        places = [number] if not self.numbers else [place for place, each in enumerate(self.numbers) if each == number]
        return sum(
            min([*self.starts[place + 1 : place + 2], self.window.end]) - max(self.starts[place], self.window.start)
            for place in places
        )

    def is_even(self) -> bool:
        """Whether all buckets have the same length, the last one included, and the numbers 0, 1, 2..."""
        if isinstance(self.starts, range):
            return True
        same = all(after - before == self.interval_ms for before, after in pairwise(self.starts))
        return same and self.window.end - self.starts[-1] <= self.interval_ms and not self.numbers


@dataclass(frozen=True, slots=True)
class Scan:
    """The input of a scan: the `window` to read, the time of the request, and the most rows that SQLite may return."""

    window: Range
    now_ms: int
    max_rows: int | None
    timeline: Timeline | None = None
    number: int = 0  # under which the SQL functions ``obs_bucket`` and ``obs_bucket_ms`` know the `timeline`
    offsets: Sequence[tuple[int, int, int]] = ()  # the times between clock changes of TIMEZONE: start, end, offset
    parts: Sequence[tuple[int, ...]] = ()  # what to read: start, end, and the key of a job, if any; empty for all
    searches: bool = True  # whether to look for texts in full-text indexes
    groups: Sequence[Sequence[Any]] = ()  # the groups to read; empty for all
