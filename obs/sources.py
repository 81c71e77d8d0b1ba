"""The description of a source that OQL can read. Each area describes its own; the query area imports no area.

No client can change the SQL in a source. Its only parameters are the times of the window and of the request.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple


class Type(StrEnum):
    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"  # stored as 0, 1 or NULL
    TIME = "time"  # stored as milliseconds since the epoch
    DURATION = "duration"  # milliseconds; can be compared with durations and with numbers


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a source. One with `values` is text in OQL; comparisons with texts become ones of numbers."""

    name: str
    type: Type
    sql: str  # the expression that reads it
    description: str
    values: tuple[str, ...] = ()  # the texts of a column that is stored as an INTEGER, an index into them
    texts: tuple[str, ...] = ()  # all texts that a column without `values` can have, where they are few
    join: str = ""  # the name of the source's join that it needs
    key: str = ""  # an expression that makes the same groups as `sql`, without the join
    lookup: str = ""  # the SELECT of the value for a key
    search: str = ""  # a full-text index (FTS5, trigrams), whose rowid is the `id` of the source's table
    costly: bool = False  # whether reading it takes long: SELECT * leaves it out
    unsearched: str = ""  # the SELECT of the ids that the index may lack
    measured: str | None = None  # how the columns of cells begin that have its INTEGERs, or the lengths of its texts


@dataclass(frozen=True, slots=True)
class Grain:
    """A table that counts the rows of a source together by a unit of time, and by some columns."""

    unit_ms: int  # a part of an hour, an hour or more
    number: str  # the column of the unit's number, counted from 1970
    complete: str  # the SELECT of the spans from `:first` to before `:end` for which the table agrees with the rows
    columns: frozenset[str]  # the columns of the source that it keeps apart, under the names of the source's own table
    from_sql: str  # in which ``{spans}`` stands for the numbers to read, and ``{joins}`` for the joins of the source
    cells: str  # the table, as `obs.heartbeat.store.rollups.Cell`; in the order of the source's `id`
    by_time: str = ""  # the same as `from_sql`, in the order of time, if that can be read faster


class Order(NamedTuple):
    """A FROM clause that reads rows in the order of a column's key: by this column alone, they need not be sorted."""

    from_sql: str
    key: str  # in this clause
    columns: frozenset[str]  # what can be read from the index that has this order


@dataclass(frozen=True, slots=True)
class Source:
    """Something that OQL can read: one table, its time, its columns."""

    name: str
    row: str  # what a row is, in words
    time: str  # which of its times is the time of the row, in words
    time_sql: str  # what the time window applies to, such as a column with its table
    columns: tuple[Column, ...]
    tables: tuple[str, ...]  # its own, and all others that its SQL reads: a query on it can read no other
    joins: tuple[tuple[str, str], ...] = ()  # name and SQL, in the order in which to add them; none adds or hides rows
    where: str = ""  # a condition that holds for every row
    window: str = "LAST 1h or WHERE time > NOW - 1h"  # to suggest where a statement has none
    grains: tuple[Grain, ...] = ()  # in the order in which to try them; those with the same columns by falling length
    by_key: Order | None = None  # for rows that are grouped by a column with a key
    admin_only: bool = False  # whether reading it needs the scope `admin`

    @property
    def table(self) -> str:
        """The table whose rows are those of the source."""
        return self.tables[0]

    def apart(self) -> set[str]:
        """The columns by which cells are kept apart."""
        return {name for grain in self.grains for name in grain.columns}

    def by_name(self) -> dict[str, Column]:
        """All columns by name, ``time`` first."""
        return {column.name: column for column in (Column("time", Type.TIME, self.time_sql, self.time), *self.columns)}


def read_source(module: str, name: str, of_columns: Mapping[str, Mapping[str, Any]], **fields: Any) -> Source:
    """The source `name`, as the TOML file beside a module describes it, with more `fields` of it.

    The SQL of a column is its name, unless `of_columns` says otherwise. In its description, ``{}`` is for its texts.
    """
    words = tomllib.loads(Path(module).with_suffix(".toml").read_text("utf-8"))[name]
    columns = []
    for column, (type_, description) in words.pop("columns").items():
        known = {"sql": f"{name}.{column}", **of_columns.get(column, {})}
        *others, last = known.get("values") or known.get("texts") or ("",)
        known["description"] = description.format(f"{', '.join(others)} or {last}")
        columns.append(Column(column, Type(type_), **known))
    return Source(**{"name": name, "tables": (name,), **words, **fields, "columns": tuple(columns)})
