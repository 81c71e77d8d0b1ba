"""Plans to SQL. Every value is a bound parameter, every identifier comes from the source's own description.

Statements are put together here and in `compile_rows` and `compile_rollup`, expressions in `obs.query.sql.expressions`.
"""

from collections.abc import Sequence
from dataclasses import replace

from obs.query.execution.window import Range
from obs.query.language.plan import Plan
from obs.query.sql.compile_rollup import RolledStatement
from obs.query.sql.compile_rows import Compiled, Statement, driver_of, key_of
from obs.query.sql.reading import Reading
from obs.sources import Grain


def compile_plan(plan: Plan, reading: Reading) -> Compiled:
    """The statement that reads what the plan asks for.

    The columns of its rows are, for a grouped plan: the number of the bucket (0 without EVERY), the groups, the
    outputs that are no groups, whether HAVING keeps the row, and how many rows are behind it; else the outputs. A
    bucket that HAVING drops is there, so that it is not taken for one without rows.
    """
    sql = Statement(plan, reading) if reading.rolled is None else RolledStatement(plan, reading)
    if not plan.grouped:
        columns = [sql.shown(output.expression) for output in plan.outputs]
        tail = sql.order_by() + sql.limit(plan.limit)
        return sql.select(columns, tail)
    bucket = sql.bucket() if reading.interval_ms is not None else "0"
    groups = [sql.group(group) for group in plan.groups]
    aggregates = [sql.shown(output.expression) for output in plan.outputs if output.group is None]
    kept = "1" if plan.having is None else f"coalesce({sql.expression(plan.having)}, 0)"
    keys = [] if reading.interval_ms is None else ["1"]
    keys += [key_of(group) or str(number) for number, group in enumerate(plan.groups, 2)]
    if reading.group_by_group and (driver := driver_of(plan)):
        keys = [driver.driver_key]
    tail = f" GROUP BY {', '.join(keys)}" if keys else ""
    if reading.interval_ms is not None:
        if plan.top is not None:
            sql.only_top()
        tail += " ORDER BY " + ", ".join(keys) + sql.limit()
    else:
        if plan.having is not None:
            tail += f" HAVING {kept}"
        tail += sql.order_by(keys) + sql.limit(plan.limit, plan.top)
    return sql.select([bucket, *groups, *aggregates, kept, sql.scanned()], tail)


def compile_bucket(plan: Plan, reading: Reading) -> Compiled:
    """The statement that reads one bucket, from ``:start`` to ``:end``; its rows are those of a grouped plan."""
    sql = Statement(plan, reading)
    groups = [sql.group(group) for group in plan.groups]
    aggregates = [sql.shown(output.expression) for output in plan.outputs if output.group is None]
    kept = "1" if plan.having is None else f"coalesce({sql.expression(plan.having)}, 0)"
    keys = [key_of(group) or str(number) for number, group in enumerate(plan.groups, 2)]
    tail = f" GROUP BY {', '.join(keys)}" if keys else ""
    return sql.select(["0", *groups, *aggregates, kept, "count(*)"], tail)


def compile_probe(plan: Plan, reading: Reading) -> Compiled:
    """The statement that counts the rows of the window, up to ``:most``."""
    probe = replace(plan, where=None)
    compiled = Statement(probe, reading).select(["1"], " LIMIT :most")
    return Compiled(f"SELECT count(*) FROM ({compiled.sql})", compiled.parameters)


def compile_empty(plan: Plan, reading: Reading) -> Compiled:
    """The statement whose one row holds what the outputs are for a bucket without rows, and whether HAVING keeps it.

    The parameters ``:group0``, ``:group1``... stand for the groups.
    """
    sql = Statement(plan, reading, group_sql=":group{}")
    values = [sql.expression(output.expression) for output in plan.outputs if output.group is None]
    kept = "1" if plan.having is None else sql.expression(plan.having)
    # An aggregate without a row: SELECT without GROUP BY over nothing answers one row.
    return sql.select([*values, f"coalesce({kept}, 0)", "count(*)"], "", nothing=True)


def compile_known(grain: Grain, first: int, end: int) -> Compiled:
    """The statement that tells for which numbers from `first` up to, not including, `end` a rollup has the answer."""
    return Compiled(grain.known, {"first": first, "end": end})


def compile_stretches(plan: Plan, reading: Reading, stretches: Sequence[Range]) -> Compiled:
    """The statement that counts the rows of the source in some stretches of time, up to ``:most``."""
    sql = Statement(plan, reading)
    time = plan.source.time_sql
    bounds = ", ".join(f"({sql.bind(stretch.start)}, {sql.bind(stretch.end)})" for stretch in stretches)
    rows = (
        f"SELECT 1 FROM (VALUES {bounds}) AS spans CROSS JOIN {plan.source.table}"
        f" ON {time} >= spans.column1 AND {time} < spans.column2 LIMIT :most"
    )
    return Compiled(f"SELECT count(*) FROM ({rows})", sql.parameters)


def compile_explanation(compiled: Compiled) -> Compiled:
    """The statement that tells how SQLite goes about another one."""
    return Compiled(f"EXPLAIN QUERY PLAN {compiled.sql}", compiled.parameters)


def compile_touch(table: str) -> str:
    """The statement that makes SQLite open a full-text index."""
    return f"SELECT 1 FROM {table} LIMIT 0"
