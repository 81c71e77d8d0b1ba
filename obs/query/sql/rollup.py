"""Rollups: which statements they can answer exactly, and the SELECT that reads them.

The part of the window that no rollup covers is read from the rows, in the same SELECT: each cell and each row becomes
a partial result under the name of the source's table, and the outer SELECT combines them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from obs.query.language.functions import FUNCTIONS
from obs.query.language.plan import Aggregate, Apply, Checked, Plan, Read, walk
from obs.query.sql import Range, Scan
from obs.query.sql.expressions import Writer
from obs.query.sql.select import RowSelect, SqlStatement, key_of
from obs.sources import Grain, Rollup
from obs.times import HOUR_MS

Span = tuple[int, int]
"""Consecutive units of a grain: the number of the first, and the number after the last."""


@dataclass(frozen=True, slots=True)
class Cover:
    """Which part of a window is read from which rollup. `rest` is read from the rows."""

    spans: tuple[tuple[Grain, tuple[Span, ...]], ...]
    rest: tuple[Range, ...]


def select_rollups(plan: Plan, scan: Scan, cover: Cover) -> SqlStatement:
    """The columns are those of `obs.query.sql.select.select`."""
    return RollupSelect(plan, scan, cover=cover).statement()


# Which statements


_DAY_FUNCTIONS = ("weekday", "date")
_HOUR_FUNCTIONS = ("hour", *_DAY_FUNCTIONS)
"""Functions that have the same value for a time and for the start of its hour, or its day in UTC."""


def usable_grains(plan: Plan, scan: Scan) -> list[Grain]:
    """The rollups that can answer a plan exactly, in the order in which to try them."""
    rollup = plan.source.rollup
    if rollup is None or not plan.grouped:
        return []
    written = [output.expression for output in plan.outputs] + [order.expression for order in plan.order]
    written += [plan.having] if plan.having is not None else []
    aggregates = [part for each in written for part in walk(each) if isinstance(part, Aggregate)]
    if not all(_has_measure(aggregate, rollup) for aggregate in aggregates):
        return []
    chosen = [*plan.groups, *([plan.where] if plan.where is not None else [])]
    for aggregate in aggregates:
        chosen += [] if aggregate.filter is None else [aggregate.filter]
        chosen += [] if _reads_cells(aggregate, rollup) else aggregate.arguments
    grains: list[Grain] = []
    for grain in rollup.grains:
        if grain.unit_ms == HOUR_MS:
            functions: Sequence[str] = _HOUR_FUNCTIONS if plan.timezone is None or scan.has_whole_hours else ()
        else:
            functions = _DAY_FUNCTIONS if plan.timezone is None else ()
        columns = {name for each in chosen for name in _columns(each, functions)}
        if columns <= grain.columns and (not grains or grains[0].columns == grain.columns):
            grains.append(grain)
    return [grain for grain in grains if _buckets_start_with_units(scan, grain.unit_ms)]


def _reads_cells(aggregate: Aggregate, rollup: Rollup) -> bool:
    """Whether the argument of an aggregate is what the cells have measured, or the time of a row."""
    match aggregate:
        case Aggregate(name="rate"):
            return True  # its argument is an aggregate, and is checked too
        case Aggregate(arguments=(Read(column=column),)):
            return column.name == rollup.measured or (column.name == "time" and aggregate.name in ("min", "max"))
    return False


def _has_measure(aggregate: Aggregate, rollup: Rollup) -> bool:
    """Whether the rollup has what an aggregate needs, if it keeps apart the columns that the aggregate reads."""
    if aggregate.name == "rate" or not aggregate.arguments:
        return True
    if _reads_cells(aggregate, rollup):
        possible = ("count", "sum", "avg", "min", "max", "any", "stddev")
        return not aggregate.distinct and (aggregate.percent is not None or aggregate.name in possible)
    if aggregate.distinct:
        return aggregate.name == "count"
    return aggregate.name in ("count", "min", "max", "any", "first", "last")


def _columns(expression: Checked, functions: Sequence[str]) -> Iterator[str]:
    """The columns that an expression reads, except for the time as the argument of one of `functions`."""
    match expression:
        case Apply(name=name, arguments=(Read(column=column),)) if column.name == "time" and name in functions:
            return
        case Read():
            yield expression.column.name
        case Apply():
            for argument in expression.arguments:
                yield from _columns(argument, functions)


def _buckets_start_with_units(scan: Scan, unit_ms: int) -> bool:
    """Whether every bucket starts where a unit does. (In time zones with half hours, not every bucket does.)"""
    starts = scan.starts
    if isinstance(starts, range):
        return starts.start % unit_ms == 0 and starts.step % unit_ms == 0
    return all(start % unit_ms == 0 for start in starts)


# The SELECT


class _Measure(NamedTuple):
    """A column of the cells, over the rows that FILTER chooses. ``key`` is `argument`, whose values stay apart."""

    name: str
    filter: Checked | None
    argument: Checked | None = None


_COMBINE: Mapping[str, str] = {
    **dict.fromkeys(("runs", "timed", "total_ms"), "sum"),
    **dict.fromkeys(("least_ms", "first_at"), "min"),
    **dict.fromkeys(("most_ms", "last_at"), "max"),
}
"""The aggregate that combines the partial results of each column of the cells. Durations stay separate."""
_MEASURES = {"sum": "total_ms", "min": "least_ms", "any": "least_ms", "max": "most_ms"}


@dataclass
class RollupSelect(RowSelect):
    """Writing an expression collects the measures that it needs; the inner SELECTs are written last.

    Partial results have the columns ``bucket``, ``g0``... or the key of the group, ``m0``..., and ``scanned``, the
    number of rows read for each.
    """

    cover: Cover = Cover((), ())
    measures: list[_Measure] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        table = self.plan.source.table
        self.known = {
            group: f"({group.column.lookup})" if isinstance(group, Read) and group.column.key else f"{table}.g{number}"
            for number, group in enumerate(self.plan.groups)
        }

    def aggregate(self, aggregate: Aggregate) -> str:
        rollup = self.plan.source.rollup
        assert rollup is not None
        if aggregate.name == "rate":
            return super().aggregate(aggregate)
        argument = aggregate.arguments[0] if aggregate.arguments else None
        if argument is None or not _reads_cells(aggregate, rollup):
            return self._of_key(aggregate, argument)
        if isinstance(argument, Read) and argument.column.name == "time":
            return f"{aggregate.name}({self._measure('first_at' if aggregate.name == 'min' else 'last_at', aggregate)})"
        if aggregate.name == "count":
            return f"coalesce(sum({self._measure('timed', aggregate)}), 0)"
        if aggregate.name == "avg":
            total, counted = self._measure("total_ms", aggregate), self._measure("timed", aggregate)
            return f"(CAST(sum({total}) AS REAL) / nullif(sum({counted}), 0))"
        if aggregate.name == "stddev":
            return f"obs_stddev({self._measure('durations', aggregate)})"
        if aggregate.percent is not None:
            packed = self._measure("durations", aggregate)
            return f"obs_merged_percentile({packed}, {self.bind(aggregate.percent / 100)})"
        name = _MEASURES[aggregate.name]
        return f"{_COMBINE[name]}({self._measure(name, aggregate)})"

    def _of_key(self, aggregate: Aggregate, argument: Checked | None) -> str:
        """An aggregate of rows, or of a value that all rows of a cell have in common."""
        if argument is None:
            return f"coalesce(sum({self._measure('runs', aggregate)}), 0)"
        if aggregate.name == "count" and not aggregate.distinct:
            return f"coalesce(sum({self._measure('runs', aggregate, argument)}), 0)"
        key = self._measure("key", aggregate, argument)
        if aggregate.name in ("first", "last"):
            return f"obs_{aggregate.name}({self._measure(f'{aggregate.name}_at', aggregate, argument)}, {key})"
        return FUNCTIONS[aggregate.name].write(key, distinct="DISTINCT " if aggregate.distinct else "")

    def bucket(self) -> str:
        return f"{self.plan.source.table}.bucket"

    def scanned(self) -> str:
        return f"coalesce(sum({self.plan.source.table}.scanned), 0)"

    def ranking(self) -> RowSelect:
        scan = replace(self.scan, timeline=None)
        return RollupSelect(self.plan, scan, parameters=self.parameters, cover=self.cover)

    def select(self, columns: Sequence[str], tail: str, where: Sequence[str] | None = None) -> SqlStatement:
        assert where is None
        source = self.plan.source
        parts = [self._select_part(grain, spans) for grain, spans in self.cover.spans]
        if self.cover.rest:
            rows = f"{{spans}} CROSS JOIN {source.table} {{joins}}"
            spans = [(each.start, each.end) for each in self.cover.rest]
            parts.append(self._select_part(Grain(1, source.time_sql, "", frozenset(), rows, ""), spans))
        top = f" {self.top_join}" if self.top_join else ""
        inner = " UNION ALL ".join(parts)
        return self.finished(f"SELECT {', '.join(columns)} FROM ({inner}) AS {source.table}{top}{tail}")

    def _measure(self, name: str, aggregate: Aggregate, argument: Checked | None = None) -> str:
        measure = _Measure(name, aggregate.filter, argument)
        if measure not in self.measures:
            self.measures.append(measure)
        return f"{self.plan.source.table}.m{self.measures.index(measure)}"

    def _select_part(self, grain: Grain, spans: Sequence[Span]) -> str:
        """Partial results from cells, or from rows where the grain names no cells. Durations stay as they are."""
        plan = self.plan
        time_sql = f"{grain.cells}.started_at" if grain.cells else plan.source.time_sql
        writer = RowSelect(plan, self.scan, parameters=self.parameters, time_sql=time_sql)
        bounds = ", ".join(f"({self.bind(first)}, {self.bind(end)})" for first, end in spans)
        conditions = [f"{grain.number} >= spans.column1", f"{grain.number} < spans.column2"]
        columns = [f"{writer.bucket() if self.scan.timeline is not None else '0'} AS bucket"]
        keys = [] if self.scan.timeline is None else ["1"]
        for number, group in enumerate(plan.groups):
            key = key_of(group)
            columns.append(f"{key} AS {key.rpartition('.')[2]}" if key else f"{writer.raw(group)} AS g{number}")
            keys.append(str(len(columns)))
        combined = not any(measure.name == "durations" for measure in self.measures)
        for number, measure in enumerate(self.measures):
            value = self._value(writer, measure, grain)
            combine = _COMBINE.get(measure.name) if combined else None
            columns.append(f"{combine}({value}) AS m{number}" if combine else f"{value} AS m{number}")
            keys += [] if combine else [str(len(columns))]
        columns.append(f"{'count(*)' if combined else '1'} AS scanned")
        if plan.source.where:
            conditions.append(f"({plan.source.where})")
        if plan.where is not None:
            conditions.append(writer.expression(plan.where))
        joins = " ".join(text for name, text in plan.source.joins if name in writer.joins)
        tables = grain.from_sql.format(spans=f"(VALUES {bounds}) AS spans", joins=joins)
        if grain.key and not any(time_sql in column for column in columns):
            keys = [grain.key]  # its rows follow each other, so nothing has to be sorted
        tail = f" GROUP BY {', '.join(keys)}" if combined and keys else ""
        return f"SELECT {', '.join(columns)} FROM {tables} WHERE {' AND '.join(conditions)}{tail}"

    def _value(self, writer: Writer, measure: _Measure, grain: Grain) -> str:
        """The SQL of a measure for one cell or row."""
        source = self.plan.source
        assert source.rollup is not None
        column = source.by_name()[source.rollup.measured].sql
        rows = {"runs": "1", "timed": f"({column} IS NOT NULL)"} | dict.fromkeys(
            ("first_at", "last_at"), source.time_sql
        )
        conditions = [] if measure.filter is None else [writer.expression(measure.filter)]
        if measure.name == "key":
            assert measure.argument is not None
            value = writer.expression(measure.argument)
        else:
            value = f"{grain.cells}.{measure.name}" if grain.cells else rows.get(measure.name, column)
            conditions += [] if measure.argument is None else [f"{writer.raw(measure.argument)} IS NOT NULL"]
        return f"CASE WHEN {' AND '.join(conditions)} THEN {value} END" if conditions else value
