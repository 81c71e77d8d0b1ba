"""Rollups: which statements they can answer exactly, and the SELECT that reads them.

A rollup counts the rows of a source together by a unit of time, an hour or a day. The part of the window that no
rollup covers is read from the rows, in the same SELECT: each hour and each row becomes a partial result under the name
of the source's table, and the outer SELECT combines them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from obs.query.language.plan import Aggregate, Apply, Checked, Plan, Read, walk
from obs.query.sql import Range, Scan
from obs.query.sql.expressions import Writer
from obs.query.sql.select import RowSelect, SqlStatement, driver_of, key_of
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
    """The SELECT that reads the result of a grouped plan; its columns are those of `obs.query.sql.select.select`."""
    return RollupSelect(plan, scan, cover=cover).statement()


# Which statements


_DAY_FUNCTIONS = ("weekday", "date")
_HOUR_FUNCTIONS = ("hour", *_DAY_FUNCTIONS)
"""Functions that have the same value, in UTC, for a time and for the start of its hour (or day)."""


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
    chosen += [aggregate.filter for aggregate in aggregates if aggregate.filter is not None]
    has_percentiles = any(aggregate.percent is not None for aggregate in aggregates)
    grains: list[Grain] = []
    for grain in rollup.grains:
        functions = _HOUR_FUNCTIONS if grain.unit_ms == HOUR_MS else _DAY_FUNCTIONS
        columns = {name for each in chosen for name in _columns(each, () if plan.timezone else functions)}
        if has_percentiles and (grain.unit_ms != rollup.values.unit_ms or not columns <= rollup.values.columns):
            continue
        if columns <= grain.columns and (not grains or grains[0].columns == grain.columns):
            grains.append(grain)
    return [grain for grain in grains if _buckets_start_with_units(scan, grain.unit_ms)]


def _has_measure(aggregate: Aggregate, rollup: Rollup) -> bool:
    """Whether the rollup has what an aggregate needs."""
    match aggregate:
        case Aggregate(name="rate"):
            return True  # its argument is an aggregate, and is checked too
        case Aggregate(distinct=True):
            return False
        case Aggregate(name="count", arguments=()):
            return True
        case Aggregate(arguments=(Read(column=column),)) if column.name == rollup.measured:
            return aggregate.percent is not None or aggregate.name in ("count", "sum", "avg", "min", "max", "any")
    return False


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


_COMBINE: Mapping[str, str] = {"rows": "sum", "counted": "sum", "total": "sum", "least": "min", "most": "max"}
"""The aggregate that combines the partial results of each measure, by its name in `Rollup`. The values themselves,
``packed``, stay separate."""
_MEASURES = {"sum": "total", "min": "least", "any": "least", "max": "most"}


class _Measure(NamedTuple):
    """A column of the partial results: a measure of the rollup, over the rows that an aggregate's FILTER chooses."""

    name: str
    filter: Checked | None


