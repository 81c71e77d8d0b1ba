"""What defines a function of OQL: its signature, its help text, its SQL, and its implementation in Python, if any."""

from collections.abc import Callable, Set
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from obs.sources import Type

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

    def __init__(self, text: str, types: Set[Type]) -> None:
        self.text = text
        self.types = types


LITERAL_ONLY = frozenset({Family.DIGITS, Family.PERCENT})
"""Families of arguments that have to be literals."""


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
    """A function that SQLite does not have, in Python.

    `arguments` is how many it takes; -1 for any number. `python` gets their values as SQLite stores them, None for
    NULL. A query can only be stopped within it by killing the process. For an aggregate, `python` is a class with the
    methods step(*arguments) and finalize().
    """

    name: str
    arguments: int
    python: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Function:
    """A function of OQL.

    `sql` is a template. ``{0}``, ``{1}``... stand for the arguments, ``{arguments}`` for all of them, separated by
    commas. It has to be complete in itself, such as a call or an expression in parentheses. A scalar function also has

    - ``{local}``: the first argument, a time, shifted by the offset of TIMEZONE from UTC.

    An aggregate also has

    - ``{distinct}``: DISTINCT or nothing,
    - ``{fraction}``: its percentage, divided by 100,
    - ``{time}``: the time of the row,
    - ``{rate}``: the duration that is its last argument, divided by the time that one row of the result covers.

    `sql` can also be a function that takes the SQL of the arguments. FILTER follows the SQL of an aggregate. `sqlite`
    is the function that the SQL calls, if SQLite does not have it. By default, the SQL is a call of it.

    The last `optional` arguments may be left out; with `repeats`, the last one may follow any number of times.
    `percent` is the percentage of a percentile that does not take it as an argument.
    """

    name: str
    parameters: tuple[Family, ...]
    result: Type | Result
    description: str
    sql: str | Callable[..., str] = ""
    sqlite: SqlFunction | None = None
    aggregate: bool = False
    optional: int = 0
    repeats: bool = False
    distinct: bool = False
    """An aggregate that may have DISTINCT."""
    star: bool = False
    """An aggregate that may have ``*`` for its argument."""
    stored: bool = False
    """An aggregate for which the stored number of a status does as well as its text."""
    percent: float | None = None

    def write(self, *arguments: str, **fields: str) -> str:
        """The SQL of a call: `arguments` and `fields` are the SQL that replaces ``{0}``, ``{local}`` and so on."""
        if callable(self.sql):
            return self.sql(*arguments)
        if self.sqlite is not None and not self.sql:
            return f"{self.sqlite.name}({', '.join(arguments)})"
        return self.sql.format(*arguments, arguments=", ".join(arguments), **fields)
