"""Expressions to SQL: a value becomes a bound parameter, a column what its source says of it."""

from dataclasses import dataclass, field

from obs.query.language.plan import Aggregate, Apply, Checked, Constant, Plan, Read
from obs.query.sql.operations import CLOSED, OPERATIONS
from obs.query.sql.scan import Scan
from obs.sources import Column

Value = str | int | float | None


@dataclass(slots=True)
class Writer:
    """Writes expressions of a plan, and collects the parameters and the joins that they need.

    Where the groups are known already, `group_sql` says how: ``:group{}`` for parameters, with the group's number.
    """

    plan: Plan
    scan: Scan
    group_sql: str = ""
    parameters: dict[str, Value] = field(default_factory=dict)
    joins: set[str] = field(default_factory=set)

    def bind(self, value: Value) -> str:
        """The parameter that holds a value."""
        name = f"p{len(self.parameters)}"
        self.parameters[name] = value
        return f":{name}"

    def group(self, expression: Checked) -> str:
        """A group as a column; where it has a key, the value is looked up once for every group."""
        if isinstance(expression, Read) and expression.column.key:
            return f"({expression.column.lookup})"
        return self.shown(expression)

    def shown(self, expression: Checked) -> str:
        """An expression as a column; a stored number stays one where `obs.query.execution.result` knows its text."""
        return self.raw(expression) if isinstance(expression, Read) else self.expression(expression)

    def raw(self, expression: Checked) -> str:
        """An expression, as it is stored: for what is the same of a number and of the text it stands for."""
        if not isinstance(expression, Read):
            return self.expression(expression)
        if (known := self.known_group(expression)) is not None:
            return known
        if expression.column.join:
            self.joins.add(expression.column.join)
        return expression.column.sql

    def expression(self, expression: Checked) -> str:
        """An expression, in parentheses where it needs them."""
        if not isinstance(expression, Read) and (known := self.known_group(expression)) is not None:
            return known
        match expression:
            case Read():
                sql = self.raw(expression)
                return (
                    _text_of(sql, expression.column) if expression.column.values else f"({sql})" if " " in sql else sql
                )
            case Constant():
                value = expression.value
                if value is None or isinstance(value, bool):
                    return {None: "NULL", True: "1", False: "0"}[value]
                return self.bind(value)
            case Aggregate():
                return self.aggregate(expression)
            case Apply():
                sql = OPERATIONS[expression.name](self, expression)
                return sql if expression.name in CLOSED else f"({sql})"

    def known_group(self, expression: Checked) -> str | None:
        """What stands for a group where the groups are known already."""
        if not self.group_sql or expression not in self.plan.groups:
            return None
        return self.group_sql.format(self.plan.groups.index(expression))

    def aggregate(self, aggregate: Aggregate) -> str:
        """An aggregate."""
        filter_ = f" FILTER (WHERE {self.expression(aggregate.filter)})" if aggregate.filter is not None else ""
        distinct = "DISTINCT " if aggregate.distinct else ""
        name = aggregate.name
        if name == "count":
            counted = self.raw(aggregate.arguments[0]) if aggregate.arguments else "*"
            return f"count({distinct}{counted}){filter_}"
        if name == "rate":
            assert aggregate.per_ms is not None
            factor = aggregate.per_ms / self.scan.rate_ms
            return f"({self.expression(aggregate.arguments[0])} * {self.bind(factor)})"
        argument = self.expression(aggregate.arguments[0])
        if aggregate.percent is not None:
            function = "obs_approximate_percentile" if name.startswith("approx_") else "obs_percentile"
            return f"{function}({argument}, {self.bind(aggregate.percent / 100)}){filter_}"
        if name in ("first", "last"):
            return f"obs_{name}({self.plan.source.time_sql}, {argument}){filter_}"
        if name == "stddev":
            return f"obs_stddev({argument}){filter_}"
        return f"{'min' if name == 'any' else name}({distinct}{argument}){filter_}"

    def enumerated(self, expression: Apply) -> str | None:
        """``=``, ``!=`` and IN between a column of `values` and texts, as one of the numbers that are stored."""
        column, *others = expression.arguments
        if expression.name in ("=", "!=") and isinstance(column, Constant):
            column, others = others[0], [column]
        if not isinstance(column, Read) or not column.column.values:
            return None
        values = column.column.values
        numbers = []
        for other in others:
            if not isinstance(other, Constant):
                return None
            numbers.append(self.bind(values.index(other.value) if other.value in values else -1))
        if expression.name in ("=", "!="):
            return f"{self.raw(column)} {expression.name} {numbers[0]}"
        return f"{self.raw(column)} {expression.name.upper()} ({', '.join(numbers)})"


def _text_of(sql: str, column: Column) -> str:
    """The text that a stored number stands for. The texts are ours: STATUSES and the like."""
    cases = " ".join(f"WHEN {number} THEN '{value}'" for number, value in enumerate(column.values))
    return f"CASE {sql} {cases} END"
