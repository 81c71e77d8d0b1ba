"""EXPLAIN, and the hint when a limit is exceeded."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from obs import times
from obs.errors import ServiceError
from obs.query.execution.grid import find_cover
from obs.query.execution.limits import Limits, longest_duration
from obs.query.execution.session import Session, open_session
from obs.query.language.plan import Plan, Range, Scan
from obs.query.sql.rollup import select_covered
from obs.query.sql.select import select

COLUMNS = ("what", "text")
_SLICES = 3
_SHARE = 2_000
"""The length of the window divided by the length of a slice."""
_SAFETY = 2
"""How many times less than the limit the window of a hint may cost: rows between the slices may be denser."""


def explain(plan: Plan, scan: Scan, session: Session) -> Iterator[tuple[str, str]]:
    """The rows of the result; COLUMNS names their columns."""
    yield "window", str(scan.window)
    cover = find_cover(plan, scan, session)
    if cover is not None:
        for grain, spans in cover.spans:
            count = sum(end - first for first, end in spans)
            first, end = (times.format_ms(number * grain.unit_ms) for number in (spans[0][0], spans[-1][1]))
            what = f"{count} x {times.write_duration(grain.unit_ms)} by {' and '.join(sorted(grain.columns))}"
            yield "rollup", f"{what}, between {first} and {end}"
        if cover.rest:
            yield "rollup", f"the rows of {', '.join(map(str, cover.rest))}"
    if scan.parts:
        yield "rollup", f"where the largest values are: the rows of {', '.join(map(str, scan.parts))}"
    if scan.groups:
        yield "groups", f"{len(scan.groups)} with the largest values over the window, which are read first"
    statement = select_covered(plan, scan, cover)
    yield "sql", statement.sql
    yield "parameters", json.dumps(statement.parameters, ensure_ascii=False)
    for step in session.fetch(replace(statement, sql=f"EXPLAIN QUERY PLAN {statement.sql}")):
        yield "plan", step[3]


def narrower_window(refusal: ServiceError, path: Path, plan: Plan, scans: Sequence[Scan], limits: Limits) -> str | None:
    """For a query refused for its bytes or its time: a hint that names a window which is within the limit, if any.

    The cost is measured on slices of the window.
    """
    limit = refusal.extra.get("limit")
    if limit not in ("max_bytes_scanned", "max_seconds"):
        return None
    window = scans[0].window
    length = max(1, window.length_ms // _SHARE)
    starts = [window.start + (window.length_ms - length) * number // (_SLICES - 1) for number in range(_SLICES)]
    slices = [replace(scans[0], window=Range(start, start + length), max_rows=None) for start in starts]
    try:
        with open_session(path, plan, scans, replace(limits, max_seconds=min(0.1, limits.max_seconds))) as session:
            counter = session.bytes_scanned if limit == "max_bytes_scanned" else session.seconds
            readings = [counter() or 0]
            for each in slices:
                session.fetch(select(plan, each))
                readings.append(counter() or 0)
            cost = max(after - before for before, after in pairwise(readings))
    except ServiceError:  # a slice alone exceeds the limit, so no window can be named
        return None
    possible = int(length * refusal.extra["max"] / _SAFETY / max(cost, 1e-9))
    if not 1 <= possible < window.length_ms:
        return None
    possible = longest_duration(possible)
    return f"Narrow the window to {times.write_duration(possible)}, or choose one job with WHERE job = '...'."
