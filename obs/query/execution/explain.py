"""EXPLAIN: what a statement means, the SQL it becomes, SQLite's plan for it, and how much it may read."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from obs import times
from obs.query.execution.estimate import estimate_bytes
from obs.query.execution.grid import find_cover
from obs.query.execution.session import Session
from obs.query.language.durations import write_duration
from obs.query.language.plan import Plan
from obs.query.sql.rollup import Cover, select_rollups
from obs.query.sql.scan import Scan
from obs.query.sql.select import query_plan, select

COLUMNS = ("what", "text")


def explain(plan: Plan, scans: Sequence[Scan], path: Path, session: Session) -> Iterator[tuple[str, str]]:
    """The rows of the result; COLUMNS names their columns. To estimate bytes, small parts of the window are read.

    The SQL is that of the whole window. Where there are many rows, a grouped plan may be read by one statement per
    bucket, or group by group, instead (see `obs.query.execution.grid`).
    """
    scan = scans[0]
    yield "source", f"{plan.source.name}: {plan.source.row}, by {plan.source.time}"
    yield "window", str(scan.window)
    if scan.interval_ms is not None:
        first = times.format_ms(scan.bucket_starts[0])
        yield "buckets", f"{len(scan.bucket_starts)} of {write_duration(scan.interval_ms)}, the first at {first}"
    if len(scans) > 1:
        yield "compared with", str(scans[1].window)
    cover = find_cover(plan, scan, session)
    if cover is not None:
        yield from (("rollup", text) for text in _parts(cover))
    statement = select(plan, scan) if cover is None else select_rollups(plan, scan, cover)
    yield "sql", statement.sql
    yield "parameters", json.dumps(statement.parameters, ensure_ascii=False)
    for step in session.fetch(query_plan(statement)):
        yield "plan", step[3]
    estimate = estimate_bytes(plan, scan, cover, path, session)
    yield "estimated bytes", "unknown" if estimate is None else str(estimate)


def _parts(cover: Cover) -> Iterator[str]:
    """Which parts of the window are read from each rollup, and which from the rows."""
    for grain, spans in cover.spans:
        count = sum(end - first for first, end in spans)
        first, end = (times.format_ms(number * grain.unit_ms) for number in (spans[0][0], spans[-1][1]))
        unit = write_duration(grain.unit_ms)
        yield f"{count} x {unit} by {' and '.join(sorted(grain.columns))}, between {first} and {end}"
    if cover.rest:
        yield f"the rows of {', '.join(map(str, cover.rest))}"
