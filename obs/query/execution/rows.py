"""The rows of a result: read from the source or from its rollups, completed, compared, and put in order."""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import chain, count, pairwise, product
from operator import itemgetter
from typing import Any

from obs.query.execution.session import Session, too_many_buckets, too_many_rows
from obs.query.language.functions import NUMERIC
from obs.query.language.plan import MAX_GROUPS, Checked, Derived, Output, Plan, Range, Read, Scan, has_aggregate
from obs.query.sql.cover import Cover, Span, terms_of_series, usable_grains
from obs.query.sql.rollup import select_covered, select_wide
from obs.query.sql.select import SqlStatement, select, select_empty, select_keys
from obs.sources import Grain, Type
from obs.times import format_ms

Group = Sequence[Any]  # the values of the groups of a row, as they are stored
Key = tuple[int, Group]  # identifies a row of a grouped result: the number of its bucket, and its group
Cell = str | int | float | bool | None
Row = Sequence[Any]  # a row of the result, as it is stored: a value for each of the plan's `results`
Rows = dict[Key, Row]  # of a grouped result: the values of the outputs that are not groups, as they are stored
Empty = Callable[[Group], tuple[list[Any], bool]]  # the outputs of a bucket without rows, and whether HAVING keeps it
MAX_SPANS = 200  # how many parts of a window may be read separately


@dataclass(frozen=True, slots=True)
class Grid:
    """The `rows` that were read, in this order, and the keys of those that HAVING dropped."""

    rows: Rows
    dropped: set[Key]
    scanned: int  # how many rows of the source, or of rollups, were read


def read_rows(plan: Plan, scans: Sequence[Scan], session: Session) -> tuple[list[Row], int]:
    """The rows, with all `results` of the plan, and how many were scanned. Raises OqlError, ServiceError (422, 503)."""
    if plan.around is not None:
        rows, scanned = _read_around(plan, scans[0], session)
    elif plan.grouped:
        rows, scanned = _read_grouped(plan, scans, session)
    else:
        rows = session.fetch(select(plan, scans[0]))
        scanned = len(rows)
    if len(rows) > session.limits.max_rows:
        raise too_many_rows(session.limits, grouped=plan.grouped and plan.interval_ms is None and plan.around is None)
    return rows, scanned


def _read_grouped(plan: Plan, scans: Sequence[Scan], session: Session) -> tuple[list[Row], int]:
    scan = scans[0]
    read = plan.to_read()
    grid = read_grid(read, scan, session)
    earlier = read_grid(replace(read, top=None), scans[1], session) if plan.back_ms is not None else None
    empty = _empty_rows(read, scan, session)
    keys: Iterable[Key] = ()
    if scan.timeline is not None and plan.fills:
        keys = product(range(len(scan.timeline.starts)), _groups_to_fill(read, scan, grid, earlier, session))
    elif earlier is not None and plan.top is None:
        keys = earlier.rows
    added = ((key, *empty(key[1])) for key in keys if key not in grid.rows and key not in grid.dropped)
    now = grid.rows | {key: values for key, values, kept in added if kept}
    then = None if earlier is None else {key: earlier.rows.get(key) or empty(key[1])[0] for key in now}
    if then is not None and plan.having is not None:
        evaluated = _evaluate(replace(plan, order=()), scan, _assemble(plan, scan, now, then), session)
        kept = [key for key, (is_kept, *_) in zip(now, evaluated, strict=True) if is_kept]
        now, then = {key: now[key] for key in kept}, {key: then[key] for key in kept}
    now = _filled(plan, now, grid.rows)
    if then is not None and earlier is not None:
        then = _filled(plan, then, earlier.rows)
    rows = _assemble(plan, scan, now, then)
    if plan.is_ordered_last:
        rows = _finish(plan, scan, rows, session)
    if scan.timeline is not None:
        rows.sort(key=itemgetter(0))
    return rows, grid.scanned + (earlier.scanned if earlier is not None else 0)


def _groups_to_fill(plan: Plan, scan: Scan, grid: Grid, earlier: Grid | None, session: Session) -> list[Group]:
    assert scan.timeline is not None
    limits = session.limits
    keys = [*grid.rows, *grid.dropped]
    also = earlier.rows if earlier is not None and plan.top is None else ()
    seen = {group for _, group in (*keys, *also)}
    bucket_count = len(scan.timeline.starts)
    count = max(1, len(seen))
    if len(keys) > limits.max_rows:  # the scan stopped there, so there may be groups that it has not seen
        groups = replace(plan, interval_ms=None, having=None, order=(), limit=None)
        count = len(session.fetch(select(groups, replace(scan, timeline=None, max_rows=MAX_GROUPS))))
    if count * bucket_count > limits.max_rows:
        raise too_many_buckets(scan.window, scan.timeline.interval_ms, bucket_count, count, limits)
    return list(seen) if plan.groups else [()]


