"""From a statement to its response: parse it, resolve its window, read the rows, and write the result as JSON."""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from obs import times
from obs.errors import ServiceError
from obs.query.execution import window
from obs.query.execution.narrow import narrow
from obs.query.execution.rows import Cell, find_cover, read_rows, written
from obs.query.execution.session import Limits, Reader, Session, longest, open_session, too_complex
from obs.query.language.check import check
from obs.query.language.errors import OqlError
from obs.query.language.grammar import parse
from obs.query.language.nodes import Span
from obs.query.language.plan import Listing, Plan, Range, Scan
from obs.query.sql.rollup import select_covered
from obs.query.sql.select import select
from obs.sources import Source

_CACHED_PLANS = 512
_SLICES = 3
_SHARE = 2_000  # the length of the window divided by the length of a slice
_SAFETY = 2  # how many times less than the limit the window of a hint may cost: rows between the slices may be denser


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

    def __init__(self, sources: Sequence[Source], reader: Reader | None = None) -> None:
        self._reader = reader or Reader()
        known = {source.name: source for source in sources}
        self.plan = lru_cache(_CACHED_PLANS)(lambda text, sent="{}": check(parse(text, json.loads(sent)), text, known))

    def run(self, request: QueryRequest) -> QueryResponse:
        """Raises ServiceError (400, 403, 422, 503)."""
        statement, path, now_ms, limits, is_admin, params = request
        started = time.perf_counter()
        try:
            end, length = len(statement), len(statement) + len(params) - len("{}")
            if length > limits.max_length:
                what = "The statement has" if params == "{}" else "The statement and its parameters have"
                message = f"{what} {length} characters. The limit is {limits.max_length}."
                raise OqlError("oql_too_long", Span(min(limits.max_length, end), end), message)
            plan = self.plan(statement, params)
            parse_seconds = time.perf_counter() - started
            if isinstance(plan, Listing):
                found = _response("table", plan.columns, plan.rows, 0, 0)
            elif plan.source.admin_only and not is_admin:
                raise ServiceError("missing_scope", f"Reading {plan.source.name} needs the scope admin.")
            else:
                found = run(plan, path, now_ms, limits, self._reader)
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
    read = "unknown" if bytes_scanned is None else str(bytes_scanned)
    headers = {"X-Query-Rows-Scanned": str(scanned), "X-Query-Bytes-Scanned": read}
    fields = {"output_type": output_type, "columns": columns, "rows": rows}
    return QueryResponse(json.dumps(fields, allow_nan=False, separators=(",", ":")).encode(), headers)


def run(plan: Plan, path: Path, now_ms: int, limits: Limits, reader: Reader) -> QueryResponse:
    """The result of a plan on the file at `path`. Raises OqlError, and ServiceError (422, 503)."""
    scans = window.scans(plan, now_ms, limits)
    try:
        with open_session(path, plan, scans, limits, reader) as session:
            return _read(plan, scans, session)
    except ServiceError as refusal:
        if not plan.explain:
            refusal.hint = _hint(refusal, path, plan, scans, limits) or refusal.hint
        raise


def _read(plan: Plan, scans: Sequence[Scan], session: Session) -> QueryResponse:
    scan = narrow(plan, scans[0], session)
    if plan.explain:
        read = [(plan.to_read(), each) for each in [scan, *scans[1:]]]
        read = read if plan.around is None else [(plan.around, scan), *read]
        steps = [step for one, each in read for step in _explain(one, each, session)]
        response = _response("table", ("what", "text"), steps, 0, session.bytes_scanned())
    else:
        rows, scanned = read_rows(plan, [scan, *scans[1:]], session)
        outputs = [(place, output) for place, output in enumerate(plan.results) if not output.hidden]
        by_column = (written(output.expression, [row[place] for row in rows]) for place, output in outputs)
        cells = list(zip(*by_column, strict=True))
        columns = [output.name for _, output in outputs]
        response = _response(plan.output_type, columns, cells, scanned, session.bytes_scanned())
    response.headers["X-Query-Window"] = str(scan.window)
    return response._replace(window=scan.window)


def _explain(plan: Plan, scan: Scan, session: Session) -> Iterator[tuple[str, str]]:
    """The rows of the result of EXPLAIN: what they say, and its text."""
    yield "window", str(scan.window)
    if plan.around is not None:
        length = times.write_duration(plan.within_ms)
        yield "around", f"the rows of {length} before each annotation, and of {length} after it, instead of the window"
    if (cover := find_cover(plan, scan, session)) is not None:
        for grain, spans in cover.spans:
            count = sum(end - first for first, end in spans)
            first, end = (times.format_ms(number * grain.unit_ms) for number in (spans[0][0], spans[-1][1]))
            what = f"{count} x {times.write_duration(grain.unit_ms)} by {' and '.join(sorted(grain.columns))}"
            yield "rollup", f"{what}, between {first} and {end}"
        if cover.rest:
            yield "rollup", f"the rows of {', '.join(map(str, cover.rest))}"
    if scan.parts:
        hours = ", ".join(str(Range(*part)) for part in scan.parts if len(part) == 2)
        what = f"hours that have such rows: the rows of {hours}" if hours else f"{len(scan.parts)} times of jobs"
        yield "rollup", f"only {what}"
    if scan.groups:
        yield "groups", f"{len(scan.groups)} with the largest values over the window, which are read first"
    statement = select_covered(plan, scan, cover)
    yield "sql", statement.sql
    yield "parameters", json.dumps(statement.parameters, ensure_ascii=False)
    for step in session.fetch(replace(statement, sql=f"EXPLAIN QUERY PLAN {statement.sql}")):
        yield "plan", step[3]


def _hint(refusal: ServiceError, path: Path, plan: Plan, scans: Sequence[Scan], limits: Limits) -> str | None:
    """For a query refused for its bytes or time: a hint that names a window within the limit, if any."""
    limit = refusal.extra.get("limit")
    if limit not in ("max_bytes_scanned", "max_seconds"):
        return None
    window = scans[0].window
    length = max(1, window.length_ms // _SHARE)
    starts = [window.start + (window.length_ms - length) * number // (_SLICES - 1) for number in range(_SLICES)]
    slices = [replace(scans[0], window=Range(start, start + length), max_rows=None) for start in starts]
    brief = replace(limits, max_seconds=min(0.1, limits.max_seconds))
    try:
        with open_session(path, plan, scans, brief, Reader()) as session:
            counter = session.bytes_scanned if limit == "max_bytes_scanned" else session.seconds
            readings = [counter() or 0]
            for each in slices:
                session.fetch(select(plan.to_read(), each))
                readings.append(counter() or 0)
            cost = max(after - before for before, after in pairwise(readings))
    except ServiceError:  # a slice alone exceeds the limit, so no window can be named
        return None
    possible = int(length * refusal.extra["max"] / _SAFETY / max(cost, 1e-9))
    if not 1 <= possible < window.length_ms:
        return None
    return f"Narrow the window to {longest(possible)}, or choose one job with WHERE job = '...'."
