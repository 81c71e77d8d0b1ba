"""What a checked statement asks for: names looked up, types known, nothing left that a client wrote but values.

Two expressions are equal when they mean the same, wherever they stand.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from zoneinfo import ZoneInfo

from obs.query.language.nodes import Duration, Fill, Span, Window
from obs.sources import Column, Source, Type


@dataclass(frozen=True, slots=True)
class Read:
    """A column of the source."""

    span: Span = field(compare=False)
    column: Column

    @property
    def type(self) -> Type:
        """The type of the column."""
        return self.column.type


@dataclass(frozen=True, slots=True)
class Constant:
    """A value: a time is milliseconds since the epoch, a duration milliseconds. `type` None is NULL's."""

    span: Span = field(compare=False)
    value: str | int | float | bool | None
    type: Type | None


@dataclass(frozen=True, slots=True)
class Apply:
    """An operator or a scalar function. `name` is that of nodes.Operation, or of the function."""

    span: Span = field(compare=False)
    name: str
    arguments: tuple["Checked", ...]
    type: Type | None


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate over the rows of a group; no argument is ``count(*)``.

    `percent` belongs to percentiles, `per_ms` to rate, whose argument is an aggregate itself.
    """

    span: Span = field(compare=False)
    name: str
    arguments: tuple["Checked", ...]
    type: Type | None
    distinct: bool = False
    filter: "Checked | None" = None
    percent: float | None = None
    per_ms: int | None = None


Checked = Read | Constant | Apply | Aggregate


@dataclass(frozen=True, slots=True)
class Output:
    """A column of the answer. `group` is its place among the groups, None for what is not one of them."""

    name: str
    expression: Checked
    group: int | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """One part of ORDER BY. `output` is the column of the answer that it names or equals, if any; -1 is the bucket."""

    expression: Checked
    descending: bool
    output: int | None


@dataclass(frozen=True, slots=True)
class Around:
    """AROUND: which annotations (a plan of their time, name and title), and how far before and after each."""

    annotations: "Plan"
    within_ms: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A checked SELECT.

    `grouped`: its rows stand for groups of the source's rows. `interval_ms` is that of EVERY, 0 for AUTO, None without
    EVERY. Outputs that are groups come first only where the statement did not list them.
    """

    source: Source
    outputs: tuple[Output, ...]
    output_type: str
    window: Window
    grouped: bool
    where: Checked | None = None
    groups: tuple[Checked, ...] = ()
    interval_ms: int | None = None
    having: Checked | None = None
    order: tuple[Order, ...] = ()
    top: int | None = None
    limit: int | None = None
    fill: Fill | None = None
    timezone: ZoneInfo | None = None
    compare: Duration | None = None
    around: Around | None = None
    explain: bool = False

    @property
    def fills(self) -> bool:
        """Whether buckets without rows are in the answer."""
        return self.fill is None or self.fill.with_ != "none"

    def tables(self) -> tuple[str, ...]:
        """Every table that it may read."""
        return self.source.tables + (self.around.annotations.source.tables if self.around else ())

    def full_text(self) -> tuple[str, ...]:
        """Those of the tables that are full-text indexes."""
        return tuple(column.search for column in self.source.columns if column.search)


@dataclass(frozen=True, slots=True)
class Listing:
    """The answer to SHOW: it reads nothing."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def walk(expression: Checked) -> Iterator[Checked]:
    """The expression and all that is in it."""
    yield expression
    if isinstance(expression, Apply | Aggregate):
        for argument in expression.arguments:
            yield from walk(argument)
    if isinstance(expression, Aggregate) and expression.filter is not None:
        yield from walk(expression.filter)


def has_aggregate(expression: Checked) -> bool:
    """Whether an aggregate is in it."""
    return any(isinstance(part, Aggregate) for part in walk(expression))
