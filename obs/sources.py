"""The description of a source that OQL can read. Each area describes its own sources; the query area imports no area.

The SQL in a source is part of the program; no client can change it. It may use one bound parameter, ``:now``, the time
of the request in milliseconds since the epoch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Type(StrEnum):
    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"  # stored as 0, 1 or NULL
    TIME = "time"  # stored as milliseconds since the epoch
    DURATION = "duration"  # milliseconds; can be compared with durations and with numbers


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a source.

    - ``sql`` is the expression that reads it, and ``join`` the name of the source's join that it needs.
    - ``values`` are the texts of a column that is stored as a small INTEGER, an index into ``values``. In OQL it is
      text: a comparison with a text becomes one of numbers, so that an index can be used.
    - ``texts`` are all texts that a column without ``values`` can have, where they are few.
    - ``key`` is an expression that makes the same groups as ``sql``, without the join. ``lookup`` is the SELECT of the
      value for a key.
    - ``search`` is a full-text index of the column (FTS5, trigrams), whose rowid is the ``id`` of the source's table.
      ``unsearched`` is the SELECT of the ids that the index may lack.
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
    search: str = ""
    unsearched: str = ""


@dataclass(frozen=True, slots=True)
class Grain:
    """A table that counts the rows of a source together by a unit of time, and by some columns.

    - ``unit_ms`` is the length of a unit. Units are numbered from 1970; ``number`` is the column of that number.
    - ``complete`` is the SELECT of the numbers, from ``:first`` up to, but not including, ``:end``, of the units for
      which the table agrees with the rows of the source at this moment.
    - ``columns`` are the columns of the source that it keeps apart.
    - ``from_sql`` is a FROM clause, in which ``{spans}`` is replaced by the numbers to read, and ``{joins}`` by the
      joins of the source. In it, columns of the source have the names that they have in the source's own table.
    - ``cells`` is the name of the table with the counts in it. Its columns are those of
      `obs.heartbeat.store.rollups.Cell`, and ``started_at``, the start of the unit.
    - ``key`` identifies what the columns keep apart. The FROM clause reads in its order.
    """

    unit_ms: int
    number: str
    complete: str
    columns: frozenset[str]
    from_sql: str
    cells: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class Rollup:
    """The tables that count the rows of a source together.

    `grains` are in the order in which they are tried; those with the same columns from the longest unit to the
    shortest. A unit is an hour or more. `measured` is the source's column whose values they have, an INTEGER.
    """

    grains: tuple[Grain, ...]
    measured: str


@dataclass(frozen=True, slots=True)
class Source:
    """Something that OQL can read: one table, its time, its columns.

    - ``row`` and ``time`` say in words what a row is, and which of its times is the time of the row.
    - ``time_sql`` is the column that the time window applies to.
    - ``tables`` are all tables that the SQL of the source reads: a query on it can read no other table.
    - ``joins`` are pairs of a name and SQL, added in this order where a column needs them. No join changes the number
      of rows.
    - ``where`` is a condition that holds for every row of the source.
    - ``admin_only`` says that reading it needs the scope ``admin``.
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
    admin_only: bool = False

    def by_name(self) -> dict[str, Column]:
        """All columns by name, ``time`` first."""
        time = Column("time", Type.TIME, self.time_sql, self.time)
        return {column.name: column for column in (time, *self.columns)}


def one_of(words: Sequence[str]) -> str:
    """The words as a choice in a text: ``open, success, failed or lost``."""
    return f"{', '.join(words[:-1])} or {words[-1]}"
