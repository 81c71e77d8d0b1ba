"""Running a plan: resolve its window, refuse what can be seen to be too much, read, and put the answer together."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from obs import times
from obs.errors import ServiceError
from obs.query.execution.around import around
from obs.query.execution.explain import COLUMNS, explain
from obs.query.execution.grid import (
    EmptyRows,
    arrange,
    beside,
    count_groups,
    fill,
    in_group_order,
    read_earlier,
    read_grid,
    with_gone,
    with_previous,
)
from obs.query.execution.hints import limits_of_a_try, names_a_window, with_window
from obs.query.execution.limits import Limits, too_many_buckets, too_many_rows
from obs.query.execution.result import Row, grouped_in_order, in_order, write_row, writers
from obs.query.execution.session import Session, Sessions
from obs.query.execution.window import Range, all_earlier, automatic_interval, buckets, earlier, resolve
from obs.query.language.check import BUCKET
from obs.query.language.errors import OqlError
from obs.query.language.plan import Plan
from obs.query.sql.compile import compile_plan
from obs.query.sql.reading import Reading


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a statement and what it cost. `bytes_scanned` is None where the system does not tell."""

    output_type: str
    columns: list[str]
    rows: list[Row]
    window: Range | None = None
    rows_scanned: int = 0
    bytes_scanned: int | None = 0
    run_seconds: float = 0.0


def run(plan: Plan, path: Path, now_ms: int, limits: Limits, sessions: Sessions) -> Answer:
    """The answer of a plan on the file at `path`. Raises OqlError, and ServiceError (400, 422, 503)."""
    if plan.explain:
        return explain_plan(plan, path, now_ms, limits, sessions)
    readings = _readings(plan, now_ms, limits)
    try:
        return _run(plan, readings, path, limits, sessions)
    except ServiceError as refused:
        if not names_a_window(refused):
            raise
        tried = limits_of_a_try(limits)
        raise with_window(
            refused, plan, readings[0], lambda: _session(plan, readings, path, tried, sessions)
        ) from refused


def _run(plan: Plan, readings: Sequence[Reading], path: Path, limits: Limits, sessions: Sessions) -> Answer:
    with _session(plan, readings, path, limits, sessions) as session:
        outputs = plan.outputs
        if plan.around is not None:
            columns, rows, scanned = around(plan, readings[0], limits, session)
        else:
            if plan.compare is not None:
                outputs = with_previous(outputs)
            columns = [*([BUCKET] if readings[0].interval_ms is not None else []), *(output.name for output in outputs)]
            rows, scanned = (_grouped if plan.grouped else _plain)(plan, readings, limits, session)
        return Answer(
            plan.output_type,
            columns,
            rows,
            readings[0].window,
            scanned,
            session.bytes_scanned(),
            session.elapsed_seconds(),
        )


def explain_plan(plan: Plan, path: Path, now_ms: int, limits: Limits, sessions: Sessions) -> Answer:
    """The answer to EXPLAIN. Raises what `run` raises."""
    readings = _readings(plan, now_ms, limits)
    with _session(plan, readings, path, limits, sessions) as session:
        rows: list[Row] = [list(row) for row in explain(plan, readings, path, session)]
        scanned = session.bytes_scanned()
        return Answer("table", list(COLUMNS), rows, readings[0].window, 0, scanned, session.elapsed_seconds())


def _readings(plan: Plan, now_ms: int, limits: Limits) -> list[Reading]:
    """What the plan is read with, and for COMPARE WITH a second time.

    Raises ServiceError for too many buckets, OqlError for a window at the end of the calendar.
    """
    try:
        return _read_with(plan, now_ms, limits)
    except OverflowError as error:
        raise OqlError(
            "oql_bad_time",
            plan.window.span,
            "buckets in a time zone would begin before the year 1 or after 9999.",
            hint="Leave TIMEZONE out, or take another window.",
        ) from error