def _read_around(plan: Plan, scan: Scan, session: Session) -> tuple[list[Row], int]:
    """A row for each annotation, and the number of rows scanned."""
    assert plan.around is not None
    few = plan.limit is not None or plan.having is not None  # of them may remain
    found = session.fetch(select(plan.around, replace(scan, max_rows=MAX_GROUPS) if few else scan))
    scanned = len(found)
    rows: list[Row] = []
    for annotation in found:
        moment = annotation[0]
        sides = []
        for side in (Range(moment - plan.within_ms, moment), Range(moment, moment + plan.within_ms)):
            ((_, *values, _, count),) = session.fetch(select(plan.to_read(), replace(scan, window=side, max_rows=None)))
            sides.append(values)
            scanned += count
        row = list(annotation)
        for output, before, after in zip(plan.outputs, *sides, strict=True):
            row += [before, after, _change_pct(output, before, after)]
        rows.append(row)
    if plan.having is not None:
        rows = [row for row, (kept, *_) in zip(rows, _evaluate(plan, scan, rows, session), strict=True) if kept]
    return _finish(plan, scan, rows, session), scanned


def read_grid(plan: Plan, scan: Scan, session: Session) -> Grid:
    """Read a grouped plan: from rollups and the rows that they do not cover, or else from the rows."""
    found = session.fetch(select_covered(plan, scan, find_cover(plan, scan, session)))
    if len(found) == MAX_GROUPS:
        raise too_many_rows(session.limits, grouped=scan.timeline is None)
    width = len(plan.groups) + 1
    rows = {(row[0], row[1:width]): row[width:-2] for row in found if row[-2]}
    dropped = {(row[0], row[1:width]) for row in found if not row[-2]}
    return Grid(rows, dropped, sum(row[-1] for row in found))


def find_cover(plan: Plan, scan: Scan, session: Session) -> Cover | None:
    """What to read from the rollups of the plan's source; None where they cannot answer it."""
    rest, spans = [scan.window], []
    grains, cover = usable_grains(plan, scan)
    starts = (scan.timeline.starts if scan.timeline else (), cover.moments)
    for grain in grains:
        covered, uncovered = _split(grain, rest, starts, session)
        if covered and len(covered) <= MAX_SPANS and len(uncovered) <= MAX_SPANS:
            rest = uncovered
            spans.append((grain, tuple(covered)))
    if not spans:
        return None
    grain, of_grain = spans[-1]
    if grain.by_time and (plan.source.where or terms_of_series(plan)):
        ((is_wide,),) = session.fetch(select_wide(plan, scan, grain, of_grain[0][0], of_grain[-1][1] - 1))
        cover = replace(cover, is_wide=bool(is_wide))
    return replace(cover, spans=tuple(spans), rest=tuple(rest))


