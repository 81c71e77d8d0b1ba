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
from obs.query.language.plan import Aggregate, Apply, Checked, Plan, Range, Read, Scan, columns_of, terms, walk
from obs.query.sql.expressions import Writer
from obs.query.sql.select import RowSelect, SqlStatement, aggregates_of, finds_row, key_of, prefix_of, select, simpler
from obs.sources import Grain, Type
from obs.times import DAY_MS, HOUR_MS, SECOND_MS

Span = tuple[int, int]  # consecutive units of a grain: the number of the first, and the number after the last
Part = tuple[int | None, int | None]
"""The rows of a cell whose measured value is in a range, ends included; (None, None) for those without a value."""


@dataclass(frozen=True, slots=True)
class Cover:
    """Which part of a window is read from which rollup. `rest` is read from the rows.

    If what is measured is `compared` with constants, each cell is split into `parts`. Without any, it means all values.
    If rows are grouped by a histogram, each cell is split into the bins of `binned`; its last argument is their width.
    At the `moments`, comparisons of the time with constants change.
    """

    spans: tuple[tuple[Grain, tuple[Span, ...]], ...] = ()
    rest: tuple[Range, ...] = ()
    compared: Checked | None = None
    parts: Sequence[Part] = ()
    binned: Apply | None = None
    moments: Sequence[int] = ()


def select_covered(plan: Plan, scan: Scan, cover: Cover | None) -> SqlStatement:
    """The SELECT that reads a plan, where there is a `cover` from rollups; its columns are those of `select`."""
    return select(plan, scan) if cover is None else RollupSelect(plan, scan, cover=cover).statement()


_DAY_FUNCTIONS = ("weekday", "date")
_HOUR_FUNCTIONS = ("hour", *_DAY_FUNCTIONS)  # the same for a time and for the start of its hour, or its day in UTC


def usable_grains(plan: Plan, scan: Scan) -> tuple[list[Grain], Cover]:
    """The rollups that can answer a plan exactly, in the order in which to try them, and a cover without any spans.

    A unit may be used if it lies within one bucket of EVERY, which depends on where the buckets begin.
    """
    if not plan.source.grains or not plan.grouped or plan.around is not None:
        return [], Cover()
    ordered_by = [expression for expression, _ in plan.order]
    written = walk(*(output.expression for output in plan.outputs), *ordered_by, plan.having)
    found = [part for part in written if isinstance(part, Aggregate) and not finds_row(plan, part)]
    aggregates = [each for part in found for each in aggregates_of(part)]
    chosen = [*plan.groups, plan.where, *(aggregate.filter for aggregate in aggregates)]
    chosen += [each for aggregate in aggregates if _templates(aggregate) is _OF_KEY for each in aggregate.arguments]
    comparisons = [each for each in walk(*chosen) if _is_comparison(each)]
    binned = next(filter(None, map(_histogram, plan.groups)), None)
    of_measured = [*comparisons, *([] if binned is None else [binned])]
    compared = next((each.arguments[0] for each in of_measured), None)
    parts = _parts(comparisons, plan.where)
    is_known = len(parts) <= (_MAX_PARTS if binned is None else 0)
    is_known = is_known and all(each.arguments[0] == compared for each in of_measured)
    if not is_known or any(_template(aggregate, compared, binned) is None for aggregate in aggregates):
        return [], Cover()
    grains: list[Grain] = []
    for grain in plan.source.grains:
        same_clock = all(offset % grain.unit_ms == 0 for _, _, offset in scan.offsets)
        same = _HOUR_FUNCTIONS if grain.unit_ms <= HOUR_MS else _DAY_FUNCTIONS if grain.unit_ms == DAY_MS else ()
        others = (each for each in chosen if binned is None or _histogram(each) != binned)
        columns = {name for each in others for name in _columns(each, same if same_clock else ())}
        is_short = scan.timeline is None or grain.unit_ms <= scan.timeline.interval_ms
        if is_short and columns <= grain.columns and (not grains or grains[0].columns == grain.columns):
            grains.append(grain)
    moments = sorted(moment for each in walk(*chosen) for moment in _changes(each, scan.now_ms))
    return grains, Cover(compared=compared, parts=parts, binned=binned, moments=moments)


