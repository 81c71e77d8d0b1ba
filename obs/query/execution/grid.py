"""Grouped answers: a grid of buckets and groups, read, filled where nothing was, set beside the grid of before."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from obs.query.execution.rollup import rolled
from obs.query.execution.session import Session
from obs.query.language.functions import NUMERIC
from obs.query.language.plan import Aggregate, Checked, Output, Plan, has_aggregate, walk
from obs.query.sql.compile import (
    compile_bucket,
    compile_empty,
    compile_explanation,
    compile_plan,
    compile_probe,
)
from obs.query.sql.compile_rows import driver_of
from obs.query.sql.reading import Reading

Group = tuple[Any, ...]
Key = tuple[int, Group]
"""A row of a grouped answer: the number of its bucket, and its groups as they are stored."""

_ROWS_A_BUCKET = 20
"""From this many rows a bucket on, a statement for each bucket is quicker than one that sorts."""
_MANY_ROWS = 50_000
"""From this many rows on, reading group by group is quicker than sorting rows into groups."""
_MOST_GROUPS = 1_000_000
"""Groups that are read at most to be counted or compared; the limits on time and bytes come first."""


@dataclass(frozen=True, slots=True)
class Grid:
    """What was read. `rows` holds the values of the outputs that are no groups, in the order in which they came.

    `seen` has every key that has rows of the source, the ones that HAVING drops too. `cells` counts the rows that
    SQLite gave, `scanned` the rows of the source behind them.
    """

    rows: dict[Key, list[Any]]
    seen: set[Key]
    cells: int
    scanned: int


def read_grid(plan: Plan, reading: Reading, session: Session) -> Grid:
    """Read a grouped plan: out of a rollup; else with one statement, or where there are many rows, one a bucket."""
    if (hours := rolled(plan, reading, session)) is not None:
        return _grid(plan, session.fetch(compile_plan(plan, replace(reading, rolled=hours))))
    if _is_large(plan, reading, session):
        return _read_buckets(plan, reading, session)
    if driver_of(plan) and _has_rows(plan, reading, session, _MANY_ROWS):
        reading = replace(reading, group_by_group=True)
    return _grid(plan, session.fetch(compile_plan(plan, reading)))


def _grid(plan: Plan, found: Sequence[Sequence[Any]]) -> Grid:
    width = len(plan.groups) + 1
    return Grid(
        rows={(row[0], tuple(row[1:width])): list(row[width:-2]) for row in found if row[-2]},
        seen={(row[0], tuple(row[1:width])) for row in found},
        cells=len(found),
        scanned=sum(row[-1] for row in found),
    )


def _is_large(plan: Plan, reading: Reading, session: Session) -> bool:
    """Whether a range of the index for each bucket costs less than sorting all rows into buckets."""
    if reading.interval_ms is None or plan.top is not None:
        return False
    plans = session.fetch(compile_explanation(compile_bucket(plan, reading)))
    column = plan.source.time_sql.rpartition(".")[2]
    if not any(f"{column}>?" in row[3] for row in plans):
        return False
    return _has_rows(plan, reading, session, _ROWS_A_BUCKET * len(reading.starts))


def _has_rows(plan: Plan, reading: Reading, session: Session, fewest: int) -> bool:
    """Whether the source has that many rows in the window."""
    ((rows,),) = session.fetch(compile_probe(plan, reading), {"most": fewest})
    return bool(rows == fewest)


def _read_buckets(plan: Plan, reading: Reading, session: Session) -> Grid:
    compiled = compile_bucket(plan, reading)
    window, starts = reading.window, reading.starts
    found: list[Sequence[Any]] = []
    for number, start in enumerate(starts):
        end = starts[number + 1] if number + 1 < len(starts) else window.end
        rows = session.fetch(compiled, {"start": max(start, window.start), "end": min(end, window.end)})
        found += [(number, *row[1:]) for row in rows if row[-1]]
        if reading.most_rows is not None and len(found) >= reading.most_rows:
            break
    return _grid(plan, found)


def others(plan: Plan) -> list[Output]:
    """The outputs that are no groups, whose values a Grid holds."""
    return [output for output in plan.outputs if output.group is None]


def in_group_order(group: Group) -> list[tuple[bool, Any]]:
    """A key to sort groups by: in their own order, nulls first."""
    return [(value is not None, value) for value in group]


class EmptyRows:
    """What the outputs are where there is no row: 0 for a count, null for the rest, unless FILL says otherwise."""

    def __init__(self, plan: Plan, reading: Reading, session: Session) -> None:
        self._plan = plan
        self._compiled = compile_empty(plan, reading)
        self._session = session
        self._others = others(plan)
        self._fill = plan.fill.with_ if plan.fill is not None and plan.fills else None
        self._same = plan.having is None and not any(self._reads_groups(output.expression) for output in self._others)
        self._known: tuple[list[Any], bool] | None = None

    def of(self, group: Group) -> tuple[list[Any], bool]:
        """The values of an empty bucket of `group`, and whether HAVING keeps it."""
        if self._known is None or not self._same:
            bound = {f"group{number}": value for number, value in enumerate(group)}
            ((*values, kept, _),) = self._session.fetch(self._compiled, bound)
            self._known = [self._filled(o, v) for o, v in zip(self._others, values, strict=True)], bool(kept)
        return self._known

    def _filled(self, output: Output, value: Any) -> Any:
        if self._fill is None or not has_aggregate(output.expression):
            return value
        return self._fill if isinstance(self._fill, int | float) and output.expression.type in NUMERIC else None

    def _reads_groups(self, expression: Checked) -> bool:
        """Whether the expression, outside of its aggregates, has a group in it."""
        inside = {id(part) for each in walk(expression) if isinstance(each, Aggregate) for part in walk(each)}
        return any(part in self._plan.groups and id(part) not in inside for part in walk(expression))


def fill(plan: Plan, grid: Grid, buckets: int, groups: Sequence[Group], empty: EmptyRows) -> dict[Key, list[Any]]:
    """The rows of the grid in order, where every one of `groups` has every one of `buckets`."""
    rows = dict(grid.rows)
    added: set[Key] = set()
    for group in groups:
        values, kept = empty.of(group)
        if kept:
            missing = [(bucket, group) for bucket in range(buckets) if (bucket, group) not in grid.seen]
            rows.update((key, list(values)) for key in missing)
            added.update(missing)
    if plan.groups:
        rows = dict(sorted(rows.items(), key=lambda row: (row[0][0], in_group_order(row[0][1]))))
    else:
        rows = {key: rows[key] for key in sorted(rows)}
    if plan.fill is not None and plan.fill.with_ == "previous":
        _carry_forward(rows, added, [has_aggregate(output.expression) for output in others(plan)])
    return rows


def _carry_forward(rows: dict[Key, list[Any]], added: set[Key], carried: Sequence[bool]) -> None:
    """FILL PREVIOUS: the `added` rows have the values of the bucket before, of the same group."""
    known: dict[Group, list[Any]] = {}
    for key, values in rows.items():
        before = known.get(key[1])
        if key in added and before is not None:
            values[:] = [old if carry else new for old, new, carry in zip(before, values, carried, strict=True)]
        known[key[1]] = values


def count_groups(plan: Plan, reading: Reading, session: Session) -> int:
    """How many groups there are in the window."""
    counted = replace(plan, interval_ms=None, having=None, order=(), limit=None)
    one_bucket = replace(reading, interval_ms=None, by_clock=None, most_rows=_MOST_GROUPS)
    return len(session.fetch(compile_plan(counted, one_bucket)))


def read_earlier(plan: Plan, before: Reading, session: Session) -> Grid:
    """COMPARE WITH: what was before, of all groups."""
    whole = replace(plan, having=None, order=(), limit=None, top=None)
    return read_grid(whole, replace(before, most_rows=_MOST_GROUPS), session)


def with_gone(plan: Plan, grid: Grid, earlier: Grid, empty: EmptyRows) -> dict[Key, list[Any]]:
    """The rows of the grid and of what was there only earlier, which HAVING may drop; TOP chooses among what is."""
    rows = dict(grid.rows)
    if plan.top is None:
        for key in earlier.rows.keys() - grid.seen:
            values, kept = empty.of(key[1])
            if kept:
                rows[key] = list(values)
    return rows


def beside(plan: Plan, rows: dict[Key, list[Any]], earlier: Grid, empty: EmptyRows) -> dict[Key, list[Any]]:
    """The rows with the value of before after every aggregate."""
    aggregates = [has_aggregate(output.expression) for output in others(plan)]
    compared = {}
    for key, values in rows.items():
        previous = earlier.rows.get(key) or empty.of(key[1])[0]
        pairs = zip(values, previous, aggregates, strict=True)
        compared[key] = [cell for now, then, aggregate in pairs for cell in ((now, then) if aggregate else (now,))]
    return compared


def with_previous(outputs: Sequence[Output]) -> tuple[Output, ...]:
    """The outputs of COMPARE WITH: ``<name>_previous`` beside every aggregate."""
    return tuple(
        each
        for output in outputs
        for each in ((output, replace(output, name=f"{output.name}_previous")) if _compared(output) else (output,))
    )


def _compared(output: Output) -> bool:
    return output.group is None and has_aggregate(output.expression)


def arrange(outputs: Sequence[Output], key: Key, values: Sequence[Any]) -> list[Any]:
    """The stored values of one row in the order of the outputs."""
    if not key[1]:
        return list(values)
    rest = iter(values)
    return [next(rest) if output.group is None else key[1][output.group] for output in outputs]