@dataclass
class RollupSelect(RowSelect):
    """Writes one SELECT over rollups and the rows that they do not cover.

    Writing an expression collects the measures that it needs; the inner SELECTs are written last. The partial results
    have the columns ``bucket``, ``g0``, ``g1``... or the key of the group, ``m0``, ``m1``..., and ``scanned``, the
    number of rows read for each.
    """

    cover: Cover = Cover((), ())
    measures: list[_Measure] = field(default_factory=list)

    def __post_init__(self) -> None:
        groups = enumerate(self.plan.groups)
        self.known = {
            group: f"({group.column.lookup})"
            if isinstance(group, Read) and group.column.key
            else f"{self.plan.source.table}.g{number}"
            for number, group in groups
        }

    @property
    def rollup(self) -> Rollup:
        """The rollup of the source."""
        assert self.plan.source.rollup is not None
        return self.plan.source.rollup

    def aggregate(self, aggregate: Aggregate) -> str:
        """An aggregate, computed from partial results."""
        if aggregate.name == "rate":
            return super().aggregate(aggregate)
        if aggregate.name == "count":
            measure = self._measure("counted" if aggregate.arguments else "rows", aggregate)
            return f"coalesce(sum({measure}), 0)"
        if aggregate.name == "avg":
            total, counted = self._measure("total", aggregate), self._measure("counted", aggregate)
            return f"(CAST(sum({total}) AS REAL) / nullif(sum({counted}), 0))"
        if aggregate.percent is not None:
            function = "approximate_percentile" if aggregate.name.startswith("approx_") else "percentile"
            return f"obs_merged_{function}({self._measure('packed', aggregate)}, {self.bind(aggregate.percent / 100)})"
        name = _MEASURES[aggregate.name]
        return f"{_COMBINE[name]}({self._measure(name, aggregate)})"

    def bucket(self) -> str:
        """The number of the bucket that a partial result is in."""
        return f"{self.plan.source.table}.bucket"

    def scanned(self) -> str:
        """The number of rows read for a row of the result."""
        return f"coalesce(sum({self.plan.source.table}.scanned), 0)"

    def ranking(self) -> RowSelect:
        """A writer for the SELECT that ranks groups over the whole window."""
        scan = replace(self.scan, timeline=None)
        return RollupSelect(self.plan, scan, parameters=self.parameters, cover=self.cover)

    def select(self, columns: Sequence[str], tail: str, where: Sequence[str] | None = None) -> SqlStatement:
        """The SELECT of `columns` over the partial results."""
        assert where is None
        combined = not any(measure.name == "packed" for measure in self.measures)
        rollup = self.rollup
        counts = {name: getattr(rollup, name) for name in _COMBINE}
        parts = [self._select_part(grain, spans, counts, combined=True) for grain, spans in self.cover.spans]
        if not combined:
            packed = {"packed": rollup.packed}
            parts += [self._select_part(rollup.values, spans, packed, combined=False) for _, spans in self.cover.spans]
        if self.cover.rest:
            parts.append(self._select_rows(combined=combined))
        top = f" {self.top_join}" if self.top_join else ""
        inner = " UNION ALL ".join(parts)
        return self.finished(f"SELECT {', '.join(columns)} FROM ({inner}) AS {self.plan.source.table}{top}{tail}")

    def _measure(self, name: str, aggregate: Aggregate) -> str:
        measure = _Measure(name, aggregate.filter)
        if measure not in self.measures:
            self.measures.append(measure)
        return f"{self.plan.source.table}.m{self.measures.index(measure)}"

    def _select_rows(self, *, combined: bool) -> str:
        """The SELECT over the rows of the ranges that no rollup covers."""
        source = self.plan.source
        column = source.by_name()[self.rollup.measured]
        values = dict.fromkeys(("total", "least", "most", "packed"), column.sql)
        values |= {"rows": "1", "counted": f"({column.sql} IS NOT NULL)"}
        rows = Grain(1, source.time_sql, "", frozenset(), f"{{}} CROSS JOIN {source.table}")
        spans = [(each.start, each.end) for each in self.cover.rest]
        return self._select_part(rows, spans, values, combined=combined)

    def _select_part(self, grain: Grain, spans: Sequence[Span], values: Mapping[str, str], *, combined: bool) -> str:
        """A SELECT of partial results. `values` has the SQL of each measure; a measure that it lacks is NULL.

        `combined`: one partial result for each group and bucket, else one for each row.
        """
        plan = self.plan
        writer = RowSelect(plan, self.scan, parameters=self.parameters)
        bounds = ", ".join(f"({self.bind(first)}, {self.bind(end)})" for first, end in spans)
        conditions = [f"{grain.number} >= spans.column1", f"{grain.number} < spans.column2"]
        columns = [f"{writer.bucket() if self.scan.timeline is not None else '0'} AS bucket"]
        keys = [] if self.scan.timeline is None else ["1"]
        for number, group in enumerate(plan.groups):
            key = key_of(group)
            columns.append(f"{key} AS {key.rpartition('.')[2]}" if key else f"{writer.raw(group)} AS g{number}")
            keys.append(str(number + 2))
        for number, measure in enumerate(self.measures):
            columns.append(f"{_value(writer, measure, values, combined=combined)} AS m{number}")
        columns.append(f"{'count(*)' if combined else '1'} AS scanned")
        if plan.source.where:
            conditions.append(f"({plan.source.where})")
        if plan.where is not None:
            conditions.append(writer.expression(plan.where))
        if (driver := driver_of(plan)) and driver.join in grain.joins:
            keys = [driver.driver_key]
        tables = grain.from_sql.format(f"(VALUES {bounds}) AS spans")
        joins = [text for name, text in plan.source.joins if name in writer.joins and name not in grain.joins]
        tail = f" GROUP BY {', '.join(keys)}" if combined and keys else ""
        return f"SELECT {', '.join(columns)} FROM {' '.join([tables, *joins])} WHERE {' AND '.join(conditions)}{tail}"


def _value(writer: Writer, measure: _Measure, values: Mapping[str, str], *, combined: bool) -> str:
    value = values.get(measure.name, "NULL")
    if measure.filter is not None and value != "NULL":
        value = f"CASE WHEN {writer.expression(measure.filter)} THEN {value} END"
    return f"{_COMBINE[measure.name]}({value})" if combined and measure.name in _COMBINE else value
