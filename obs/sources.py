"""What a queryable source is. Each area describes its own rows here; the query area imports no area.

All SQL in a Source is written by us, never by a client. It may use one bound parameter, ``:now`` (milliseconds since
1970).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Type(StrEnum):
    """The type of a column in OQL."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"  # stored as 0, 1 or NULL
    TIME = "time"  # stored as milliseconds since the epoch
    DURATION = "duration"  # milliseconds; compares with duration literals and with numbers


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a source.

    ``sql`` is the expression that reads it. A column with ``values`` is stored as a small INTEGER, an index into
    ``values``, and is text to whoever asks: the compiler turns a comparison with a text into one of numbers, so
    that an index serves it. ``texts`` are the only texts that a column without ``values`` can have, where there are
    few. ``join`` names the join of the source that ``sql`` needs. ``key`` makes the same groups as ``sql`` without
    that join; ``lookup`` is the SELECT that gives the value for a key. Where there are many rows, ``driver`` stands
    in place of the table and that join and brings the rows group by group, a group being what has one
    ``driver_key``. ``search`` is a full-text index of the column (FTS5, trigrams), whose rowid is the ``id`` of the
    source's table; ``unsearched`` is the SELECT of the ids that it may miss.
    """

    name: str
    type: Type
    sql: str
    description: str
    values: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    join: str = ""
    key: str = ""
    lookup: str = ""
    driver: str = ""
    driver_key: str = ""
    search: str = ""
    unsearched: str = ""


@dataclass(frozen=True, slots=True)
class Grain:
    """A table in which the rows of a source are counted together by a unit of time, numbered from 1970.

    ``known`` is the SELECT of the numbers, from ``:first`` up to, not including, ``:end``, for which it says the same
    as the rows do at that moment. ``columns`` are the columns of the source that it tells apart. ``tables`` is a FROM
    clause in which it has the name of the source's own table, and columns of the same names, the time being the start
    of the unit, and the column ``number``; ``{}`` stands for what says which numbers are wanted. ``joins`` are those of
    the source that stand in it already.
    """

    unit_ms: int
    number: str
    known: str
    columns: frozenset[str]
    tables: str
    joins: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Rollup:
    """Tables in which the rows of a source are counted together.

    ``grains`` come in the order in which they are tried, those of one set of columns from the longest unit to the
    shortest, which is an hour or more. In each, ``rows`` counts the rows; of the values of the column ``measured``, an
    INTEGER, ``counted`` counts those that are not null, ``total``, ``least`` and ``most`` are their sum and bounds
    (null without any). The grain ``values`` holds all of them as ``packed``, sorted (obs.storage.packed).
    """

    grains: tuple[Grain, ...]
    rows: str
    measured: str
    counted: str
    total: str
    least: str
    most: str
    values: Grain
    packed: str


@dataclass(frozen=True, slots=True)
class Source:
    """Something that OQL can read: one table, its time, its columns.

    ``joins`` are added only where a column needs them, in this order; none of them changes the number of rows.
    ``time_sql`` is the column that the window bounds. ``where`` holds for every row, whatever the statement says.
    ``tables`` are all the tables that any of this reads: the authorizer permits these and no other.
    """

    name: str
    row: str
    time: str
    table: str
    time_sql: str
    columns: tuple[Column, ...]
    tables: tuple[str, ...]
    joins: tuple[tuple[str, str], ...] = ()
    where: str = ""
    rollup: Rollup | None = None

    def column(self, name: str) -> Column | None:
        """The column of that name, ``time`` included, or None."""
        return self._by_name().get(name)

    def names(self) -> tuple[str, ...]:
        """The names of all columns, ``time`` first."""
        return tuple(self._by_name())

    def _by_name(self) -> dict[str, Column]:
        time = Column("time", Type.TIME, self.time_sql, self.time)
        return {column.name: column for column in (time, *self.columns)}


def one_of(words: Sequence[str]) -> str:
    """The words as a choice in a text: ``open, success, failed or lost``."""
    return f"{', '.join(words[:-1])} or {words[-1]}"
