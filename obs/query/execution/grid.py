"""Reading the rows of a grouped plan."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from obs.query.execution.session import Session
from obs.query.language.plan import Plan
from obs.query.sql import MAX_GROUPS, Range, Scan
from obs.query.sql.rollup import Cover, Span, select_rollups, usable_grains
from obs.query.sql.select import SqlStatement, select
from obs.sources import Grain

Group = tuple[Any, ...]
"""The values of the groups of a row, as they are stored."""
Key = tuple[int, Group]
"""Identifies a row of a grouped result: the number of its bucket, and its group."""

_MAX_SPANS = 200
"""How many parts of a window may be read separately; each is two parameters of the statement."""


@dataclass(frozen=True, slots=True)
class Grid:
    """The rows that were read: `rows` has the values of the outputs that are not groups, in the order of reading.

    `seen` has the key of every row that SQLite `returned`, those that HAVING drops included. `scanned` counts the rows
    of the source, or of rollups, that were read.
    """

    rows: dict[Key, list[Any]]
    seen: set[Key]
    returned: int
    scanned: int


def read_grid(plan: Plan, scan: Scan, session: Session) -> Grid:
    """Read a grouped plan: from rollups and the rows that they do not cover, or else from the rows."""
    cover = find_cover(plan, scan, session)
    found = session.fetch(select(plan, scan) if cover is None else select_rollups(plan, scan, cover))
    width = len(plan.groups) + 1
    return Grid(
        rows={(row[0], tuple(row[1:width])): list(row[width:-2]) for row in found if row[-2]},
        seen={(row[0], tuple(row[1:width])) for row in found},
        returned=len(found),
        scanned=sum(row[-1] for row in found),
    )


def count_groups(plan: Plan, scan: Scan, session: Session) -> int:
    groups = replace(plan, interval_ms=None, having=None, order=(), limit=None)
    return len(session.fetch(select(groups, replace(scan, timeline=None, max_rows=MAX_GROUPS))))


# Rollups


def find_cover(plan: Plan, scan: Scan, session: Session) -> Cover | None:
    """What to read from the rollups of the plan's source; None where they cannot answer it."""
    rest, spans = [scan.window], []
    for grain in usable_grains(plan, scan):
        covered, uncovered = _split(grain, rest, session)
        if covered and len(covered) <= _MAX_SPANS and len(uncovered) <= _MAX_SPANS:
            rest = uncovered
            spans.append((grain, tuple(covered)))
    if not spans:
        return None
    return Cover(tuple(spans), tuple(rest))


def _split(grain: Grain, ranges: Sequence[Range], session: Session) -> tuple[list[Span], list[Range]]:
    """The units within `ranges` for which a rollup is complete, as spans, and what is left of the ranges."""
    covered: list[Span] = []
    uncovered = []
    unit_ms = grain.unit_ms
    for each in ranges:
        first, end = -(-each.start // unit_ms), each.end // unit_ms
        complete = SqlStatement(grain.complete, {"first": first, "end": end})
        units = [row[0] for row in session.fetch(complete)] if first < end else []
        start = each.start
        for span in _spans(units):
            covered.append(span)
            if start < span[0] * unit_ms:
                uncovered.append(Range(start, span[0] * unit_ms))
            start = span[1] * unit_ms
        if start < each.end:
            uncovered.append(Range(start, each.end))
    return covered, uncovered


def _spans(units: Sequence[int]) -> Iterator[Span]:
    """Ascending numbers of units as spans."""
    # In a run of consecutive units, the number of a unit minus its place in the list stays the same.
    for _, run in groupby(enumerate(units), lambda numbered: numbered[1] - numbered[0]):
        numbers = [unit for _, unit in run]
        yield numbers[0], numbers[-1] + 1
