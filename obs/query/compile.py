"""Plans to SQL. Every value is a bound parameter, every identifier comes from the source's own description.

Statements are put together here, expressions in `obs.query.writing`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from obs.query.plan import Apply, Checked, Constant, Plan, Read
from obs.query.writing import Reading, Value, Writer
from obs.sources import Column


@dataclass(frozen=True, slots=True)
class Compiled:
    """A statement for SQLite and its parameters.

    The columns of its rows are, for a grouped plan: the number of the bucket (0 without EVERY), the groups, the
    outputs that are no groups, whether HAVING keeps the row, and the count of the rows behind it; else the outputs.
    A bucket that HAVING drops is there, so that it is not taken for one without rows.
    """

    sql: str
    parameters: Mapping[str, Value]


def compile_plan(plan: Plan, reading: Reading) -> Compiled:
    """The statement that reads what the plan asks for."""
    sql = _Statement(plan, reading)
    if not plan.grouped:
        columns = [sql.shown(output.expression) for output in plan.outputs]
        tail = sql.order_by() + sql.limit(plan.limit)
        return sql.select(columns, tail)
    bucket = sql.bucket() if reading.interval_ms is not None else "0"
    groups = [sql.group(group) for group in plan.groups]
    aggregates = [sql.shown(output.expression) for output in plan.outputs if output.group is None]
    kept = "1" if plan.having is None else f"coalesce({sql.expression(plan.having)}, 0)"
    keys = [] if reading.interval_ms is None else ["1"]
    keys += [_key(group) or str(number) for number, group in enumerate(plan.groups, 2)]
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
    return sql.select([bucket, *groups, *aggregates, kept, "count(*)"], tail)


def compile_bucket(plan: Plan, reading: Reading) -> Compiled:
    """The statement that reads one bucket, from ``:start`` to ``:end``; its rows are those of a grouped plan."""
    sql = _Statement(plan, reading)
    groups = [sql.group(group) for group in plan.groups]
    aggregates = [sql.shown(output.expression) for output in plan.outputs if output.group is None]
    kept = "1" if plan.having is None else f"coalesce({sql.expression(plan.having)}, 0)"
    keys = [_key(group) or str(number) for number, group in enumerate(plan.groups, 2)]
    tail = f" GROUP BY {', '.join(keys)}" if keys else ""
    return sql.select(["0", *groups, *aggregates, kept, "count(*)"], tail)


def compile_probe(plan: Plan, reading: Reading) -> Compiled:
    """The statement that counts the rows of the window, up to ``:most``."""
    probe = replace(plan, where=None)
    compiled = _Statement(probe, reading).select(["1"], " LIMIT :most")
    return Compiled(f"SELECT count(*) FROM ({compiled.sql})", compiled.parameters)


def compile_empty(plan: Plan, reading: Reading) -> Compiled:
    """The statement whose one row holds what the outputs are for a bucket without rows, and whether HAVING keeps it.

    The parameters ``:group0``, ``:group1``... stand for the groups.
    """
    sql = _Statement(plan, reading, groups_bound=True)
    values = [sql.expression(output.expression) for output in plan.outputs if output.group is None]
    kept = "1" if plan.having is None else sql.expression(plan.having)
    # An aggregate without a row: SELECT without GROUP BY over nothing answers one row.
    return sql.select([*values, f"coalesce({kept}, 0)", "count(*)"], "", nothing=True)


def compile_explanation(compiled: Compiled) -> Compiled:
    """The statement that tells how SQLite goes about another one."""
    return Compiled(f"EXPLAIN QUERY PLAN {compiled.sql}", compiled.parameters)


def compile_touch(table: str) -> str:
    """The statement that makes SQLite open a full-text index."""
    return f"SELECT 1 FROM {table} LIMIT 0"


@dataclass(slots=True)
class _Statement(Writer):
    """A statement in the making."""

    top: str = ""

    def select(self, columns: Sequence[str], tail: str, *, nothing: bool = False) -> Compiled:
        """The whole statement."""
        source = self.plan.source
        conditions = [f"{source.time_sql} >= :start", f"{source.time_sql} < :end"]
        if source.where:
            conditions.append(f"({source.where})")
        if self.plan.where is not None:
            conditions += [*self.searches(self.plan.where), self.expression(self.plan.where)]
        if nothing:
            conditions = ["0"]
        driver = driver_of(self.plan) if self.reading.group_by_group else None
        joins = [text for name, text in source.joins if name in self.joins and not (driver and name == driver.join)]
        tables = " ".join([driver.driver if driver else source.table, *joins, *([self.top] if self.top else [])])
        sql = f"SELECT {', '.join(columns)} FROM {tables} WHERE {' AND '.join(conditions)}{tail}"
        window = self.reading.window
        fixed = {"start": window.start, "end": window.end, "now": self.reading.now_ms}
        used = {name: value for name, value in fixed.items() if f":{name}" in sql}
        return Compiled(sql, {**self.parameters, **used})

    def searches(self, condition: Checked) -> list[str]:
        """For every CONTAINS that has to hold: the rows in which a full-text index finds the text, if there is one."""
        match condition:
            case Apply(name="and"):
                return [search for argument in condition.arguments for search in self.searches(argument)]
            case Apply(name="contains", arguments=(Read() as text, Constant(value=str(part)))):
                column = text.column
                if column.search and len(part) >= _TRIGRAM and "\0" not in part:
                    phrase = self.bind('"' + part.replace('"', '""') + '"')
                    found = f"SELECT rowid FROM {column.search} WHERE {column.search} MATCH {phrase}"
                    return [f"{self.plan.source.table}.id IN ({found} UNION ALL {column.unsearched})"]
        return []

    def bucket(self) -> str:
        """The number of the bucket that a row falls in."""
        time = self.plan.source.time_sql
        if self.reading.by_clock is not None:
            return f"obs_bucket({self.bind(self.reading.by_clock)}, {time})"
        assert self.reading.interval_ms is not None
        return f"({time} - {self.bind(self.reading.starts[0])}) / {self.bind(self.reading.interval_ms)}"

    def order_by(self, keys: Sequence[str] = ()) -> str:
        """ORDER BY as the statement says, then by what makes the order the same every time."""
        parts = [
            f"{self.expression(order.expression)}{' DESC' if order.descending else ''}" for order in self.plan.order
        ]
        if self.plan.grouped:
            if not parts and self.plan.top is not None:
                parts.append(f"{self.expression(self._first_aggregate())} DESC")
            parts += [self._sorted_group(group) for group in self.plan.groups] if keys else []
        elif not parts:
            parts.append(self.plan.source.time_sql)
        return f" ORDER BY {', '.join(parts)}" if parts else ""

    def _sorted_group(self, group: Checked) -> str:
        return self.group(group) if _key(group) else self.expression(group)

    def limit(self, *limits: int | None) -> str:
        """LIMIT: the smallest of what is asked for and what may be answered."""
        given = [limit for limit in (*limits, self.reading.most_rows) if limit is not None]
        return f" LIMIT {self.bind(min(given))}" if given else ""

    def only_top(self) -> None:
        """Keep the rows of the groups with the largest first aggregate over the whole window."""
        plan = self.plan
        ranking = _Statement(plan, self.reading, parameters=self.parameters)
        groups = [f"{ranking.expression(group)} AS g{number}" for number, group in enumerate(plan.groups)]
        keys = [str(number + 1) for number in range(len(groups))]
        order = f" ORDER BY {ranking.expression(self._first_aggregate())} DESC, {', '.join(keys)}"
        chosen = ranking.select(groups, f" GROUP BY {', '.join(keys)}{order}{ranking.limit(plan.top)}")
        same = [f"chosen.g{number} IS {self.expression(group)}" for number, group in enumerate(plan.groups)]
        self.top = f"JOIN ({chosen.sql}) AS chosen ON {' AND '.join(same)}"

    def _first_aggregate(self) -> Checked:
        return next(output.expression for output in self.plan.outputs if output.group is None)


def driver_of(plan: Plan) -> Column | None:
    """The column that is the plan's only group and brings its rows group by group, if there is one."""
    if len(plan.groups) != 1 or plan.interval_ms is not None:
        return None
    (group,) = plan.groups
    return group.column if isinstance(group, Read) and group.column.driver else None


def _key(expression: Checked) -> str:
    return expression.column.key if isinstance(expression, Read) else ""


_TRIGRAM = 3
"""The shortest text that a full-text index of trigrams can find."""