def _read_with(plan: Plan, now_ms: int, limits: Limits) -> list[Reading]:
    window = resolve(plan.window, now_ms)
    most_rows = limits.max_rows + 1
    if plan.interval_ms is None:
        first = Reading(window, now_ms, window.length_ms, most_rows)
    else:
        interval = plan.interval_ms or automatic_interval(window, plan.timezone)
        starts = _starts(plan, window, interval, limits)
        by_clock = None if _are_even(starts, interval, window) else 0
        first = Reading(window, now_ms, interval, most_rows, interval, starts, by_clock)
    if plan.compare is None:
        return [first]
    back, zone = plan.compare.milliseconds, plan.timezone
    shifted = Range(earlier(window.start, back, zone), earlier(window.end, back, zone))
    second = replace(first, window=shifted)
    if first.interval_ms is not None:
        starts = all_earlier(first.starts, back, zone)
        second = replace(second, starts=starts, by_clock=None if _are_even(starts, first.interval_ms, shifted) else 1)
    return [first, second]


def _are_even(starts: Sequence[int], interval: int, window: Range) -> bool:
    """Whether all buckets are equally long, the last one included."""
    if isinstance(starts, range):
        return True
    return window.end - starts[-1] <= interval and all(after - before == interval for before, after in pairwise(starts))


def _session(
    plan: Plan, readings: Sequence[Reading], path: Path, limits: Limits, sessions: Sessions
) -> AbstractContextManager[Session]:
    timelines = [reading.starts for reading in readings]
    return sessions.open(
        path, plan.tables(), limits, zone=plan.timezone, timelines=timelines, full_text=plan.full_text()
    )


def _starts(plan: Plan, window: Range, interval: int, limits: Limits) -> Sequence[int]:
    """The starts of the buckets. Raises ServiceError where there are too many."""
    if plan.timezone is not None and window.length_ms // interval > limits.max_rows:
        raise too_many_buckets(window, interval, window.length_ms // interval, 1, limits)
    starts = buckets(window, interval, plan.timezone)
    if plan.fills and len(starts) > limits.max_rows:
        raise too_many_buckets(window, interval, len(starts), 1, limits)
    return starts


def _plain(plan: Plan, readings: Sequence[Reading], limits: Limits, session: Session) -> tuple[list[Row], int]:
    found = session.fetch(compile_plan(plan, readings[0]))
    if len(found) > limits.max_rows:
        raise too_many_rows(limits, grouped=False)
    writing = writers(plan.outputs)
    return [write_row(row, writing) for row in found], len(found)


def _grouped(plan: Plan, readings: Sequence[Reading], limits: Limits, session: Session) -> tuple[list[Row], int]:
    reading = readings[0]
    grid = read_grid(plan, reading, session)
    rows, scanned = grid.rows, grid.scanned
    series = reading.interval_ms is not None
    empty = EmptyRows(plan, reading, session)
    earlier = read_earlier(plan, readings[1], session) if plan.compare is not None else None
    if series and plan.fills:
        found = {group for _, group in grid.seen}
        if earlier is not None and plan.top is None:
            found |= {group for _, group in earlier.seen}
        groups = sorted(found, key=in_group_order)
        many = count_groups(plan, reading, session) if grid.cells > limits.max_rows else max(1, len(groups))
        if many * len(reading.starts) > limits.max_rows:
            raise too_many_buckets(reading.window, reading.rate_ms, len(reading.starts), many, limits)
        rows = fill(plan, grid, len(reading.starts), groups if plan.groups else [()], empty)
    elif earlier is not None:
        rows = with_gone(plan, grid, earlier, empty)
    gone = len(rows) > len(grid.rows)
    if not (series and plan.fills) and max(grid.cells, len(rows)) > limits.max_rows:
        raise too_many_rows(limits, grouped=not series)
    outputs = plan.outputs
    if earlier is not None:
        rows = beside(plan, rows, earlier, empty)
        scanned += earlier.scanned
        outputs = with_previous(outputs)
    writing = writers(outputs)
    written = [(key[0], write_row(arrange(outputs, key, values), writing)) for key, values in rows.items()]
    places = [outputs.index(output) for output in plan.outputs]
    if not series:
        return [row for _, row in (grouped_in_order(written, plan, places) if gone else written)], scanned
    if gone and not plan.fills:
        written = grouped_in_order(written, replace(plan, order=(), limit=None), places)
    chosen = in_order(written, plan, places)
    starts = times.format_many_ms(reading.starts[number] for number, _ in chosen)
    return [[start, *row] for start, (_, row) in zip(starts, chosen, strict=True)], scanned
