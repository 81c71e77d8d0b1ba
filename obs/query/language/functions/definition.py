"""What defines a function of OQL."""

from collections.abc import Callable, Set
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from obs.sources import Type

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
        self.text = text
        self.types = types


class Result(Enum):
    """The type of a result that depends on the arguments."""

    FIRST = auto()
    """That of the first argument."""
    MEAN = auto()
    """That of the first argument, and a number for an integer."""
    COMMON = auto()
    """The common type of all arguments of Family.ANY. A text among times is read as a time."""


@dataclass(frozen=True, slots=True)
class SqlFunction:
    """A function that SQLite does not have. `arguments` is how many it takes; -1 for any number.

    `python` gets stored values, None for NULL. For an aggregate it is a class with step(*arguments) and finalize(). A
    query can only be stopped within it by killing the process.
    """

    name: str
    arguments: int
    python: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Function:
    """A function of OQL.

    `sql` is a call or an expression in parentheses, or a function of the arguments' SQL. In it, ``{0}``, ``{1}``...
    stand for the arguments, ``{arguments}`` for all of them, and

    - ``{local}``: for a scalar, the first argument, a time, shifted by the offset of TIMEZONE from UTC,
    - ``{distinct}``, ``{time}``: for an aggregate, DISTINCT, where it may have that, and the time of the row,
    - ``{fraction}``: its percentage, divided by 100,
    - ``{covered}``: the time that one row of the result covers, in milliseconds.

    `sqlite` is the function that the SQL calls, if SQLite does not have it. The last `optional` arguments may be left
    out; with `repeats`, the last one may follow any number of times. `percent` is that of p50 and the like.
    """

    name: str
    parameters: tuple[Family, ...]
    result: Type | Result
    description: str
    sql: str | Callable[..., str]
    sqlite: SqlFunction | None = None
    aggregate: bool = False
    optional: int = 0
    repeats: bool = False
    counts: bool = False
    """An aggregate that may have ``*``, and for which the stored number of a status does as well as its text."""
    percent: float | None = None

    def write(self, *arguments: str, **fields: str) -> str:
        """The SQL of a call, whose `arguments` and `fields` are SQL."""
        if callable(self.sql):
            return self.sql(*arguments)
        return self.sql.format(*arguments, arguments=", ".join(arguments), **fields)
