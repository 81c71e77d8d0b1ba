"""The functions of OQL: one table for the checker, the SQL compiler, the query connections and the reference."""

from collections.abc import Mapping

from obs.query.language.functions.aggregates import AGGREGATES
from obs.query.language.functions.definition import NUMERIC, Family, Function, Result, SqlFunction
from obs.query.language.functions.scalars import SCALARS

FUNCTIONS: Mapping[str, Function] = {function.name: function for function in (*AGGREGATES, *SCALARS)}

__all__ = ["FUNCTIONS", "NUMERIC", "Family", "Function", "Result", "SqlFunction"]
