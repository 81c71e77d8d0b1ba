"""What a statement is made of, as it was written: names are not looked up, types are not known, nothing is computed.

Every node knows where it stands in the statement, so that an error can point at it.
"""

from dataclasses import dataclass
from typing import NamedTuple


class Span(NamedTuple):
    """A stretch of the statement, in characters from its start."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Name:
    """A column, a source or an alias, without its quotes."""

    span: Span
    name: str


@dataclass(frozen=True, slots=True)
class Literal:
    """A text, a number, TRUE, FALSE or NULL (None)."""

    span: Span
    value: str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Duration:
    """A duration in milliseconds."""

    span: Span
    milliseconds: int


@dataclass(frozen=True, slots=True)
class Star:
    """``*``: every column of the source, or every row in count(*)."""

    span: Span


@dataclass(frozen=True, slots=True)
class Call:
    """A function, an aggregate with its FILTER included."""

    span: Span
    name: Name
    arguments: tuple["Expression", ...]
    distinct: bool = False
    filter: "Expression | None" = None


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator of the language applied: ``+``, ``=``, ``and``, ``not``, ``between``, ``is null``, ``case``...

    ``case`` holds condition, value, condition, value, ..., value of ELSE.
    """

    span: Span
    operator: str
    operands: tuple["Expression", ...]


Expression = Name | Literal | Duration | Star | Call | Operation


def children(expression: Expression) -> tuple[Expression, ...]:
    """The expressions that an expression consists of."""
    if isinstance(expression, Operation):
        return expression.operands
    if isinstance(expression, Call):
        return (*expression.arguments, expression.filter) if expression.filter is not None else expression.arguments
    return ()


@dataclass(frozen=True, slots=True)
class Item:
    """A column of the answer; `text` is how the expression was written."""

    expression: Expression
    alias: Name | None
    text: str


@dataclass(frozen=True, slots=True)
class Sorting:
    """One part of ORDER BY."""

    expression: Expression
    descending: bool


@dataclass(frozen=True, slots=True)
class Moment:
    """A time: a text in ISO 8601, or (`text` None) now less `before_ms` milliseconds."""

    span: Span
    text: str | None
    before_ms: int = 0


@dataclass(frozen=True, slots=True)
class Window:
    """LAST (`last`), or from `since` to `until` (None: now)."""

    span: Span
    last: Duration | None = None
    since: Moment | None = None
    until: Moment | None = None


@dataclass(frozen=True, slots=True)
class Every:
    """The length of a bucket; None is AUTO."""

    span: Span
    interval: Duration | None


@dataclass(frozen=True, slots=True)
class Fill:
    """What stands in a bucket without rows: ``none`` leaves it out; ``null``, ``previous`` or a number."""

    span: Span
    with_: str | int | float


@dataclass(frozen=True, slots=True)
class Around:
    """Annotations whose name begins with `prefix`, and how far to look before and after each."""

    span: Span
    prefix: Literal
    within: Duration


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause; `span` is its keyword. The type of `value` follows from `kind`."""

    span: Span
    kind: str
    value: object


@dataclass(frozen=True, slots=True)
class Select:
    """A SELECT; each kind of clause is there at most once."""

    items: tuple[Item, ...]
    source: Name
    where: Expression | None = None
    by: tuple[Expression, ...] = ()
    every: Every | None = None
    window: Window | None = None
    having: Expression | None = None
    order: tuple[Sorting, ...] = ()
    top: Literal | None = None
    limit: Literal | None = None
    fill: Fill | None = None
    timezone: Literal | None = None
    compare: Duration | None = None
    around: Around | None = None
    explain: bool = False


@dataclass(frozen=True, slots=True)
class Show:
    """SHOW SOURCES (`source` None) or SHOW COLUMNS FROM."""

    source: Name | None


Statement = Select | Show
