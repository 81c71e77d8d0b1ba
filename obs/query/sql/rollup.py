"""Rollups: which statements they can answer exactly, and the SELECT that reads them.

The part of the window that no rollup covers is read from the rows, in the same SELECT: each cell and each row becomes
a partial result under the name of the source's table, and the outer SELECT combines them.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeGuard

from obs.query.language import nodes
from obs.query.language.plan import Aggregate, Apply, Checked, Plan, Range, Read, Scan, walk
from obs.query.sql.expressions import Writer
from obs.query.sql.select import RowSelect, SqlStatement, key_of, select
from obs.sources import Grain, Rollup
from obs.times import DAY_MS, HOUR_MS

Span = tuple[int, int]
"""Consecutive units of a grain: the number of the first, and the number after the last."""
Part = tuple[int | None, int | None]
"""The rows of a cell whose measured value is in a range, ends included; (None, None) for those without a value."""


@dataclass(frozen=True, slots=True)
class Cover:
    """Which part of a window is read from which rollup. `rest` is read from the rows.

    Each cell is split into `parts`, if there are comparisons of the measured column with constants.
    """

    spans: tuple[tuple[Grain, tuple[Span, ...]], ...]
    rest: tuple[Range, ...]
    parts: Sequence[Part] = ()


def select_covered(plan: Plan, scan: Scan, cover: Cover | None) -> SqlStatement:
    """The SELECT that reads a plan, where there is a `cover` from rollups; its columns are those of `select`."""
    return select(plan, scan) if cover is None else RollupSelect(plan, scan, cover=cover).statement()


# Which statements


_DAY_FUNCTIONS = ("weekday", "date")
_HOUR_FUNCTIONS = ("hour", *_DAY_FUNCTIONS)
"""Functions that have the same value for a time and for the start of its hour, or its day in UTC."""


def usable_grains(plan: Plan, scan: Scan) -> tuple[list[Grain], Sequence[Part]]:
    """The rollups that can answer a plan exactly, in the order in which to try them, and the parts of their cells."""
    rollup = plan.source.rollup
    if rollup is None or not plan.grouped:
        return [], ()
    written = [output.expression for output in plan.outputs] + [expression for expression, _ in plan.order]
    written += [plan.having] if plan.having is not None else []
    aggregates = [part for each in written for part in walk(each) if isinstance(part, Aggregate)]
    chosen = [*plan.groups, *([plan.where] if plan.where is not None else [])]
    for aggregate in aggregates:
        chosen += [] if aggregate.filter is None else [aggregate.filter]
        chosen += aggregate.arguments if _templates(aggregate, rollup) is _OF_KEY else []
    parts = _parts([each for one in chosen for each in walk(one) if _is_comparison(each, rollup.measured)])
    terms = plan.where.arguments if isinstance(plan.where, Apply) and plan.where.name == "and" else [plan.where]
    negated = [term.arguments[0] for term in terms if isinstance(term, Apply) and term.name == "not"]
    true_of_null = [*((term, "is null") for term in terms), *((term, "is not null") for term in negated)]
    if any(term and _is_comparison(term, rollup.measured) and term.name != name for term, name in true_of_null):
        parts = parts[1:]  # WHERE needs a value
    if len(parts) > _MAX_PARTS or any(_template(aggregate, rollup, parts) is None for aggregate in aggregates):
        return [], ()
    grains: list[Grain] = []
    for grain in rollup.grains:
        by_hour = grain.unit_ms <= HOUR_MS
        same_clock = plan.timezone is None or (by_hour and scan.has_whole_hours)
        same = _HOUR_FUNCTIONS if by_hour else _DAY_FUNCTIONS if grain.unit_ms == DAY_MS else ()
        functions = same if same_clock else ()
        columns = {name for each in chosen for name in _columns(each, functions, rollup.measured)}
        if columns <= grain.columns and (not grains or grains[0].columns == grain.columns):
            grains.append(grain)
    starts = scan.timeline.starts if scan.timeline is not None else ()
    return [grain for grain in grains if all(start % grain.unit_ms == 0 for start in starts)], parts


_OF_ROWS = {"count": "coalesce(sum({runs}), 0)"}
_OF_MEASURED = {
    "count": "coalesce(sum({timed}), 0)",
    "sum": "sum({total_ms})",
    "avg": "(CAST(sum({total_ms}) AS REAL) / nullif(sum({timed}), 0))",
    **dict.fromkeys(("min", "any"), "min({least_ms})"),
    "max": "max({most_ms})",
    "stddev": "obs_stddev({durations})",
    "percentile": "obs_percentile({durations}, {fraction})",
}
_OF_TIME = {"min": "min({first_at})", "max": "max({last_at})"}
_OF_KEY = {
    **_OF_ROWS,
    "count distinct": "count(DISTINCT {key})",
    **dict.fromkeys(("min", "any"), "min({key})"),
    "max": "max({key})",
    "first": "obs_first({first_at}, {key})",
    "last": "obs_last({last_at}, {key})",
}
"""Aggregates from the columns of cells: of ``*``, the measured column, the time, or a value that the rows of a cell
have in common, the ``key``."""


def _templates(aggregate: Aggregate, rollup: Rollup) -> Mapping[str, str]:
    match aggregate.arguments:
        case ():
            return _OF_ROWS
        case (Read(column=column),) if column.name == rollup.measured:
            return _OF_MEASURED
        case (Read(column=column),) if column.name == "time" and aggregate.name in _OF_TIME:
            return _OF_TIME
    return _OF_KEY


def _template(aggregate: Aggregate, rollup: Rollup, parts: Sequence[Part]) -> str | None:
    """The SQL of an aggregate; None if the rollup does not have what it needs."""
    templates = _templates(aggregate, rollup)
    name = aggregate.name if aggregate.percent is None else "percentile"
    if parts and (templates is _OF_TIME or name in ("first", "last")):
        return None  # it is not known when the rows of a part started
    return templates.get(f"{name} distinct" if aggregate.distinct else name)


def _columns(expression: Checked, functions: Sequence[str], measured: str) -> Iterator[str]:
    """The columns that an expression reads, except for the time as the argument of one of `functions`, and for the
    `measured` one in comparisons with constants.
    """
    match expression:
        case Apply() if _is_comparison(expression, measured):
            return
        case Apply(name=name, arguments=(Read(column=column),)) if column.name == "time" and name in functions:
            return
        case Read():
            yield expression.column.name
        case Apply():
            for argument in expression.arguments:
                yield from _columns(argument, functions, measured)


# Parts of cells


_IS_AFTER: Mapping[str, Sequence[bool]] = {"<": (False,), ">=": (False,), ">": (True,), "<=": (True,)}
"""Whether the result of a comparison changes after the constant, or at it. With other operators, it does both."""
_COMPARISONS = (*_IS_AFTER, "=", "!=", "in", "between", "is null", "is not null")
_LARGEST = 2**53
"""Above all values that cells have measured."""
_MAX_PARTS = 20
"""Into how many parts a cell is split at most. With more, reading the rows may be faster."""


def _is_comparison(expression: Checked, measured: str) -> TypeGuard[Apply]:
    match expression:
        case Apply(name=name, arguments=(Read(column=column), *others)) if column.name == measured:
            return name in _COMPARISONS and all(isinstance(each, nodes.Literal) for each in others)
    return False


def _parts(comparisons: Sequence[Apply]) -> Sequence[Part]:
    """The parts within which each comparison has one result; none without comparisons."""
    firsts = {0}
    for comparison in comparisons:
        for constant in comparison.arguments[1:]:
            if isinstance(constant, nodes.Literal) and isinstance(value := constant.value, int | float):
                sides = _IS_AFTER.get(comparison.name, (False, True))
                firsts |= {math.floor(value) + 1 if is_after else math.ceil(value) for is_after in sides}
    ascending = sorted(first for first in firsts if 0 <= first < _LARGEST)
    lasts = [*(first - 1 for first in ascending[1:]), _LARGEST]
    return [(None, None), *zip(ascending, lasts, strict=True)] if comparisons else ()


_OF_PART = "obs_part({cells}.durations, parts.column1, parts.column2, '{name}')"
_PART = (
    "CASE WHEN parts.column1 IS NULL THEN {absent}"
    " WHEN {cells}.least_ms >= parts.column1 AND {cells}.most_ms <= parts.column2 THEN {cells}.{name}"
    f" ELSE {_OF_PART} END"
)
"""What a column of a cell is for a part of it."""
_HAS_PART = (
    "CASE WHEN parts.column1 IS NULL THEN {cells}.runs > {cells}.timed"
    " WHEN {cells}.least_ms BETWEEN parts.column1 AND parts.column2"
    " OR {cells}.most_ms BETWEEN parts.column1 AND parts.column2 THEN 1"
    f" WHEN {{cells}}.least_ms < parts.column1 AND {{cells}}.most_ms > parts.column2 THEN {_OF_PART} END"
)
"""Whether a cell has rows in a part."""


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


@dataclass
class RollupSelect(RowSelect):
    """Writing an expression collects the measures that it needs; the inner SELECTs are written last.

    Partial results have the columns ``bucket``, ``g0``... or the key of the group, ``m0``..., and ``scanned``, the
    number of rows read for each.
    """

    cover: Cover = Cover((), ())
    measures: dict[_Measure, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        assert self.plan.source.rollup is not None
        self.rollup = self.plan.source.rollup
        table = self.plan.source.table
        self.known = {
            group: f"({group.column.lookup})" if isinstance(group, Read) and group.column.key else f"{table}.g{number}"
            for number, group in enumerate(self.plan.groups)
        }

    def aggregate(self, aggregate: Aggregate) -> str:
        template = _template(aggregate, self.rollup, self.cover.parts)
        assert template is not None
        key = aggregate.arguments[0] if _templates(aggregate, self.rollup) is _OF_KEY else None
        names = [name for name in re.findall(r"{(\w+)}", template) if name != "fraction"]
        fields = {name: self._measure(_Measure(name, aggregate.filter, key)) for name in names}
        if aggregate.percent is not None:
            fields["fraction"] = self.bind(aggregate.percent / 100)
        return template.format(**fields)

    def bucket(self) -> str:
        return f"{self.plan.source.table}.bucket"

    def scanned(self) -> str:
        return f"coalesce(sum({self.plan.source.table}.scanned), 0)"

    def rows(self) -> str:
        source = self.plan.source
        parts = [self._select_part(grain, spans) for grain, spans in self.cover.spans]
        if self.cover.rest:
            rows = f"{{spans}} CROSS JOIN {source.table} {{joins}}"
            spans = [(each.start, each.end) for each in self.cover.rest]
            parts.append(self._select_part(Grain(1, source.time_sql, "", frozenset(), rows, ""), spans))
        return f"({' UNION ALL '.join(parts)}) AS {source.table}"

    def _measure(self, measure: _Measure) -> str:
        return f"{self.plan.source.table}.m{self.measures.setdefault(measure, len(self.measures))}"

    def _select_part(self, grain: Grain, spans: Sequence[Span]) -> str:
        """Partial results from cells, or from rows where the grain names no cells. Durations stay as they are."""
        plan = self.plan
        writer = RowSelect(plan, self.scan, parameters=self.parameters)
        if grain.cells:
            measured = Read(nodes.Span(0, 0), plan.source.by_name()[self.rollup.measured])
            writer.time_sql, writer.known = f"{grain.cells}.started_at", {measured: "parts.column1"}
        bounds = ", ".join(f"({self.bind(first)}, {self.bind(end)})" for first, end in spans)
        conditions = [f"{grain.number} >= spans.column1", f"{grain.number} < spans.column2"]
        columns = [f"{writer.bucket() if self.scan.timeline is not None else '0'} AS bucket"]
        keys = [] if self.scan.timeline is None else ["1"]
        for number, group in enumerate(plan.groups):
            key = key_of(group)
            columns.append(f"{key} AS {key.rpartition('.')[2]}" if key else f"{writer.raw(group)} AS g{number}")
            keys.append(str(len(columns)))
        values = {measure: self._value(writer, measure, grain) for measure in self.measures}
        parted = bool(grain.cells and self.cover.parts)
        apart = [*columns, *(value for measure, value in values.items() if measure.name not in _COMBINE)]
        in_order = grain.key and not any(name in text for text in apart for name in (writer.time_sql, "parts."))
        # Sorting the cells for GROUP BY would move the durations that `obs_part` needs.
        combined = not any(measure.name == "durations" for measure in values) and (in_order or not parted)
        for number, (measure, value) in enumerate(values.items()):
            combine = _COMBINE.get(measure.name) if combined else None
            columns.append(f"{combine}({value}) AS m{number}" if combine else f"{value} AS m{number}")
            keys += [] if combine else [str(len(columns))]
        columns.append(f"{'count(*)' if combined else '1'} AS scanned")
        conditions += writer.conditions()
        chosen = writer.chosen()
        joins = [text for name, text in plan.source.joins if name in writer.joins]
        is_of_series = not any(name in text for text in chosen for name in (writer.time_sql, "parts."))
        joins += chosen if is_of_series else []
        tables = grain.from_sql.format(spans=f"(VALUES {bounds}) AS spans", joins=" ".join(joins))
        if parted:
            parts = ", ".join(f"({self.bind(first)}, {self.bind(last)})" for first, last in self.cover.parts)
            tables += f" CROSS JOIN (VALUES {parts}) AS parts"
            conditions.append(_HAS_PART.format(cells=grain.cells, name="timed"))
        tables = " ".join([tables, *([] if is_of_series else chosen)])
        if in_order:
            keys = [grain.key]  # its rows follow each other, so nothing has to be sorted
        tail = f" GROUP BY {', '.join(keys)}" if combined and keys else ""
        return f"SELECT {', '.join(columns)} FROM {tables} WHERE {' AND '.join(conditions)}{tail}"

    def _value(self, writer: Writer, measure: _Measure, grain: Grain) -> str:
        """The SQL of a measure for one cell or row."""
        column = self.plan.source.by_name()[self.rollup.measured].sql
        time_sql = writer.time_sql
        rows = {"runs": "1", "timed": f"({column} IS NOT NULL)", "first_at": time_sql, "last_at": time_sql}
        conditions = [] if measure.filter is None else [writer.expression(measure.filter)]
        if measure.name == "key":
            assert measure.argument is not None
            value = writer.expression(measure.argument)
        else:
            value = f"{grain.cells}.{measure.name}" if grain.cells else rows.get(measure.name, column)
            if grain.cells and self.cover.parts:
                of_runs = measure.name == "runs"
                absent = f"{value} - {grain.cells}.timed" if of_runs and self.cover.parts[0] == (None, None) else "NULL"
                value = _PART.format(cells=grain.cells, name="timed" if of_runs else measure.name, absent=absent)
            conditions += [] if measure.argument is None else [f"{writer.raw(measure.argument)} IS NOT NULL"]
        return f"CASE WHEN {' AND '.join(conditions)} THEN {value} END" if conditions else value
