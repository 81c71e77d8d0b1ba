"""A statement in the making, from a rollup where there is one, and from the rows of its source where there is none.

Both are read in one SELECT: what each hour, or each row, has to say is brought together under the name of the source's
table, and counted together again outside.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from obs.query.language.plan import Aggregate, Checked, Read
from obs.query.sql.compile_rows import Compiled, Statement, driver_of, key_of
from obs.query.sql.expressions import Writer
from obs.query.sql.reading import Rolled
from obs.sources import Grain, Rollup

_COMBINED: Mapping[str, str] = {"rows": "sum", "counted": "sum", "total": "sum", "least": "min", "most": "max"}
"""How what hours say becomes what they say together. The values themselves, ``packed``, stay apart."""
_NAMED = {"sum": "total", "min": "least", "any": "least", "max": "most"}


@dataclass(frozen=True, slots=True)
class _Measure:
    """What every hour is asked for: a column of the rollup, for the rows that an aggregate's FILTER chooses."""

    name: str
    filter: Checked | None


@dataclass(slots=True)
class RolledStatement(Statement):
    """A statement over hours and rows; it is put together after its expressions are written, which say what it needs.

    The rows in it have the columns ``bucket``, ``g0``, ``g1``... or the key of the group, ``m0``, ``m1``..., and
    ``scanned``, how many rows were read for it.
    """

    group_sql: str = "{table}.g{{}}"
    measures: list[_Measure] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.group_sql = self.group_sql.format(table=self.plan.source.table)

    @property
    def rolled(self) -> Rolled:
        """What is read where."""
        assert self.reading.rolled is not None
        return self.reading.rolled

    @property
    def rollup(self) -> Rollup:
        """The rollup of the source."""
        assert self.plan.source.rollup is not None
        return self.plan.source.rollup

    def known_group(self, expression: Checked) -> str | None:
        """A group as the rows inside have it; what has a key is looked up."""
        if isinstance(expression, Read) and key_of(expression) and expression in self.plan.groups:
            return f"({expression.column.lookup})"
        return Statement.known_group(self, expression)

    def aggregate(self, aggregate: Aggregate) -> str:
        """An aggregate out of what hours and rows say."""
        if aggregate.name == "rate":
            return Statement.aggregate(self, aggregate)
        if aggregate.name == "count":
            measure = self._measure("counted" if aggregate.arguments else "rows", aggregate)
            return f"coalesce(sum({measure}), 0)"
        if aggregate.name == "avg":
            total, counted = self._measure("total", aggregate), self._measure("counted", aggregate)
            return f"(CAST(sum({total}) AS REAL) / nullif(sum({counted}), 0))"
        if aggregate.percent is not None:
            function = "approximate_percentile" if aggregate.name.startswith("approx_") else "percentile"
            return f"obs_merged_{function}({self._measure('packed', aggregate)}, {self.bind(aggregate.percent / 100)})"
        name = _NAMED[aggregate.name]
        return f"{_COMBINED[name]}({self._measure(name, aggregate)})"

    def bucket(self) -> str:
        """The number of the bucket."""
        return f"{self.plan.source.table}.bucket"

    def scanned(self) -> str:
        """How many rows were read."""
        return f"coalesce(sum({self.plan.source.table}.scanned), 0)"

    def select(self, columns: Sequence[str], tail: str, *, nothing: bool = False) -> Compiled:
        """The whole statement."""
        together = not any(measure.name == "packed" for measure in self.measures)
        parts = [self._counted(grain, spans) for grain, spans in self.rolled.spans]
        if not together:
            parts += [self._values(spans) for _, spans in self.rolled.spans]
        if self.rolled.stretches:
            parts.append(self._rows(together=together))
        top = f" {self.top}" if self.top else ""
        inside = " UNION ALL ".join(parts)
        sql = f"SELECT {', '.join(columns)} FROM ({inside}) AS {self.plan.source.table}{top}{tail}"
        return self.compiled(sql)

    def ranking(self) -> Statement:
        """The same, without buckets, to choose groups by."""
        reading = replace(self.reading, interval_ms=None, by_clock=None)
        return RolledStatement(self.plan, reading, parameters=self.parameters)

    def _measure(self, name: str, aggregate: Aggregate) -> str:
        measure = _Measure(name, aggregate.filter)
        if measure not in self.measures:
            self.measures.append(measure)
        return f"{self.plan.source.table}.m{self.measures.index(measure)}"

    def _counted(self, grain: Grain, spans: Sequence[tuple[int, int]]) -> str:
        """The SELECT of what a rollup says, counted together."""
        rollup = self.rollup
        said = {
            "rows": rollup.rows,
            "counted": rollup.counted,
            "total": rollup.total,
            "least": rollup.least,
            "most": rollup.most,
        }
        return self._part(grain, spans, said, together=True)

    def _values(self, spans: Sequence[tuple[int, int]]) -> str:
        """The SELECT of the values that percentiles are made of."""
        values = self.rollup.values
        return self._part(values, spans, {"packed": self.rollup.packed}, together=False)

    def _rows(self, *, together: bool) -> str:
        """The SELECT from the rows of the stretches that no rollup speaks for."""
        source = self.plan.source
        column = source.column(self.rollup.measured)
        assert column is not None
        said = dict.fromkeys(("total", "least", "most", "packed"), column.sql)
        said |= {"rows": "1", "counted": f"({column.sql} IS NOT NULL)"}
        rows = Grain(1, source.time_sql, "", frozenset(), f"{{}} CROSS JOIN {source.table}")
        spans = [(stretch.start, stretch.end) for stretch in self.rolled.stretches]
        return self._part(rows, spans, said, together=together)

    def _part(self, grain: Grain, spans: Sequence[tuple[int, int]], said: Mapping[str, str], *, together: bool) -> str:
        """A SELECT of what a grain says; `said` has the SQL of each measure, NULL stands for those it leaves out."""
        plan = self.plan
        writer = Statement(plan, self.reading, parameters=self.parameters)
        bounds = ", ".join(f"({self.bind(first)}, {self.bind(end)})" for first, end in spans)
        conditions = [f"{grain.number} >= spans.column1", f"{grain.number} < spans.column2"]
        columns = [f"{writer.bucket() if self.reading.interval_ms is not None else '0'} AS bucket"]
        keys = [] if self.reading.interval_ms is None else ["1"]
        for number, group in enumerate(plan.groups):
            key = key_of(group)
            columns.append(f"{key} AS {key.rpartition('.')[2]}" if key else f"{writer.raw(group)} AS g{number}")
            keys.append(str(number + 2))
        for number, measure in enumerate(self.measures):
            columns.append(f"{_value(writer, measure, said, together=together)} AS m{number}")
        columns.append(f"{'count(*)' if together else '1'} AS scanned")
        if plan.source.where:
            conditions.append(f"({plan.source.where})")
        if plan.where is not None:
            conditions.append(writer.expression(plan.where))
        if (driver := driver_of(plan)) and driver.join in grain.joins:
            keys = [driver.driver_key]
        tables = grain.tables.format(f"(VALUES {bounds}) AS spans")
        joins = [text for name, text in plan.source.joins if name in writer.joins and name not in grain.joins]
        tail = f" GROUP BY {', '.join(keys)}" if together and keys else ""
        return f"SELECT {', '.join(columns)} FROM {' '.join([tables, *joins])} WHERE {' AND '.join(conditions)}{tail}"


def _value(writer: Writer, measure: _Measure, said: Mapping[str, str], *, together: bool) -> str:
    value = said.get(measure.name, "NULL")
    if measure.filter is not None and value != "NULL":
        value = f"CASE WHEN {writer.expression(measure.filter)} THEN {value} END"
    return f"{_COMBINED[measure.name]}({value})" if together and measure.name in _COMBINED else value
