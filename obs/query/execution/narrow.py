"""What to read of a window: few groups, hours or times, if the rollups know that no others are asked for."""

import math
from collections.abc import Sequence
from dataclasses import replace

from obs.query.execution.rows import MAX_SPANS, Row, find_cover, read_grid
from obs.query.execution.session import Session
from obs.query.execution.window import buckets
from obs.query.language.nodes import Literal
from obs.query.language.plan import Aggregate, Apply, Checked, Output, Plan, Read, Scan, terms, walk
from obs.query.sql.cover import IS_AFTER, needs_value, terms_of_series
from obs.query.sql.rollup import select_covered
from obs.query.sql.select import MANY_ROWS, prefix_of, select_frequent, select_many
from obs.times import HOUR_MS

_MAX_TIMES = 20_000  # how many times of jobs may be read separately
_WORTH = 30  # reading one of them takes as long as reading so many rows


def narrow(plan: Plan, scan: Scan, session: Session) -> Scan:
    """The scan of the groups or times with what is asked for, if these are few. Any other scan as it is.

    For TOP with EVERY, these are the groups whose first aggregate is largest over the whole window. Messages with a
    text that is very frequent, and the latest ones with a frequent text, are read without its full-text index.
    """
    if plan.top is not None and scan.timeline is not None:
        whole = replace(plan, having=None, order=(), limit=None, offset=0)
        rows = read_grid(whole, replace(scan, timeline=None), session).rows
        return replace(scan, groups=[group for _, group in rows])
    is_latest = plan.limit is not None and not plan.grouped and _is_by_time(plan)
    frequent = select_frequent(plan, scan, is_latest=is_latest)
    if frequent is not None and session.fetch(frequent):
        return replace(scan, searches=False)
    if plan.grouped or not plan.source.grains:
        return scan
    parts = _few_hours(plan, scan, session)
    parts = _few_times(plan, scan, session) if parts is None else parts
    return scan if parts is None else replace(scan, parts=parts or [(scan.window.start, scan.window.start)])


def _few_hours(plan: Plan, scan: Scan, session: Session) -> list[tuple[int, ...]] | None:
    """Where only rows with the largest or smallest measured values are asked for (ORDER BY duration_ms DESC LIMIT 20),
    or values beyond a bound (WHERE duration_ms > 15m), and few hours have them: these, as `Scan.parts`. Else None.
    """
    value, descending = plan.order[0] if plan.limit and plan.order else (None, False)
    match value:
        case Apply(name="/", arguments=(dividend, Literal(value=int() | float() as divisor))) if divisor >= 1:
            value = dividend  # has the same order; divided by less than 1, large values could become infinite
    limited, where, nulls_first = _threshold(plan.where), terms_of_series(plan), False
    value = None if prefix_of(value) is None else value
    if value is not None:
        found = Aggregate(value.span, "max" if descending else "min", (value,), value.type)
        if limited is None or limited[0] != found or len(terms(plan.where)) > len(terms(where)) + 1:
            limited, where, nulls_first = None, plan.where, not descending
    elif limited is not None:
        found = limited[0]
    else:
        return None
    counts = [Aggregate(found.span, "count", of, None) for of in ((), found.arguments) if nulls_first]
    rows = _by_hour(plan, where, (), [found, *counts], replace(scan, max_rows=None), session)
    if rows is None or (nulls_first and any(row[2] > row[3] for row in rows)):
        return None
    hours = sorted(((each, hour) for hour, each, *_ in rows if each is not None), reverse=found.name == "max")
    bounds = [] if limited is None else [limited[1]]
    if value is not None:
        # Each hour has at least one row with its extreme value; values beyond that of the last are not needed.
        last = (plan.limit or 0) + plan.offset - 1
        if last >= len(hours) and not needs_value(plan.where):
            return None
        bounds.append(hours[min(last, len(hours) - 1)][0] if hours else 0)
    bound = max(bounds) if found.name == "max" else min(bounds)
    window, first = scan.window, scan.window.start // HOUR_MS
    chosen = sorted(first + hour for each, hour in hours if (each <= bound if found.name == "min" else each >= bound))
    if len(chosen) > MAX_SPANS:
        return None
    return [(max(hour * HOUR_MS, window.start), min((hour + 1) * HOUR_MS, window.end)) for hour in chosen]


def _threshold(where: Checked | None) -> tuple[Aggregate, int] | None:
    """The largest or the smallest of what is measured, and the bound that it has to reach for any row to be chosen.

    None if WHERE has no such term: ``duration_ms > 15m`` or ``duration_ms < 2s``.
    """
    for term in terms(where):
        match term:
            case Apply(name=name, arguments=(value, Literal(value=int() | float() as constant))):
                if name in IS_AFTER and prefix_of(value) is not None:
                    first = math.floor(constant) + 1 if IS_AFTER[name][0] else math.ceil(constant)
                    extreme, bound = ("max", first) if name in (">", ">=") else ("min", first - 1)
                    return Aggregate(term.span, extreme, (value,), value.type), bound
    return None


def _few_times(plan: Plan, scan: Scan, session: Session) -> list[tuple[int, ...]] | None:
    """Where all rows of some series are asked for (WHERE exit_code = 2 AND host = 'db1'), and only few times of few
    jobs have them, these, as `Scan.parts`; else None.
    """
    where = terms_of_series(plan)
    of_job = any(isinstance(each, Read) and each.column.key for each in walk(where))
    if where is None or of_job or (plan.limit is not None and _is_by_time(plan)):
        return None  # or few rows are read anyway: those of a job, or the latest ones, until LIMIT is reached
    keys = [Read(where.span, replace(each, lookup=each.key)) for each in plan.source.columns if each.key]
    time = Read(where.span, plan.source.by_name()["time"])
    found = [Aggregate(where.span, name, (time,), time.type) for name in ("min", "max")]
    rows = _by_hour(plan, where, keys, found, replace(scan, max_rows=_MAX_TIMES + 1), session)
    if rows is None or len(rows) > _MAX_TIMES or not session.fetch(select_many(plan, scan.window, _WORTH * len(rows))):
        return None
    return [(first, last + 1, key) for _, key, first, last, *_ in rows]


def _by_hour(
    plan: Plan, where: Checked | None, groups: Sequence[Checked], found: Sequence[Checked], scan: Scan, session: Session
) -> list[Row] | None:
    """The groups and aggregates of each hour with rows that `where` chooses, if the rollups know them; else None."""
    outputs = tuple(Output("", each) for each in found)
    by_hour = replace(scan, timeline=buckets(scan.window, HOUR_MS, None))
    of_hours = replace(plan, grouped=True, outputs=outputs, groups=tuple(groups), where=where)
    of_hours = replace(of_hours, order=(), limit=None, offset=0)
    cover = find_cover(of_hours, by_hour, session)
    if cover is None or any(session.fetch(select_many(plan, part, MANY_ROWS)) for part in cover.rest):
        return None
    return session.fetch(select_covered(of_hours, by_hour, cover))


def _is_by_time(plan: Plan) -> bool:
    return not plan.order or (isinstance(first := plan.order[0][0], Read) and first.column.name == "time")
