"""From the rows that SQLite returned to the rows of the result."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from operator import itemgetter
from typing import Any

from obs import times
from obs.query.execution.grid import Grid, Group, Key
from obs.query.execution.session import Session
from obs.query.language.functions import NUMERIC
from obs.query.language.plan import Checked, Derived, Output, Plan, Read, Scan, has_aggregate
from obs.query.sql.select import select_empty, select_keys
from obs.sources import Type

Cell = str | int | float | bool | None
Row = Sequence[Any]
"""A row of the result, as it is stored: a value for each of the plan's `results`."""
Rows = dict[Key, list[Any]]
"""The rows of a grouped result: for each key the values of the outputs that are not groups, as they are stored."""
Empty = Callable[[Group], tuple[list[Any], bool]]
"""The values of the outputs for a bucket without rows of a group, and whether HAVING keeps this row."""


# JSON values


def writer_of(expression: Checked) -> Callable[[Any], Cell]:
    """The function that turns a stored value of a column into a JSON value."""
    if isinstance(expression, Read) and (values := expression.column.values):
        return lambda number: values[number] if number is not None else None
    if expression.type is Type.BOOLEAN:
        return lambda value: None if value is None else bool(value)
    return _time if expression.type is Type.TIME else _plain


def _plain(value: Any) -> Cell:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    cell: Cell = value + 0.0 if isinstance(value, float) else value  # -0.0 becomes 0.0
    return cell


def _time(value: Any) -> Cell:
    try:
        return None if value is None else times.format_ms(int(value))
    except (OverflowError, ValueError):  # computed, and outside the years 1 to 9999
        return None


# Rows that were not read


def empty_rows(plan: Plan, scan: Scan, session: Session) -> Empty:
    """In buckets without rows a count is 0 and the rest is null, or what FILL says."""
    statement, fill = select_empty(plan, scan), plan.fill.with_ if plan.fill is not None and plan.fills else None

    @cache
    def values_of(group: Group) -> tuple[list[Any], bool]:
        parameters = {f"group{number}": value for number, value in enumerate(group)}
        ((*values, kept, _),) = session.fetch(statement, parameters)
        for place, output in enumerate(plan.values if fill is not None else ()):
            if has_aggregate(output.expression):
                is_number = isinstance(fill, int | float) and output.expression.type in NUMERIC
                values[place] = fill if is_number else None
        return values, bool(kept)

    return values_of


def complete(plan: Plan, grid: Grid, keys: Iterable[Key], empty: Empty) -> Rows:
    """The rows of the grid, and rows for those of `keys` that were not read, unless HAVING drops them."""
    rows, added = dict(grid.rows), set[Key]()
    for key in keys:
        if key not in rows and key not in grid.dropped:
            values, kept = empty(key[1])
            if kept:
                rows[key] = list(values)
                added.add(key)
    if plan.fill is not None and plan.fill.with_ == "previous":
        is_carried = [has_aggregate(output.expression) for output in plan.values]
        last: dict[Group, list[Any]] = {}
        for bucket, group in sorted(rows, key=itemgetter(0)):
            values = rows[bucket, group]
            if (bucket, group) in added and group in last:
                values[:] = [b if carry else a for a, b, carry in zip(values, last[group], is_carried, strict=True)]
            last[group] = values
    return rows


# The columns of the result


def assemble(plan: Plan, scan: Scan, rows: Rows, earlier: Grid | None, empty: Empty) -> list[Row]:
    """The rows with all `results` of the plan; for COMPARE WITH, `earlier` has those of the earlier window."""
    assembled: list[Row] = []
    for (bucket, group), values in rows.items():
        row: list[Any] = [] if scan.timeline is None else [scan.timeline.starts[bucket]]
        previous = values if earlier is None else earlier.rows.get((bucket, group)) or empty(group)[0]
        pairs = zip(values, previous, strict=True)
        for output in plan.outputs:
            if output.group is not None:
                row.append(group[output.group])
                continue
            now, then = next(pairs)
            row.append(now)
            if earlier is not None and has_aggregate(output.expression):
                row += [then, change_pct(output, then, now)] if output.expression.type in NUMERIC else [then]
        assembled.append(row)
    return assembled


def change_pct(output: Output, before: Any, after: Any) -> float | None:
    """The change in percent of the value before; None without numbers, after 0, or where it is not finite."""
    if output.expression.type not in NUMERIC or before is None or after is None or before == 0:
        return None
    change: float = (after - before) / abs(before) * 100
    return change if math.isfinite(change) else None


# HAVING, TOP, ORDER BY and LIMIT, where they need the finished rows


def finish(plan: Plan, scan: Scan, rows: list[Row], session: Session) -> list[Row]:
    """The rows that HAVING, TOP and LIMIT keep, in the order of ORDER BY, time and groups; by time with EVERY."""
    columns = [output.expression for output in plan.results]
    texts = list(map(writer_of, columns))
    places = [0] if isinstance(columns[0], Derived) else []
    places += [place for place, output in enumerate(plan.results) if output.group is not None]
    rows.sort(key=lambda row: [_rank(texts[place](row[place])) for place in places])
    if plan.order or plan.is_derived:
        having = plan.having if plan.is_derived else None
        top = plan.top if plan.interval_ms is None and plan.is_derived else None
        statement = select_keys(replace(plan, having=having, top=top), scan, columns)
        ranked = []
        for row in rows:
            values = {f"c{number}": value for number, value in enumerate(row)}
            ((kept, rank, *keys),) = session.fetch(statement, values)
            if kept:
                ranked.append((_rank(rank), keys, row))
        if top is not None:
            chosen = sorted(range(len(ranked)), key=lambda place: ranked[place][0], reverse=True)[:top]
            ranked = [ranked[place] for place in (sorted(chosen) if plan.order else chosen)]
        for place, (_, descending) in reversed(list(enumerate(plan.order))):
            ranked.sort(key=lambda each: _rank(each[1][place]), reverse=descending)
        rows = [row for _, _, row in ranked]
    rows = rows[plan.offset :][: plan.limit]
    return sorted(rows, key=itemgetter(0)) if plan.interval_ms is not None else rows


def _rank(cell: Any) -> tuple[bool, Any]:
    """A sort key: nulls first."""
    return cell is not None, cell
