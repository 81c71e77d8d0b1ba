"""The SELECT that reads rollups.

The part of the window that no rollup covers is read from the rows, in the same SELECT: each cell and each row becomes
a partial result under the name of the source's table, and the outer SELECT combines them.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from obs.query.language import nodes
from obs.query.language.plan import Aggregate, Apply, Checked, Plan, Scan
from obs.query.sql.cover import OF_TIME, Cover, Span, template_of, templates_of, terms_of_series
from obs.query.sql.expressions import Writer
from obs.query.sql.select import RowSelect, SqlStatement, finds_row, key_of, prefix_of, select, simpler
from obs.sources import Grain
from obs.times import HOUR_MS


def select_covered(plan: Plan, scan: Scan, cover: Cover | None) -> SqlStatement:
    """The SELECT that reads a plan, where there is a `cover` from rollups; its columns are those of `select`."""
    return select(plan, scan) if cover is None else RollupSelect(plan, scan, cover=cover).statement()


def select_wide(plan: Plan, scan: Scan, grain: Grain, first: int, last: int) -> SqlStatement:
    """The SELECT of whether WHERE chooses many of the cells of these units and the one in the middle."""
    writer = RowSelect(replace(plan, where=terms_of_series(plan)), scan)
    condition = " AND ".join(["1", *writer.conditions()])
    bounds = ", ".join(f"({each}, {each + 1})" for each in {first, (first + last) // 2, last})
    cells = grain.by_time.format(spans=f"(VALUES {bounds}) AS spans", joins=" ".join(writer.joined()))
    many = f"SELECT count(*) FILTER (WHERE {condition}) > {_MANY} * count(*) FROM {cells}"
    return SqlStatement(many, writer.parameters)


_OF_PART = "obs_part({cells}sorted, parts.column1, parts.column2, '{name}')"
_PART = (  # what a column of a cell is for a part of it; ``{cells}`` is what the names of the columns begin with
    "CASE WHEN parts.column1 IS NULL THEN {absent}"
    " WHEN {cells}least >= parts.column1 AND {cells}most <= parts.column2 THEN {cells}{name}"
    f" ELSE {_OF_PART} END"
)
_MANY = 0.2  # finding a cell by its series takes as long as reading several in the order of time
_FEW_MS = 48 * HOUR_MS  # at most so much is left at both ends of a window that is read by the day
_KEY = "of_key"  # no column of a source has this name
_BIN, _RUNS_IN_BIN = "(bins.value ->> 0)", "(bins.value ->> 1)"
"""Where a bin begins, and its number of rows: what `obs_bins` returns of a cell."""
_HAS_PART = (  # whether a cell has rows in a part
    "CASE WHEN parts.column1 IS NULL THEN {table}.runs > {cells}valued"
    " WHEN {cells}least BETWEEN parts.column1 AND parts.column2"
    " OR {cells}most BETWEEN parts.column1 AND parts.column2 THEN 1"
    f" WHEN {{cells}}least < parts.column1 AND {{cells}}most > parts.column2 THEN {_OF_PART} END"
)
_COMBINE: Mapping[str, str] = {  # what combines the partial results of each column of the cells; others stay separate
    **dict.fromkeys(("runs", "valued", "total", "squares_high", "squares_low"), "sum"),
    **dict.fromkeys(("least", "first_at"), "min"),
    **dict.fromkeys(("most", "last_at"), "max"),
}
_OF_ROW: Mapping[str, str] = {
    **dict.fromkeys(("total", "least", "most", "sorted", "key"), "{0}"),
    **dict.fromkeys(("first_at", "last_at"), "{1}"),
    "runs": "1",
    "valued": "({0} IS NOT NULL)",
    "squares_high": "({0} >> 16) * ({0} >> 16) + (({0} >> 16) * ({0} & 65535) >> 15)",
    "squares_low": "(({0} >> 16) * ({0} & 65535) & 32767) * 131072 + ({0} & 65535) * ({0} & 65535)",
}
"""The columns of a cell for one row, with its value and its time. The square of a value may not fit into 64 bits."""


class _Measure(NamedTuple):
    """A column of the cells, over the rows that FILTER chooses. `of` is what is measured, or the ``key``, whose values
    stay apart. What is measured of rows, such as their number, is measured of those with a key, if there is one.
    """

    name: str
    filter: Checked | None
    of: Checked | None = None


@dataclass(kw_only=True)
class RollupSelect(RowSelect):
    """Writing an expression collects the measures that it needs; the inner SELECTs are written last.

    Partial results have ``bucket``, ``g0``... or the key of the group, ``m0``..., and ``scanned``: the rows read.
    """

    cover: Cover
    keyed: bool = False  # whether partial results have the key under the name _KEY, too
    measures: dict[_Measure, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        table = self.plan.source.table
        self.scanned = f"coalesce(sum({table}.scanned), 0)"
        groups = enumerate(self.plan.groups)
        self.known = {each: self.group(each) if key_of(each) else f"{table}.g{number}" for number, each in groups}

    def aggregate(self, aggregate: Aggregate) -> str:
        if (same := simpler(aggregate)) is not aggregate:
            return self.expression(same)
        if finds_row(self.plan, aggregate):
            self.keyed = True
            limit, time_sql = "1", self.plan.source.time_sql
            if self.cover.compared is None:  # then the cells say between which times rows have a value
                measure = _Measure(f"{aggregate.name}_at", None, aggregate.arguments[0])
                number, sign = self.measures.setdefault(measure, len(self.measures)), "><"[aggregate.name == "last"]
                extreme = f"{_COMBINE[measure.name]}({self.plan.source.table}.m{number})"
                limit = f"{time_sql} {sign}= (SELECT {extreme})"
                time_sql = f"+{time_sql}"  # for the limit, not for the window, the index is searched
            rows = RowSelect(self.plan, self.scan, parameters=self.parameters, names=self.names, time_sql=time_sql)
            return rows.find(aggregate, _KEY, limit)
        template = template_of(aggregate, self.cover.compared, self.cover.binned)
        assert template is not None
        of = None if templates_of(aggregate) is OF_TIME else next(iter(aggregate.arguments), None)
        names = [name for name in re.findall(r"{(\w+)}", template) if name != "fractions"]
        measures = {name: _Measure(name, aggregate.filter, of) for name in names}
        if "runs" in measures and of is None and self.cover.parts and self.cover.parts[0] != (None, None):
            measures["runs"] = _Measure("valued", aggregate.filter, self.cover.compared)  # the same, and computed once
        numbers = {name: self.measures.setdefault(each, len(self.measures)) for name, each in measures.items()}
        fields = {name: f"{self.plan.source.table}.m{number}" for name, number in numbers.items()}
        return self.at_percent(aggregate.percent, partial(template.format, **fields))

    def bucket(self) -> str:
        return f"{self.plan.source.table}.bucket"

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
        of_part = {} if compared is None else {compared: "parts.column1" if parts else f"{cells}least"}
        # Of floor(), `binned` is only the quotient: its value follows from that of `compared`.
        in_bin = {each: _BIN for each in (compared, *plan.groups) if each and each in (compared, binned)}
        writer.known = of_part if binned is None else in_bin
        bounds = ", ".join(f"({self.bind(first)}, {self.bind(end)})" for first, end in spans)
        columns = [f"{writer.bucket() if self.scan.timeline is not None else '0'} AS bucket"]
        for number, group in enumerate(plan.groups):
            key = key_of(group)
            columns.append(f"{key} AS {key.rpartition('.')[2]}" if key else f"{writer.raw(group)} AS g{number}")
        if self.keyed:
            columns.append(f"{key_of(plan.groups[0])} AS {_KEY}")
        chosen, writer.known = writer.chosen(), of_part
        values = {measure: self._value(writer, measure, grain) for measure in self.measures}
        apart = [*columns, *(value for measure, value in values.items() if measure.name not in _COMBINE)]
        conditions = writer.conditions()  # first, as they drop parts before values are read
        conditions += [f"{grain.number} >= spans.column1", f"{grain.number} < spans.column2"]
        # Cells are stored in the order of time. They are read so for a short time, if none calls a function of Python,
        # and for values, which no index has, but not if a condition chooses few of them.
        are_few = sum(end - first for first, end in spans) * grain.unit_ms <= _FEW_MS
        are_few = are_few and not any("obs_" in text for text in columns)
        are_needed = bool(parts) or any(each.name == "sorted" for each in values)
        of_cell = (writer.time_sql, "parts.", "bins.")
        is_of_series = bool(chosen) and not any(name in text for text in chosen for name in of_cell)
        by_time = grain.by_time if (are_few or are_needed) and self.cover.is_wide and not is_of_series else ""
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
        joins = [*writer.joined(), *(chosen if is_of_series else [])]
        tables = (by_time or grain.from_sql).format(spans=f"(VALUES {bounds}) AS spans", joins=" ".join(joins))
        if parts:
            values_of_parts = ", ".join(f"({self.bind(first)}, {self.bind(last)})" for first, last in parts)
            tables += f" CROSS JOIN (VALUES {values_of_parts}) AS parts"
            conditions.append(_HAS_PART.format(table=grain.cells, cells=cells, name="valued"))
        match binned:
            case Apply(name=name, arguments=(_, nodes.Literal(value=int() | float() as width))):
                ahead = {"round": width // 2, "ceil": width - 1}.get(name, 0)
                of = f"{cells}sorted, {grain.cells}.runs - {cells}valued, parts.column1, parts.column2"
                tables += f" CROSS JOIN json_each(obs_bins({of}, {width:.0f}, {ahead:.0f})) AS bins"
        tables = " ".join([tables, *([] if is_of_series else chosen)])
        tail = f" GROUP BY {', '.join(keys)}" if combined and keys else ""
        return f"SELECT {', '.join(columns)} FROM {tables} WHERE {' AND '.join(conditions)}{tail}"

    def _value(self, writer: Writer, measure: _Measure, grain: Grain) -> str:
        """The SQL of a measure for one cell or row."""
        name, parts = measure.name, self.cover.parts
        of = "" if measure.of is None else writer.expression(measure.of)
        conditions = [] if measure.filter is None else [writer.expression(measure.filter)]
        has_value = f"{grain.cells}.valued > 0" if grain.cells and prefix_of(measure.of) == "" else f"{of} IS NOT NULL"
        conditions += [has_value] if of and name in ("runs", "first_at", "last_at") else []
        value = _OF_ROW[name].format(of, writer.time_sql)
        if grain.cells and name != "key":
            cells = f"{grain.cells}.{prefix_of(self.cover.compared) or ''}"
            is_of_valued = name == "runs" and self.cover.compared is not None and not parts
            value = f"{cells}valued" if is_of_valued else f"{grain.cells}.{prefix_of(measure.of) or ''}{name}"
            if self.cover.binned is not None:
                value = _RUNS_IN_BIN
            elif parts:
                absent = f"{value} - {cells}valued" if name == "runs" and parts[0] == (None, None) else "NULL"
                value = _PART.format(cells=cells, name="valued" if name == "runs" else name, absent=absent)
        return f"CASE WHEN {' AND '.join(conditions)} THEN {value} END" if conditions else value
