"""From a statement to its response: parse it, resolve its window, read the rows, and write the result as JSON."""

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

from obs.errors import ServiceError
from obs.query.execution import result, window
from obs.query.execution.explain import COLUMNS, explain, narrower_window
from obs.query.execution.grid import Grid, Group, Key, count_groups, read_grid, with_largest
from obs.query.execution.limits import Limits, too_many_buckets, too_many_rows
from obs.query.execution.result import Cell, Row
from obs.query.execution.session import Session, open_session, too_complex
from obs.query.language.check import check
from obs.query.language.errors import OqlError
from obs.query.language.grammar import parse
from obs.query.language.nodes import Span
from obs.query.language.plan import Listing, Plan, Range, Scan
from obs.query.sql.select import select
from obs.sources import Source

_CACHED_PLANS = 512


class QueryRequest(NamedTuple):
    """`now_ms` is the time of the request; with `is_admin`, sources for admins can be read too. `params` is JSON."""

    statement: str
    path: Path
    now_ms: int
    limits: Limits
    is_admin: bool = False
    params: str = "{}"


class QueryResponse(NamedTuple):
    """A result as it is sent. It is written where the query runs: writing 10,000 rows must not delay heartbeats."""

    body: bytes
    headers: dict[str, str]
    window: Range | None = None


class Engine:
    """Runs statements over a list of sources. It caches plans, as dashboards repeat statements. Thread-safe."""

    def __init__(self, sources: Sequence[Source]) -> None:
        known = {source.name: source for source in sources}
        self.plan = lru_cache(_CACHED_PLANS)(lambda text, sent="{}": check(parse(text, json.loads(sent)), text, known))

    def run(self, request: QueryRequest) -> QueryResponse:
        """Raises ServiceError (400, 403, 422, 503)."""
        statement, path, now_ms, limits, is_admin, params = request
        started = time.perf_counter()
        try:
            end, length = len(statement), len(statement) + len(params) - len("{}")
            if length > limits.max_length:
                message = f"The statement has {length} characters. The limit is {limits.max_length}."
                raise OqlError("oql_too_long", Span(min(limits.max_length, end), end), message)
            plan = self.plan(statement, params)
            parse_seconds = time.perf_counter() - started
            if isinstance(plan, Listing):
                found = _response("table", plan.columns, plan.rows, 0, 0)
            elif plan.source.admin_only and not is_admin:
                raise ServiceError("missing_scope", f"Reading {plan.source.name} needs the scope admin.")
            else:
                found = run(plan, path, now_ms, limits)
        except OqlError as error:
            raise error.error(statement) from error
        except RecursionError as error:  # the checker and the compiler take some frames for each level
            raise too_complex().error(statement) from error
        run_seconds = time.perf_counter() - started - parse_seconds
        found.headers["Server-Timing"] = f"parse;dur={parse_seconds * 1000:.2f}, run;dur={run_seconds * 1000:.2f}"
        return found


def _response(
    output_type: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]], scanned: int, bytes_scanned: int | None
) -> QueryResponse:
    """`scanned` is the number of rows; `bytes_scanned` is None where the system does not count them."""
    headers = {
        "X-Query-Rows-Scanned": str(scanned),
        "X-Query-Bytes-Scanned": "unknown" if bytes_scanned is None else str(bytes_scanned),
    }
    fields = {"output_type": output_type, "columns": columns, "rows": rows}
    return QueryResponse(json.dumps(fields, allow_nan=False, separators=(",", ":")).encode(), headers)


def run(plan: Plan, path: Path, now_ms: int, limits: Limits) -> QueryResponse:
    """The result of a plan on the file at `path`. Raises OqlError, and ServiceError (422, 503)."""
    scans = window.scans(plan, now_ms, limits)
    try:
        with open_session(path, plan, scans, limits) as session:
            return _read(plan, scans, session)
    except ServiceError as refusal:
        hint = None if plan.explain else narrower_window(refusal, path, plan, scans, limits)
        if hint is None:
            raise
        raise ServiceError(refusal.error, refusal.message, hint=hint, extra=refusal.extra) from refusal


def _read(plan: Plan, scans: Sequence[Scan], session: Session) -> QueryResponse:
    scan, output_type = with_largest(plan, scans[0], session), plan.output_type
    if plan.explain:
        output_type, columns, count = "table", [*COLUMNS], 0
        written: list[list[Cell]] = [list(row) for row in explain(plan.to_read(), scan, session)]
    else:
        if plan.around is not None:
            rows, count = _read_around(plan, scan, session)
        elif plan.grouped:
            rows, count = _read_grouped(plan, [scan, *scans[1:]], session)
        else:
            rows = _fetch(plan, scan, session)
            count = len(rows)
        outputs = [(place, output) for place, output in enumerate(plan.results) if not output.hidden]
        columns = [output.name for _, output in outputs]
        writers = [(place, result.writer_of(output.expression)) for place, output in outputs]
        written = [[write(row[place]) for place, write in writers] for row in rows]
    response = _response(output_type, columns, written, count, session.bytes_scanned())
    response.headers["X-Query-Window"] = str(scan.window)
    return response._replace(window=scan.window)


def _fetch(plan: Plan, scan: Scan, session: Session) -> list[Row]:
    """Raises ServiceError (422) for too many rows."""
    found = session.fetch(select(plan, scan))
    if len(found) > session.limits.max_rows:
        raise too_many_rows(session.limits, grouped=False)
    return found


def _read_grouped(plan: Plan, scans: Sequence[Scan], session: Session) -> tuple[list[Row], int]:
    """The rows, with all `results` of the plan, and the number of rows scanned."""
    scan = scans[0]
    read = plan.to_read()
    grid = read_grid(read, scan, session)
    earlier = read_grid(replace(read, top=None), scans[1], session) if plan.back_ms is not None else None
    empty = result.empty_rows(read, scan, session)
    keys: Iterable[Key] = ()
    if scan.timeline is not None and plan.fills:
        groups = _groups_to_fill(read, scan, grid, earlier, session)
        keys = product(range(len(scan.timeline.starts)), groups)
    elif earlier is not None and plan.top is None:
        keys = earlier.rows
    rows = result.assemble(plan, scan, result.complete(read, grid, keys, empty), earlier, empty)
    if plan.is_ordered_last:
        rows = result.finish(plan, scan, rows, session)
    if len(rows) > session.limits.max_rows:
        raise too_many_rows(session.limits, grouped=scan.timeline is None)
    return rows, grid.scanned + (earlier.scanned if earlier is not None else 0)


def _groups_to_fill(plan: Plan, scan: Scan, grid: Grid, earlier: Grid | None, session: Session) -> list[Group]:
    assert scan.timeline is not None
    limits = session.limits
    keys = [*grid.rows, *grid.dropped]
    also = earlier.rows if earlier is not None and plan.top is None else ()
    seen = {group for _, group in (*keys, *also)}
    buckets = len(scan.timeline.starts)
    # Where the scan stopped at its limit, there may be groups that it has not seen.
    count = count_groups(plan, scan, session) if len(keys) > limits.max_rows else max(1, len(seen))
    if count * buckets > limits.max_rows:
        raise too_many_buckets(scan.window, scan.timeline.interval_ms, buckets, count, limits)
    return list(seen) if plan.groups else [()]


def _read_around(plan: Plan, scan: Scan, session: Session) -> tuple[list[Row], int]:
    """A row for each annotation, and the number of rows scanned."""
    assert plan.around is not None
    found = _fetch(plan.around, scan, session)
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
            row += [before, after, result.change_pct(output, before, after)]
        rows.append(row)
    return result.finish(plan, scan, rows, session), scanned
