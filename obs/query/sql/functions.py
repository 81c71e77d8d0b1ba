"""The functions that query connections need beside those of SQLite, and the list of those that a query may call."""

import re
import sqlite3
from collections.abc import Sequence
from typing import Any
from zoneinfo import ZoneInfo

from obs.query.language.functions import FUNCTIONS, SqlFunction
from obs.query.language.functions.aggregates import Percentile
from obs.query.language.functions.definition import Number
from obs.query.language.functions.scalars import OPERATORS
from obs.query.sql import Timeline
from obs.times import offset_ms

_SCALARS = {each.sqlite for each in FUNCTIONS.values() if each.sqlite and not each.aggregate} | {*OPERATORS}
_AGGREGATES = {each.sqlite for each in FUNCTIONS.values() if each.sqlite and each.aggregate} | {
    SqlFunction("obs_merged_percentile", 2, Percentile),
}

PERMITTED = frozenset(
    ["char", "coalesce", "count", "instr", "match", "max", "min", "nullif", "sum"]  # what obs.query.sql calls itself
    + ["obs_bucket", "obs_length", "obs_local"]
    + [function.name for function in (*_SCALARS, *_AGGREGATES)]
    + [name for each in FUNCTIONS.values() if isinstance(each.sql, str) for name in re.findall(r"\w+(?=\()", each.sql)]
)
"""The functions that a query may call."""


def register(connection: sqlite3.Connection, zone: ZoneInfo | None, timelines: Sequence[Timeline]) -> None:
    """Register the functions for one query: `zone` is that of TIMEZONE, `timelines` the buckets of each scan."""

    def local(time: Number | None) -> int | None:
        if time is None:
            return None
        assert zone is not None
        try:
            return int(time) + offset_ms(int(time), zone)
        except OverflowError:  # before the year 1 or after 9999
            return None

    of_query = (
        SqlFunction("obs_local", 1, local),
        SqlFunction("obs_bucket", 2, lambda number, time: timelines[number].bucket(time)),
        SqlFunction("obs_length", 2, lambda number, bucket: timelines[number].length_ms(bucket)),
    )
    for function in (*_SCALARS, *of_query):
        connection.create_function(function.name, function.arguments, function.python, deterministic=True)
    for function in _AGGREGATES:
        aggregate: Any = function.python
        connection.create_aggregate(function.name, function.arguments, aggregate)
