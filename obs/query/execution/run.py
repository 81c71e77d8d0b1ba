"""From a statement to its response: parse it, resolve its window, read the rows, and write the result as JSON."""

import json
import math
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from obs import times
from obs.errors import ServiceError
from obs.query.execution import result, window
from obs.query.execution.explain import COLUMNS, explain, narrower_window
from obs.query.execution.grid import Grid, Group, count_groups, read_earlier, read_grid
from obs.query.execution.limits import Limits, too_many_buckets, too_many_rows
from obs.query.execution.result import EmptyRows, Row
from obs.query.execution.session import Session, Sessions
from obs.query.language import Language
from obs.query.language.check import BUCKET
from obs.query.language.errors import OqlError
from obs.query.language.functions import NUMERIC
from obs.query.language.plan import Listing, Plan
from obs.query.sql import Range, Scan
from obs.query.sql.select import select
from obs.sources import Source


class QueryRequest(NamedTuple):
    """A statement, the organization's file, the time of the request (milliseconds since the epoch), and the limits.

    `is_admin` says whether it may read sources that are for admins only.
    """

    statement: str
    path: Path
    now_ms: int
    limits: Limits
    is_admin: bool = False


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The result of a statement and what it cost. `bytes_scanned` is None where the system does not count them."""

    output_type: str
    columns: list[str]
    rows: list[Row]
    window: Range | None = None
    rows_scanned: int = 0
    bytes_scanned: int | None = 0
    run_seconds: float = 0.0


class QueryResponse(NamedTuple):
    """A result as it is sent: its JSON, the headers that say what it cost, and its window.

    It is written where the query runs: writing 10,000 rows must not delay heartbeats.
    """

    body: bytes
    headers: dict[str, str]
    window: Range | None


class Engine:
    """Runs statements over a list of sources. Safe to use from any thread."""

    def __init__(self, sources: Sequence[Source], sessions: Sessions) -> None:
        self._language = Language(sources)
        self._sessions = sessions

    def run(self, request: QueryRequest) -> QueryResponse:
        """The response to a request. Raises ServiceError (400, 403, 422, 503)."""
        statement, path, now_ms, limits, is_admin = request
        started = time.perf_counter()
        try:
            plan = self._language.plan(statement, limits.max_length)
            parse_seconds = time.perf_counter() - started
            if isinstance(plan, Listing):
                found = QueryResult("table", list(plan.columns), [list(row) for row in plan.rows])
            elif plan.source.admin_only and not is_admin:
                raise ServiceError("missing_scope", f"Reading {plan.source.name} needs the scope admin.")
            else:
                found = run(plan, path, now_ms, limits, self._sessions)
        except OqlError as error:
            raise error.error(statement) from error
        return _response(found, parse_seconds)


def _response(found: QueryResult, parse_seconds: float) -> QueryResponse:
    fields = {"output_type": found.output_type, "columns": found.columns, "rows": found.rows}
    headers = {
        "Server-Timing": f"parse;dur={parse_seconds * 1000:.2f}, run;dur={found.run_seconds * 1000:.2f}",
        "X-Query-Rows-Scanned": str(found.rows_scanned),
        "X-Query-Bytes-Scanned": "unknown" if found.bytes_scanned is None else str(found.bytes_scanned),
    }
    if found.window is not None:
        headers["X-Query-Window"] = str(found.window)
    body = json.dumps(fields, allow_nan=False, separators=(",", ":"))
    return QueryResponse(body.encode(), headers, found.window)


def run(plan: Plan, path: Path, now_ms: int, limits: Limits, sessions: Sessions) -> QueryResult:
    """The result of a plan on the file at `path`. Raises OqlError, and ServiceError (422, 503)."""
    scans = window.scans(plan, now_ms, limits)

    def open_session(limits: Limits) -> AbstractContextManager[Session]:
        timelines = [scan.bucket_starts for scan in scans]
        tables, full_text = plan.tables(), plan.full_text()
        return sessions.open(path, tables, limits, zone=plan.timezone, timelines=timelines, full_text=full_text)

    try:
        with open_session(limits) as session:
            return _read(plan, scans, path, limits, session)
    except ServiceError as refusal:
        hint = None if plan.explain else narrower_window(refusal, plan, scans[0], limits, open_session)
        if hint is None:
            raise
        raise ServiceError(refusal.error, refusal.message, hint=hint, extra=refusal.extra) from refusal


def _read(plan: Plan, scans: Sequence[Scan], path: Path, limits: Limits, session: Session) -> QueryResult:
    scan = scans[0]
    output_type = plan.output_type
    if plan.explain:
        output_type, columns, count = "table", list(COLUMNS), 0
        rows: list[Row] = [list(row) for row in explain(plan, scans, path, session)]
    elif plan.around is not None:
        columns, rows, count = _read_around(plan, scan, limits, session)
    elif plan.grouped:
        columns, rows, count = _read_grouped(plan, scans, limits, session)
    else:
        columns = [output.name for output in plan.outputs]
        writers = result.writers(plan.outputs)
        rows = [result.write_row(row, writers) for row in _fetch(plan, scan, limits, session)]
        count = len(rows)
    usage = session.usage
    return QueryResult(output_type, columns, rows, scan.window, count, usage.bytes_scanned(), usage.seconds())


def _fetch(plan: Plan, scan: Scan, limits: Limits, session: Session) -> list[Sequence[Any]]:
    """The rows of a plan that is not grouped. Raises ServiceError (422) for too many rows."""
    found = session.fetch(select(plan, scan))
    if len(found) > limits.max_rows:
        raise too_many_rows(limits, grouped=False)
    return found


def _read_grouped(
    plan: Plan, scans: Sequence[Scan], limits: Limits, session: Session
) -> tuple[list[str], list[Row], int]:
    """The names of the columns, the rows, and the number of rows scanned."""
    scan = scans[0]
    is_series = scan.interval_ms is not None
    grid = read_grid(plan, scan, session)
    earlier = read_earlier(plan, scans[1], session) if plan.compare is not None else None
    empty = EmptyRows(plan, scan, session)
    rows = grid.rows
    if is_series and plan.fills:
        groups = _groups_to_fill(plan, scan, grid, earlier, limits, session)
        rows = result.fill(plan, grid, len(scan.bucket_starts), groups, empty)
    else:
        if earlier is not None:
            rows = result.add_vanished(plan, grid, earlier, empty)
        if max(grid.returned, len(rows)) > limits.max_rows:
            raise too_many_rows(limits, grouped=not is_series)
    are_added = len(rows) > len(grid.rows)
    outputs, count = plan.outputs, grid.scanned
    if earlier is not None:
        rows = result.compare(plan, rows, earlier, empty)
        outputs = result.compared_outputs(outputs)
        count += earlier.scanned
    names = [output.name for output in outputs]
    places = [outputs.index(output) for output in plan.outputs]
    written = result.write_rows(outputs, rows)
    if not is_series:
        written = result.order_groups(written, plan, places) if are_added else written
        return names, [row for _, row in written], count
    if are_added and not plan.fills:
        written = result.order_groups(written, replace(plan, order=(), limit=None), places)
    written = result.order_series(written, plan, places)
    starts = times.format_many_ms(scan.bucket_starts[number] for number, _ in written)
    return [BUCKET, *names], [[start, *row] for start, (_, row) in zip(starts, written, strict=True)], count


def _groups_to_fill(
    plan: Plan, scan: Scan, grid: Grid, earlier: Grid | None, limits: Limits, session: Session
) -> list[Group]:
    """The groups that have a row in every bucket, in their order. Raises ServiceError (422) for too many rows."""
    seen = {group for _, group in grid.seen}
    if earlier is not None and plan.top is None:
        seen |= {group for _, group in earlier.seen}
    buckets = len(scan.bucket_starts)
    # Where the scan stopped at its limit, there may be groups that it has not seen.
    count = count_groups(plan, scan, session) if grid.returned > limits.max_rows else max(1, len(seen))
    if count * buckets > limits.max_rows:
        raise too_many_buckets(scan.window, scan.rate_ms, buckets, count, limits)
    return sorted(seen, key=result.group_order) if plan.groups else [()]


def _read_around(plan: Plan, scan: Scan, limits: Limits, session: Session) -> tuple[list[str], list[Row], int]:
    """The names of the columns, one row for each annotation in the window, and the number of rows scanned.

    Each row has the columns of the annotation, then each aggregate before it, after it, and its change in percent.
    """
    assert plan.around is not None
    annotations, within_ms = plan.around.annotations, plan.around.within_ms
    found = _fetch(annotations, scan, limits, session)
    annotation_writers, value_writers = result.writers(annotations.outputs), result.writers(plan.outputs)
    is_number = [output.expression.type in NUMERIC for output in plan.outputs]
    scanned = len(found)
    rows = []
    for annotation in found:
        moment = annotation[0]
        sides = []
        for side in (Range(moment - within_ms, moment), Range(moment, moment + within_ms)):
            statement = select(plan, replace(scan, window=side, rate_ms=within_ms, max_rows=None))
            ((_, *values, _, count),) = session.fetch(statement)
            sides.append(result.write_row(values, value_writers))
            scanned += count
        row = result.write_row(annotation, annotation_writers)
        for before, after, numeric in zip(*sides, is_number, strict=True):
            row += [before, after, _change_pct(before, after) if numeric else None]
        rows.append(row)
    names = [output.name for output in annotations.outputs]
    names += [f"{output.name}_{part}" for output in plan.outputs for part in ("before", "after", "change_pct")]
    return names, rows, scanned


def _change_pct(before: Any, after: Any) -> float | None:
    """The change in percent of the value before; None where that is null or 0, or the result is not finite."""
    if before is None or after is None or before == 0:
        return None
    change: float = (after - before) / abs(before) * 100
    return change if math.isfinite(change) else None