def _needs_value(where: Checked | None) -> bool:
    """Whether WHERE chooses no rows without a measured value."""
    return any(_is_comparison(term) and term.name != "is null" for term in terms(where))


def terms_of_series(plan: Plan) -> Checked | None:
    """The terms of WHERE that are the same for all rows of a series; None without any."""
    apart = frozenset[str]().union(*(grain.columns for grain in plan.source.grains))
    chosen = [term for term in terms(plan.where) if set() < columns_of(term) <= apart]
    return Apply(chosen[0].span, "and", tuple(chosen), Type.BOOLEAN) if len(chosen) > 1 else next(iter(chosen), None)


_OF_ROWS = {"count": "coalesce(sum({runs}), 0)"}
_OF_MEASURED = {
    "count": "coalesce(sum({valued}), 0)",
    "sum": "sum({total})",
    "avg": "(CAST(sum({total}) AS REAL) / nullif(sum({valued}), 0))",
    **dict.fromkeys(("min", "any"), "min({least})"),
    "max": "max({most})",
    "stddev": "obs_deviation(sum({valued}), sum({total}), sum({squares_high}), sum({squares_low}))",
    "percentile": "obs_percentile({sorted}, {fraction})",
}
_OF_TIME = dict.fromkeys(("min", "first", "any"), "min({first_at})") | dict.fromkeys(("max", "last"), "max({last_at})")
_OF_KEY = {
    **_OF_ROWS,
    "count distinct": "count(DISTINCT {key})",
    "sum": "sum({key} * {runs})",
    "avg": "(CAST(sum({key} * {runs}) AS REAL) / nullif(sum({runs}), 0))",
    **dict.fromkeys(("min", "any"), "min({key})"),
    "max": "max({key})",
    "first": "obs_first({first_at}, {key})",
    "last": "obs_last({last_at}, {key})",
}
"""Aggregates from the columns of cells: of ``*``, what is measured, the time, or the ``key`` that rows share."""
_WHOLE = (Type.INTEGER, Type.DURATION)


def _templates(aggregate: Aggregate) -> Mapping[str, str]:
    match aggregate.arguments:
        case ():
            return _OF_ROWS
        case (one,) if prefix_of(one) is not None and (aggregate.percent is None or isinstance(one, Read)):
            return _OF_MEASURED
        case (Read(column=column),) if column.name == "time" and aggregate.name in _OF_TIME:
            return _OF_TIME
    return _OF_KEY


def _template(aggregate: Aggregate, compared: Checked | None, binned: Apply | None) -> str | None:
    """The SQL of an aggregate; None if the rollup does not have what it needs."""
    templates = _templates(aggregate)
    name = aggregate.name if aggregate.percent is None else "percentile"
    if compared is not None:
        is_compared = aggregate.arguments == (compared,)
        is_unknown = templates is _OF_MEASURED and (not is_compared or binned is not None)
        if templates is _OF_TIME or name in ("first", "last") or is_unknown:
            return None  # of the rows of a part, neither the times are known nor what else was measured; of a bin, less
    if templates is _OF_KEY and name in ("sum", "avg") and aggregate.arguments[0].type not in _WHOLE:
        return None  # of other numbers, the sum depends on the order in which they are added
    return templates.get(f"{name} distinct" if aggregate.distinct else name)


def _columns(expression: Checked | None, functions: Sequence[str]) -> Iterator[str]:
    """The columns that an expression reads, but for the time in `functions`, and what it compares with constants."""
    match expression:
        case Apply() if _is_comparison(expression) or _changes(expression, 0):
            return
        case Apply(name=name, arguments=(Read(column=column),)) if column.name == "time" and name in functions:
            return
        case Read():
            yield expression.column.name
        case Apply():
            for argument in expression.arguments:
                yield from _columns(argument, functions)


IS_AFTER: Mapping[str, Sequence[bool]] = {"<": (False,), ">=": (False,), ">": (True,), "<=": (True,)}
"""Whether the result of a comparison changes after the constant, or at it. With other operators, it does both."""
_COMPARISONS = (*IS_AFTER, "=", "!=", "in", "between", "is null", "is not null")
_LARGEST = 2**53  # above all values that cells have measured
_FEW_HOURS = 48  # at most as many are left at both ends of a window that is read by the day
_MAX_PARTS = 20  # into how many parts a cell is split at most; with more, reading the rows may be faster


