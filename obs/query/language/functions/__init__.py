"""The functions of OQL. To add one, add an entry in `scalars` or `aggregates`, and run ``python -m
tests.query.reference`` to update docs/oql.md.

The checker, the SQL compiler, the query connections and the reference all read this table.
"""

from collections.abc import Mapping

from obs.query.language.functions.aggregates import AGGREGATES
from obs.query.language.functions.definition import NUMERIC, Family, Function, Result, SqlFunction
from obs.query.language.functions.scalars import SCALARS

FUNCTIONS: Mapping[str, Function] = {function.name: function for function in (*AGGREGATES, *SCALARS)}

__all__ = ["FUNCTIONS", "NUMERIC", "Family", "Function", "Result", "SqlFunction"]
