"""A statement in the making, from the rows of a source."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from obs.query.language.plan import Apply, Checked, Constant, Plan, Read
from obs.query.sql.expressions import Value, Writer
from obs.sources import Column


@dataclass(frozen=True, slots=True)
class Compiled:
    """A statement for SQLite and its parameters."""

    sql: str
    parameters: Mapping[str, Value]


@dataclass(slots=True)
class Statement(Writer):
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
        return self.compiled(f"SELECT {', '.join(columns)} FROM {tables} WHERE {' AND '.join(conditions)}{tail}")

    def compiled(self, sql: str) -> Compiled:
        """A statement with its parameters."""
        window = self.reading.window
        fixed = {"start": window.start, "end": window.end, "now": self.reading.now_ms}
        used = {name: value for name, value in fixed.items() if f":{name}" in sql}
        return Compiled(sql, {**self.parameters, **used})

    def scanned(self) -> str:
        """How many rows of the source are behind a row."""
        return "count(*)"

    def ranking(self) -> "Statement":
        """The same, without buckets, to choose groups by."""
        return Statement(self.plan, self.reading, parameters=self.parameters)

    def searches(self, condition: Checked) -> list[str]:
        """For every CONTAINS that has to hold: the rows in which a full-text index finds the text, if there is one."""
        match condition:
            case Apply(name="and"):
                return [search for argument in condition.arguments for search in self.searches(argument)]
            case Apply(name="contains", arguments=(Read() as text, Constant(value=str(part)))):
                column = text.column
                if column.search and len(part) >= _TRIGRAM and "\0" not in part:
                    found = (
                        f"SELECT rowid FROM {column.search} WHERE {column.search} MATCH {self.bind(_trigrams(part))}"
                    )
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
        # A constant orders nothing, and SQLite would take TRUE for the number of a column.
        parts = [
            f"{self._sorted(order.expression)}{' DESC' if order.descending else ''}"
            for order in self.plan.order
            if not isinstance(order.expression, Constant)
        ]
        if self.plan.grouped:
            if not parts and self.plan.top is not None:
                parts.append(f"{self.expression(self._first_aggregate())} DESC")
            groups = [group for group in self.plan.groups if not isinstance(group, Constant)]
            parts += [self._sorted_group(group) for group in groups] if keys else []
        elif not parts:
            parts.append(self.plan.source.time_sql)
        return f" ORDER BY {', '.join(parts)}" if parts else ""

    def _sorted_group(self, group: Checked) -> str:
        return self.group(group) if key_of(group) else self._sorted(group)

    def _sorted(self, expression: Checked) -> str:
        """What to sort by. Of ``x AND FALSE`` SQLite makes 0, which it would take for the number of a column."""
        text = self.expression(expression)
        folds = isinstance(expression, Apply) and expression.name in ("and", "or")
        return f"coalesce({text}, NULL)" if folds else text

    def limit(self, *limits: int | None) -> str:
        """LIMIT: the smallest of what is asked for and what may be answered."""
        given = [limit for limit in (*limits, self.reading.most_rows) if limit is not None]
        return f" LIMIT {self.bind(min(given))}" if given else ""

    def only_top(self) -> None:
        """Keep the rows of the groups with the largest first aggregate over the whole window."""
        plan = self.plan
        ranking = self.ranking()
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


def key_of(expression: Checked) -> str:
    return expression.column.key if isinstance(expression, Read) else ""


_TRIGRAM = 3
"""The shortest text that a full-text index of trigrams can find."""
_MOST_TRIGRAMS = 12


def _trigrams(text: str) -> str:
    """What the index is asked for a text: all of some of its trigrams, from its start to its end.

    It does not know where in a message they stand, so what it finds is looked at once more.
    """
    last = len(text) - _TRIGRAM
    parts = min(last + 1, _MOST_TRIGRAMS)
    starts = [last * part // max(1, parts - 1) for part in range(parts)]
    some = dict.fromkeys(text[start : start + _TRIGRAM] for start in starts)
    return " AND ".join('"' + trigram.replace('"', '""') + '"' for trigram in some)