def _is_comparison(expression: Checked) -> TypeGuard[Apply]:
    match expression:
        case Apply(name=name, arguments=(Read() as measured, *others)) if prefix_of(measured) is not None:
            return name in _COMPARISONS and all(isinstance(each, nodes.Literal) for each in others)
    return False


def _changes(expression: Checked, now_ms: int) -> list[int]:
    """When the result of a comparison of the time with constants changes; empty for any other expression."""
    match expression:
        case Apply(name=name, arguments=(Read(column=column), *others)) if column.name == "time":
            sides = (False, True) if name == "between" else IS_AFTER.get(name, ())
            moments = [each for other in others if (each := _moment(other, now_ms)) is not None]
            if len(moments) == len(sides):
                return [moment + is_after for moment, is_after in zip(moments, sides, strict=True)]
    return []


def _moment(constant: Checked, now_ms: int) -> int | None:
    match constant:
        case nodes.Literal(value=int(moment)):
            return moment
        case Apply(name="now"):
            return now_ms
        case Apply(name="-", arguments=(Apply(name="now"), nodes.Literal(value=int(before)))):
            return now_ms - before
    return None


def _histogram(group: Checked | None) -> Apply | None:
    """A histogram of what is measured, or floor, ceil or round of a quotient, with both and the width."""
    match group:
        case Apply(name="floor" | "ceil" | "round" as name, arguments=(Apply(name="/", arguments=of),)):
            pass
        case Apply(name="histogram" as name, arguments=(_, nodes.Literal(value=int())) as of):
            pass  # with a width such as 60000.0, bins begin at floats
        case _:
            return None
    match of:
        case (Read() as measured, nodes.Literal(value=int() | float() as width)) if prefix_of(measured) is not None:
            is_wide = width == int(width) >= SECOND_MS  # of narrower bins, cells have too many
            return Apply(group.span, name, of, group.type) if is_wide else None
    return None


def _parts(comparisons: Sequence[Apply], where: Checked | None) -> Sequence[Part]:
    """The parts within which each comparison has one result, but () for all values. A WHERE may need a value."""
    firsts = {0}
    for comparison in comparisons:
        for constant in comparison.arguments[1:]:
            if isinstance(constant, nodes.Literal) and isinstance(value := constant.value, int | float):
                sides = IS_AFTER.get(comparison.name, (False, True))
                firsts |= {math.floor(value) + 1 if is_after else math.ceil(value) for is_after in sides}
    ascending = sorted(first for first in firsts if 0 <= first < _LARGEST)
    lasts = [*(first - 1 for first in ascending[1:]), _LARGEST]
    parts = [*([] if _needs_value(where) else [(None, None)]), *zip(ascending, lasts, strict=True)]
    return parts if comparisons and parts != [(0, _LARGEST)] else ()


_OF_PART = "obs_part({cells}sorted, parts.column1, parts.column2, '{name}')"
_PART = (
    "CASE WHEN parts.column1 IS NULL THEN {absent}"
    " WHEN {cells}least >= parts.column1 AND {cells}most <= parts.column2 THEN {cells}{name}"
    f" ELSE {_OF_PART} END"
)
"""What a column of a cell is for a part of it. ``{cells}`` is what the names of the columns begin with."""
_KEY = "of_key"  # no column of a source has this name
_BIN, _RUNS_IN_BIN = "(parts.value ->> 0)", "(parts.value ->> 1)"
"""Where a bin begins, and its number of rows: what `obs_bins` returns of a cell."""
_HAS_PART = (
    "CASE WHEN parts.column1 IS NULL THEN {table}.runs > {cells}valued"
    " WHEN {cells}least BETWEEN parts.column1 AND parts.column2"
    " OR {cells}most BETWEEN parts.column1 AND parts.column2 THEN 1"
    f" WHEN {{cells}}least < parts.column1 AND {{cells}}most > parts.column2 THEN {_OF_PART} END"
)
"""Whether a cell has rows in a part."""


class _Measure(NamedTuple):
    """A column of the cells, over the rows that FILTER chooses. `of` is what is measured, or the ``key``, whose values
    stay apart. What is measured of rows, such as their number, is measured of those with a key, if there is one.
    """

    name: str
    filter: Checked | None
    of: Checked | None = None