def _split(
    grain: Grain, ranges: Sequence[Range], starts: Sequence[Sequence[int]], session: Session
) -> tuple[list[Span], list[Range]]:
    """The units within `ranges` for which a rollup is complete, as spans, and what is left of the ranges.

    Units in which a bucket begins, such as a day at 18:30 UTC, or a condition changes, are left: at one of `starts`.
    """
    covered, uncovered, unit_ms = list[Span](), list[Range](), grain.unit_ms
    for each in ranges:
        first, end = -(-each.start // unit_ms), each.end // unit_ms
        found = session.fetch(SqlStatement(grain.complete, {"first": first, "end": end})) if first < end else []
        spans = list[Span]()
        for first, end in found:
            within = (each[bisect_left(each, first * unit_ms) : bisect_left(each, end * unit_ms)] for each in starts)
            split = sorted(start // unit_ms for start in chain(*within) if start % unit_ms)
            spans += [(before + 1, after) for before, after in pairwise((first - 1, *split, end)) if before + 1 < after]
        covered += spans
        edges = [each.start, *(number * unit_ms for span in spans for number in span), each.end]
        uncovered += [Range(start, end) for start, end in zip(edges[::2], edges[1::2], strict=True) if start < end]
    return covered, uncovered


def _empty_rows(plan: Plan, scan: Scan, session: Session) -> Empty:
    """In buckets without rows a count is 0 and the rest is null."""
    statement = select_empty(plan, scan)

    @cache
    def values_of(group: Group) -> tuple[list[Any], bool]:
        parameters = {f"group{number}": value for number, value in enumerate(group)}
        ((*values, kept, _),) = session.fetch(statement, parameters)
        return values, bool(kept)

    return values_of if ":group" in statement.sql else lambda _: values_of(())


def _filled(plan: Plan, rows: Rows, read: Rows) -> Rows:
    """The rows, with what FILL says in place of the aggregates of those that are not among the ones `read`."""
    if plan.fill is None or not plan.fills:
        return rows
    fill, filled, last = plan.fill.value, Rows(), dict[Group, Row]()
    is_number = isinstance(fill, int | float)
    numbers = [fill if is_number and output.expression.type in NUMERIC else None for output in plan.values]
    for key in sorted(rows, key=itemgetter(0)):
        row = rows[key]
        if key not in read:
            instead = last.get(key[1], numbers) if fill == "previous" else numbers
            columns = zip(plan.values, row, instead, strict=True)
            row = [one if has_aggregate(output.expression) else value for output, value, one in columns]
        filled[key] = last[key[1]] = row
    return filled


def _assemble(plan: Plan, scan: Scan, rows: Rows, earlier: Rows | None) -> list[Row]:
    """The rows with all `results` of the plan; for COMPARE WITH, `earlier` has the same ones in the earlier window."""
    starts = (None,) if scan.timeline is None else scan.timeline.starts
    numbers = count(1 + len(plan.groups))
    places = [next(numbers) if output.group is None else 1 + output.group for output in plan.outputs]
    now = [(starts[bucket], *group, *values) for (bucket, group), values in rows.items()]
    then = [] if earlier is None else [(None, *key[1], *earlier[key]) for key in rows]
    columns = [] if scan.timeline is None else [[row[0] for row in now]]
    for place, output in zip(places, plan.outputs, strict=True):
        after = [row[place] for row in now]
        columns.append(after)
        if earlier is not None and has_aggregate(output.expression):
            before = [row[place] for row in then]
            columns.append(before)
            if output.expression.type in NUMERIC:
                columns.append([_change_pct(output, *values) for values in zip(before, after, strict=True)])
    return [*zip(*columns, strict=True)]


def _change_pct(output: Output, before: Any, after: Any) -> float | None:
    """The change in percent of the value before; None without numbers, after 0, or where it is not finite."""
    if output.expression.type not in NUMERIC or before is None or after is None or before == 0:
        return None
    change: float = (after - before) / abs(before) * 100
    return change if math.isfinite(change) else None


def _finish(plan: Plan, scan: Scan, rows: list[Row], session: Session) -> list[Row]:
    """The rows that TOP and LIMIT keep, in the order of ORDER BY, time and groups."""
    results = plan.results
    of_groups = {output.group: place for place, output in reversed(list(enumerate(results)))}
    places = [0] if isinstance(results[0].expression, Derived) else []
    places += [of_groups[group] for group in range(len(plan.groups)) if group in of_groups]
    keys = []
    for place in places:
        stored, column = [row[place] for row in rows], results[place].expression
        key = stored if column.type is Type.TIME else written(column, stored)
        keys.append(map(_rank, key) if None in key else key)
    rows = [rows[number] for *_, number in sorted(zip(*keys, range(len(rows)), strict=True))]
    top = plan.top if plan.interval_ms is None else None
    if plan.order or top is not None:
        evaluated = zip(_evaluate(replace(plan, having=None), scan, rows, session), rows, strict=True)
        ranked = [(_rank(rank), keys, row) for (_, rank, *keys), row in evaluated]
        if top is not None:
            chosen = sorted(range(len(ranked)), key=lambda place: ranked[place][0], reverse=True)[:top]
            ranked = [ranked[place] for place in (sorted(chosen) if plan.order else chosen)]
        for place, (_, descending) in reversed(list(enumerate(plan.order))):
            ranked.sort(key=lambda each: _rank(each[1][place]), reverse=descending)
        rows = [row for _, _, row in ranked]
    return rows[plan.offset :][: plan.limit]


def _evaluate(plan: Plan, scan: Scan, rows: Sequence[Row], session: Session) -> Iterator[Row]:
    """For each row: whether HAVING keeps it, the value that TOP ranks by, and those that ORDER BY sorts by."""
    statement = select_keys(plan, scan, [output.expression for output in plan.results])
    for row in rows:
        (found,) = session.fetch(statement, {f"c{number}": value for number, value in enumerate(row)})
        yield found


def _rank(cell: Any) -> tuple[bool, Any]:
    """A sort key: nulls first."""
    return cell is not None, cell


def written(expression: Checked, values: Sequence[Any]) -> Sequence[Cell]:
    """The stored values of a column as JSON values."""
    if isinstance(expression, Read) and (texts := expression.column.values):
        return [None if number is None else texts[number] for number in values]
    match expression.type:
        case Type.TEXT:
            return values
        case Type.BOOLEAN:
            return [None if value is None else bool(value) for value in values]
        case Type.TIME:
            return [*map(_time, values)]
    # -0.0 becomes 0.0
    return [(each + 0.0 if math.isfinite(each) else None) if isinstance(each, float) else each for each in values]


@lru_cache(10_000)  # a bucket begins at the same time in each group, and when its chart is drawn again
def _time(value: Any) -> Cell:
    with suppress(TypeError, OverflowError, ValueError):  # no time, or one outside the years 1 to 9999
        return format_ms(int(value))
    return None
