"""From the rows that SQLite returned to the rows of the result."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

from obs import times
from obs.query.execution.grid import Grid, Group, Key
from obs.query.execution.session import Session
from obs.query.language.functions import NUMERIC
from obs.query.language.plan import Checked, Derived, Output, Plan, Read, has_aggregate
from obs.query.sql import Scan
from obs.query.sql.select import select_empty, select_keys
from obs.sources import Type

Cell = str | int | float | bool | None
Row = list[Cell]
Rows = dict[Key, list[Any]]
"""The rows of a grouped result: for each key the values of the outputs that are not groups, as they are stored."""


# JSON values


def writer_of(expression: Checked) -> Callable[[Any], Cell]:
    """The function that turns a stored value of a column into a JSON value."""
    if isinstance(expression, Read) and (values := expression.column.values):
        return lambda number: values[number] if number is not None else None
    return {Type.TIME: _time, Type.BOOLEAN: _boolean}.get(expression.type or Type.TEXT, _plain)


def write_row(row: Sequence[Any], functions: Sequence[Callable[[Any], Cell]]) -> Row:
    return [write(value) for write, value in zip(functions, row, strict=True)]


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


def _boolean(value: Any) -> Cell:
    return None if value is None else bool(value)


# HAVING, TOP, ORDER BY and LIMIT, where they need the finished rows

Finished = tuple[int, list[Any]]
"""A row of the result, as it is stored, with the number of its bucket."""


def finish(
    plan: Plan, scan: Scan, columns: Sequence[Checked], rows: list[Finished], groups: Sequence[int], session: Session
) -> list[Finished]:
    """The rows that HAVING, TOP and LIMIT keep, in the order of ORDER BY, then of `groups`; by bucket with EVERY."""
    texts = list(map(writer_of, columns))
    rows.sort(key=lambda row: (row[0], [_rank(texts[place](row[1][place])) for place in groups]))
    if plan.order or plan.is_derived:
        having = plan.having if plan.is_derived else None
        top = plan.top if plan.interval_ms is None and plan.is_derived else None
        statement = select_keys(replace(plan, having=having, top=top), scan, columns)
        ranked = []
        for row in rows:
            values = {f"c{number}": value for number, value in enumerate(row[1])}
            ((kept, rank, *keys),) = session.fetch(statement, values)
            if kept:
                ranked.append((_rank(rank), keys, row))
        if top is not None:
            chosen = sorted(range(len(ranked)), key=lambda place: ranked[place][0], reverse=True)[:top]
            ranked = [ranked[place] for place in (sorted(chosen) if plan.order else chosen)]
        for place, order in reversed(list(enumerate(plan.order))):
            ranked.sort(key=lambda each: _rank(each[1][place]), reverse=order.descending)
        rows = [row for _, _, row in ranked]
    rows = rows[plan.offset :][: plan.limit]
    return sorted(rows, key=itemgetter(0)) if plan.interval_ms is not None else rows


def _rank(cell: Any) -> tuple[bool, Any]:
    """A sort key: nulls first."""
    return cell is not None, cell


# Buckets and groups without rows


class EmptyRows:
    """The values of the outputs for a bucket without rows: 0 for a count, null for the rest, or what FILL says."""

    def __init__(self, plan: Plan, scan: Scan, session: Session) -> None:
        self._statement = select_empty(plan, scan)
        self._session = session
        self._outputs = plan.values
        self._fill = plan.fill.with_ if plan.fill is not None and plan.fills else None
        self._cached: dict[Group, tuple[list[Any], bool]] = {}

    def values(self, group: Group) -> tuple[list[Any], bool]:
        """The values for `group`, and whether HAVING keeps the row. The list must not be changed."""
        if group not in self._cached:
            parameters = {f"group{number}": value for number, value in enumerate(group)}
            ((*values, kept, _),) = self._session.fetch(self._statement, parameters)
            self._cached[group] = [self._filled(o, v) for o, v in zip(self._outputs, values, strict=True)], bool(kept)
        return self._cached[group]

    def _filled(self, output: Output, value: Any) -> Any:
        if self._fill is None or not has_aggregate(output.expression):
            return value
        return self._fill if isinstance(self._fill, int | float) and output.expression.type in NUMERIC else None


def fill(plan: Plan, grid: Grid, buckets: int, groups: Sequence[Group], empty: EmptyRows) -> Rows:
    """The rows of the grid by bucket and group, with a row for each of `groups` in each of so many `buckets`."""
    rows = dict(grid.rows)
    added: set[Key] = set()
    for group in groups:
        values, kept = empty.values(group)
        if kept:
            missing = [(bucket, group) for bucket in range(buckets) if (bucket, group) not in grid.seen]
            rows.update((key, list(values)) for key in missing)
            added.update(missing)
    if plan.fill is not None and plan.fill.with_ == "previous":
        rows = {key: rows[key] for key in sorted(rows, key=itemgetter(0))}
        _carry_forward(rows, added, [has_aggregate(output.expression) for output in plan.values])
    return rows


def _carry_forward(rows: Rows, added: set[Key], is_carried: Sequence[bool]) -> None:
    """FILL PREVIOUS: give each of the `added` rows the values of the previous bucket of the same group."""
    last: dict[Group, list[Any]] = {}
    for key, values in rows.items():
        previous = last.get(key[1])
        if key in added and previous is not None:
            values[:] = [old if carry else new for old, new, carry in zip(previous, values, is_carried, strict=True)]
        last[key[1]] = values


# COMPARE WITH


def add_vanished(plan: Plan, grid: Grid, earlier: Grid, empty: EmptyRows) -> Rows:
    """The rows of the grid and, without TOP, those that only the earlier window has, unless HAVING drops them."""
    rows = dict(grid.rows)
    if plan.top is None:
        for key in earlier.rows.keys() - grid.seen:
            values, kept = empty.values(key[1])
            if kept:
                rows[key] = list(values)
    return rows


def compared(plan: Plan, rows: Rows, earlier: Grid, empty: EmptyRows) -> Rows:
    """The rows with the value of the earlier window after each aggregate."""
    is_compared = [has_aggregate(output.expression) for output in plan.values]
    both = {}
    for key, values in rows.items():
        previous = earlier.rows.get(key) or empty.values(key[1])[0]
        pairs = zip(values, previous, is_compared, strict=True)
        both[key] = [cell for now, then, has_then in pairs for cell in ((now, then) if has_then else (now,))]
    return both


def compared_outputs(outputs: Sequence[Output]) -> tuple[Output, ...]:
    """The outputs of COMPARE WITH: each aggregate is followed by ``<name>_previous``."""
    both: list[Output] = []
    for output in outputs:
        both.append(output)
        if output.group is None and has_aggregate(output.expression):
            name = f"{output.name}_previous"
            expression = Derived(output.expression.span, name, output.expression.type)
            both.append(Output(name, expression, hidden=output.hidden))
    return tuple(both)


def change_pct(before: Any, after: Any) -> float | None:
    """The change in percent of the value before; None where that is null or 0, or the result is not finite."""
    if before is None or after is None or before == 0:
        return None
    change: float = (after - before) / abs(before) * 100
    return change if math.isfinite(change) else None
