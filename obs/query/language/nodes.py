"""The syntax tree of a statement, as it was written."""

from dataclasses import dataclass, field
from typing import NamedTuple

from obs.sources import Type


class Span(NamedTuple):
    """A part of the statement, from the character `start` up to, but not including, `end`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Node:
    """What has a span, so that an error can point at it. Nodes are equal if they mean the same, wherever they are."""

    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Name(Node):
    """The name of a column, a source or an alias, without quotes."""

    name: str
    is_quoted: bool = False


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """A text, a number, TRUE, FALSE or NULL (None). Once it is checked, it has a type, but for NULL."""

    value: str | int | float | bool | None  # times are milliseconds since the epoch, durations milliseconds
    type: Type | None = None
    is_sent: bool = field(default=False, compare=False)  # whether it is the value of a parameter


@dataclass(frozen=True, slots=True)
class Duration(Node):
    """A length. That of `months` depends on the calendar; `milliseconds` are then 30 days for each."""

    milliseconds: int
    months: int = 0


@dataclass(frozen=True, slots=True)
class Star(Node):
    """``*``: every column of the source, or every row in count(*)."""


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A function call; for an aggregate, with its FILTER."""

    name: Name
    arguments: tuple["Expression", ...]
    distinct: bool = False
    filter: "Expression | None" = None


@dataclass(frozen=True, slots=True)
class Operation(Node):
    """``+``, ``=``, ``not``, ``between``, ``is null``... ``case`` has condition, value..., and the value of ELSE."""

    operator: str
    operands: tuple["Expression", ...]


BUCKET = "t"  # the name of the result column with the start of the bucket
DAYS = ("today", "yesterday")  # words for the midnight at which a day starts

Expression = Name | Literal | Duration | Star | Call | Operation


@dataclass(frozen=True, slots=True)
class Item:
    """A column of the result. `text` is the expression as it was written."""

    expression: Expression
    alias: Name | None
    text: str


@dataclass(frozen=True, slots=True)
class Moment(Node):
    """A text in ISO 8601, one of `DAYS`, or, if `text` is None, now; minus `before`, plus `after_ms`."""

    text: str | None
    before: Duration | None = None
    after_ms: int = 0


@dataclass(frozen=True, slots=True)
class Window(Node):
    """The time window, from `since` to `until` (None: now)."""

    since: Moment
    until: Moment | None = None


@dataclass(frozen=True, slots=True)
class Around(Node):
    """AROUND: annotations whose name starts with `prefix`, and how long before and after each of them."""

    prefix: Literal
    within: Duration


@dataclass(frozen=True, slots=True)
class Select:
    """A SELECT, with its clauses. `every` is 0ms for AUTO; `order` has expressions, and whether they are descending."""

    items: tuple[Item, ...]
    source: Name
    where: Expression | None = None
    by: tuple[Item, ...] = ()
    every: Duration | None = None
    window: Window | None = None
    having: Expression | None = None
    order: tuple[tuple[Expression, bool], ...] = ()
    top: Literal | None = None
    limit: Literal | None = None
    offset: Literal | None = None
    fill: Literal | None = None  # of buckets without rows: ``null``, ``previous``, a number; ``none`` leaves them out
    timezone: Literal | None = None
    compare: Duration | None = None
    around: Around | None = None
    distinct: bool = False
    explain: bool = False


@dataclass(frozen=True, slots=True)
class Show:
    """SHOW COLUMNS FROM a source, or, if `source` is None, SHOW SOURCES."""

    source: Name | None = None


Statement = Select | Show
