"""Reading the rows of a grouped plan."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from obs.query.execution.session import Session
from obs.query.execution.window import buckets
from obs.query.language.nodes import Literal
from obs.query.language.plan import MAX_GROUPS, Aggregate, Apply, Output, Plan, Range, Read, Scan
from obs.query.sql.rollup import Cover, Span, select_covered, usable_grains
from obs.query.sql.select import SqlStatement, select
from obs.sources import Grain
from obs.times import HOUR_MS

Group = tuple[Any, ...]
"""The values of the groups of a row, as they are stored."""
Key = tuple[int, Group]
"""Identifies a row of a grouped result: the number of its bucket, and its group."""

_MAX_SPANS = 200
"""How many parts of a window may be read separately; each is two parameters of the statement."""


@dataclass(frozen=True, slots=True)
class Grid:
    """The rows that were read: `rows` has the values of the outputs that are not groups, in the order of reading.

    `dropped` has the keys of the rows that HAVING drops. `scanned` counts the rows of the source, or of rollups, that
    were read.
    """

    rows: dict[Key, list[Any]]
    dropped: set[Key]
    scanned: int


def read_grid(plan: Plan, scan: Scan, session: Session) -> Grid:
    """Read a grouped plan: from rollups and the rows that they do not cover, or else from the rows."""
    found = session.fetch(select_covered(plan, scan, find_cover(plan, scan, session)))
    width = len(plan.groups) + 1
    rows = {(row[0], tuple(row[1:width])): list(row[width:-2]) for row in found if row[-2]}
    dropped = {(row[0], tuple(row[1:width])) for row in found if not row[-2]}
    return Grid(rows, dropped, sum(row[-1] for row in found))


def with_largest(plan: Plan, scan: Scan, session: Session) -> Scan:
    """Where only rows with the largest measured values are asked for (ORDER BY duration_ms DESC LIMIT 20), the scan of
    the hours that have them, if the rollups know. For TOP with EVERY, the scan of the groups whose first aggregate is
    largest over the whole window. Any other scan as it is.
    """
    rollup, order = plan.source.rollup, plan.order
    if plan.top is not None and scan.timeline is not None:
        whole = replace(plan, interval_ms=None, having=None, order=(), limit=None, offset=0)
        rows = read_grid(whole, replace(scan, timeline=None), session).rows
        return replace(scan, groups=[group for _, group in rows])
    if rollup is None or plan.grouped or not plan.limit or not order or not order[0][1]:
        return scan
    value, _ = order[0]
    match value:
        case Apply(name="/", arguments=(dividend, Literal(value=int(divisor)))) if divisor > 0:
            value = dividend  # has the same order
    if not isinstance(value, Read) or value.column.name != rollup.measured:
        return scan
    largest = Output("largest", Aggregate(value.span, "max", (value,), value.type))
    hours = replace(plan, grouped=True, outputs=(largest,), order=(), limit=None, offset=0, interval_ms=HOUR_MS)
    timeline = buckets(scan.window, HOUR_MS, None)
    by_hour = replace(scan, timeline=timeline, max_rows=None)
    if find_cover(hours, by_hour, session) is None:
        return scan
    rows = read_grid(hours, by_hour, session).rows
    found = sorted(((values[0], hour) for (hour, _), values in rows.items() if values[0] is not None), reverse=True)
    # Each hour has at least one row with its largest value, so smaller ones than that of the last hour are not needed.
    last = plan.limit + plan.offset - 1
    chosen = sorted(hour for most, hour in found if most >= found[last][0]) if last < len(found) else []
    if not 0 < len(chosen) <= _MAX_SPANS:
        return scan
    ranges = [(timeline.starts[hour], timeline.starts[hour] + HOUR_MS) for hour in chosen]
    return replace(scan, parts=[Range(max(a, scan.window.start), min(b, scan.window.end)) for a, b in ranges])


def count_groups(plan: Plan, scan: Scan, session: Session) -> int:
    groups = replace(plan, interval_ms=None, having=None, order=(), limit=None)
    return len(session.fetch(select(groups, replace(scan, timeline=None, max_rows=MAX_GROUPS))))


# Rollups


def find_cover(plan: Plan, scan: Scan, session: Session) -> Cover | None:
    """What to read from the rollups of the plan's source; None where they cannot answer it."""
    rest, spans = [scan.window], []
    grains, parts = usable_grains(plan, scan)
    for grain in grains:
        covered, uncovered = _split(grain, rest, session)
        if covered and len(covered) <= _MAX_SPANS and len(uncovered) <= _MAX_SPANS:
            rest = uncovered
            spans.append((grain, tuple(covered)))
    return Cover(tuple(spans), tuple(rest), parts) if spans else None


def _split(grain: Grain, ranges: Sequence[Range], session: Session) -> tuple[list[Span], list[Range]]:
    """The units within `ranges` for which a rollup is complete, as spans, and what is left of the ranges."""
    covered: list[Span] = []
    uncovered = []
    unit_ms = grain.unit_ms
    for each in ranges:
        first, end = -(-each.start // unit_ms), each.end // unit_ms
        spans = session.fetch(SqlStatement(grain.complete, {"first": first, "end": end}))
        covered += [(first, end) for first, end in spans]
        edges = [each.start, *(number * unit_ms for span in spans for number in span), each.end]
        uncovered += [Range(start, end) for start, end in zip(edges[::2], edges[1::2], strict=True) if start < end]
    return covered, uncovered