_COMBINE: Mapping[str, str] = {
    **dict.fromkeys(("runs", "valued", "total", "squares_high", "squares_low"), "sum"),
    **dict.fromkeys(("least", "first_at"), "min"),
    **dict.fromkeys(("most", "last_at"), "max"),
}
"""The aggregate that combines the partial results of each column of the cells. Others stay separate."""
_OF_ROW: Mapping[str, str] = {
    **dict.fromkeys(("total", "least", "most", "sorted", "key"), "{0}"),
    **dict.fromkeys(("first_at", "last_at"), "{1}"),
    "runs": "1",
    "valued": "({0} IS NOT NULL)",
    "squares_high": "({0} >> 16) * ({0} >> 16) + (({0} >> 16) * ({0} & 65535) >> 15)",
    "squares_low": "(({0} >> 16) * ({0} & 65535) & 32767) * 131072 + ({0} & 65535) * ({0} & 65535)",
}
"""The columns of a cell for one row, with its value and its time. The square of a value may not fit into 64 bits."""


@dataclass
class RollupSelect(RowSelect):
    """Writing an expression collects the measures that it needs; the inner SELECTs are written last.

    Partial results have ``bucket``, ``g0``... or the key of the group, ``m0``..., and ``scanned``: the rows read.
    """

    cover: Cover = Cover()
    keyed: bool = False  # whether partial results have the key under the name _KEY, too
    measures: dict[_Measure, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        table = self.plan.source.table
        self.known = {
            group: f"({group.column.lookup})" if isinstance(group, Read) and group.column.key else f"{table}.g{number}"
            for number, group in enumerate(self.plan.groups)
        }

    def aggregate(self, aggregate: Aggregate) -> str:
        if (same := simpler(aggregate)) is not aggregate:
            return self.expression(same)
        if finds_row(self.plan, aggregate):
            self.keyed = True
            return RowSelect(self.plan, self.scan, parameters=self.parameters, names=self.names).find(aggregate, _KEY)
        template = _template(aggregate, self.cover.compared, self.cover.binned)
        assert template is not None
        of = None if _templates(aggregate) is _OF_TIME else next(iter(aggregate.arguments), None)
        names = [name for name in re.findall(r"{(\w+)}", template) if name != "fraction"]
        measures = {name: _Measure(name, aggregate.filter, of) for name in names}
        numbers = {name: self.measures.setdefault(each, len(self.measures)) for name, each in measures.items()}
        fields = {name: f"{self.plan.source.table}.m{number}" for name, number in numbers.items()}
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

    def _select_part(self, grain: Grain, spans: Sequence[Span]) -> str:
        """Partial results from cells, or from rows where the grain names no cells. Sorted values stay as they are."""
        plan = self.plan
        cover = self.cover if grain.cells else Cover()
        compared, parts, binned = cover.compared, cover.parts, cover.binned
        writer = RowSelect(plan, self.scan, parameters=self.parameters)
        cells = f"{grain.cells}.{prefix_of(compared) or ''}"
        # Of rows, an index finds the spans, not what WHERE may say of the time.
        writer.time_sql = f"({grain.number} * {grain.unit_ms})" if grain.cells else f"+{writer.time_sql}"
        if grain.cells:
            known = _BIN if binned is not None else "parts.column1" if parts else f"{cells}least"
            # Of floor(), `binned` is only the quotient: its value follows from that of `compared`.
            writer.known = {each: known for each in (compared, *plan.groups) if each and each in (compared, binned)}
        bounds = ", ".join(f"({self.bind(first)}, {self.bind(end)})" for first, end in spans)
        columns = [f"{writer.bucket() if self.scan.timeline is not None else '0'} AS bucket"]
        for number, group in enumerate(plan.groups):
            key = key_of(group)
            columns.append(f"{key} AS {key.rpartition('.')[2]}" if key else f"{writer.raw(group)} AS g{number}")
        if self.keyed:
            columns.append(f"{key_of(plan.groups[0])} AS {_KEY}")
        values = {measure: self._value(writer, measure, grain) for measure in self.measures}
        apart = [*columns, *(value for measure, value in values.items() if measure.name not in _COMBINE)]
        chosen, conditions = writer.chosen(), writer.conditions()  # first, as they drop parts before values are read
        conditions += [f"{grain.number} >= spans.column1", f"{grain.number} < spans.column2"]
        # Cells are stored in the order of time. They are read so in few hours, and for values, which no index has, but
        # not if a condition chooses few series (one on the status does not), or each series calls a function of Python.
        are_few = sum(end - first for first, end in spans) <= _FEW_HOURS
        are_needed = bool(parts) or binned is not None or any(each.name == "sorted" for each in values)
        names = {*_columns(plan.where, ())}
        is_wide = all(column.values for column in plan.source.columns if column.name in names)
        is_wide = is_wide and not plan.source.where and not any("obs_" in text for text in columns)
        by_time = grain.by_time if (are_few or are_needed) and is_wide and not chosen else ""
        of_cell = (writer.time_sql, "parts.")
        in_order = grain.cells and not by_time and not any(name in text for text in apart for name in of_cell)
        keys = [*map(str, range(1 if self.scan.timeline else 2, 1 + len(columns)))]
        keys = [f"{plan.source.table}.id"] if in_order else keys  # its cells follow each other, and have one key
        # Cells that would have to be sorted for GROUP BY are sorted once, by the outer SELECT.
        combined = all(each.name in _COMBINE or (in_order and each.name == "key") for each in values)
        combined = combined and (in_order or not (grain.cells and keys))
        for number, (measure, value) in enumerate(values.items()):
            combine = _COMBINE.get(measure.name) if combined else None
            columns.append(f"{combine}({value}) AS m{number}" if combine else f"{value} AS m{number}")
        columns.append(f"{'count(*)' if combined else '1'} AS scanned")
        is_of_series = not any(name in text for text in chosen for name in of_cell)
        joins = [text for name, text in plan.source.joins if name in writer.joins] + (chosen if is_of_series else [])
        tables = (by_time or grain.from_sql).format(spans=f"(VALUES {bounds}) AS spans", joins=" ".join(joins))
        if parts:
            values_of_parts = ", ".join(f"({self.bind(first)}, {self.bind(last)})" for first, last in parts)
            tables += f" CROSS JOIN (VALUES {values_of_parts}) AS parts"
            conditions.append(_HAS_PART.format(table=grain.cells, cells=cells, name="valued"))
        match binned:
            case Apply(name=name, arguments=(_, nodes.Literal(value=int() | float() as width))):
                ahead = {"round": width // 2, "ceil": width - 1}.get(name, 0)
                bins = f"obs_bins({cells}sorted, {grain.cells}.runs, {width:.0f}, {ahead:.0f})"
                tables += f" CROSS JOIN json_each({bins}) AS parts"
        tables = " ".join([tables, *([] if is_of_series else chosen)])
        tail = f" GROUP BY {', '.join(keys)}" if combined and keys else ""
        return f"SELECT {', '.join(columns)} FROM {tables} WHERE {' AND '.join(conditions)}{tail}"

    def _value(self, writer: Writer, measure: _Measure, grain: Grain) -> str:
        """The SQL of a measure for one cell or row."""
        name, parts = measure.name, self.cover.parts
        of = "" if measure.of is None else writer.expression(measure.of)
        conditions = [] if measure.filter is None else [writer.expression(measure.filter)]
        conditions += [f"{of} IS NOT NULL"] if of and name in ("runs", "first_at", "last_at") else []
        value = _OF_ROW[name].format(of, writer.time_sql)
        if grain.cells and name != "key":
            cells = f"{grain.cells}.{prefix_of(self.cover.compared) or ''}"
            is_of_valued = name == "runs" and self.cover.compared is not None and not parts
            value = f"{cells}valued" if is_of_valued else f"{grain.cells}.{prefix_of(measure.of) or ''}{name}"
            value = _RUNS_IN_BIN if self.cover.binned is not None else value
            if parts:
                absent = f"{value} - {cells}valued" if name == "runs" and parts[0] == (None, None) else "NULL"
                value = _PART.format(cells=cells, name="valued" if name == "runs" else name, absent=absent)
        return f"CASE WHEN {' AND '.join(conditions)} THEN {value} END" if conditions else value
