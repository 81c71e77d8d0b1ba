"""What a statement costs, measured on slices of its window: for EXPLAIN, and for the hint when a limit is exceeded."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from obs.errors import ServiceError
from obs.query.execution.limits import Limits, longest_duration
from obs.query.execution.session import Session
from obs.query.language.durations import write_duration
from obs.query.language.plan import Plan
from obs.query.sql.rollup import Cover, select_rollups
from obs.query.sql.scan import Range, Scan
from obs.query.sql.select import select

_SLICES = 3
_SHARE = 200
"""The length of the window divided by the length of a slice."""
_SAFETY = 2
"""How many times less than the limit the window of a hint may cost: rows between the slices may be denser."""


def estimate_bytes(plan: Plan, scan: Scan, cover: Cover | None, path: Path, session: Session) -> int | None:
    """How many bytes a plan reads; None where the system does not count them.

    With rollups the statement is run, for it reads little. Else the slices are read, and what they read is multiplied
    by the share of the window that they are; the estimate is at most the size of the file and its log.
    """
    before = session.bytes_scanned()
    if before is None:
        return None
    if cover is not None:
        session.fetch(select_rollups(plan, scan, cover))
        return (session.bytes_scanned() or 0) - before
    slices = list(_slices(scan.window))
    for each in slices:
        session.fetch(select(plan, replace(scan, window=each)))
    read = (session.bytes_scanned() or 0) - before
    files = [path, path.with_name(path.name + "-wal")]
    return min(
        read * scan.window.length_ms // sum(each.length_ms for each in slices),
        sum(file.stat().st_size for file in files if file.exists()),
    )


def narrower_window(
    refusal: ServiceError,
    plan: Plan,
    scan: Scan,
    limits: Limits,
    open_session: Callable[[Limits], AbstractContextManager[Session]],
) -> str | None:
    """For a query refused for its bytes or its time: a hint that names a window which is within the limit.

    None for another limit, and where even a slice exceeds it. The measurement may use as much as one query, and one
    second.
    """
    limit = refusal.extra.get("limit")
    if limit not in ("max_bytes_scanned", "max_seconds"):
        return None
    slices = list(_slices(scan.window))
    try:
        with open_session(replace(limits, max_seconds=min(1, limits.max_seconds))) as session:
            measure = _bytes_of if limit == "max_bytes_scanned" else _seconds_of
            cost = max(measure(plan, replace(scan, window=each, max_rows=None), session) for each in slices)
    except ServiceError:  # a slice alone exceeds the limit, so no window can be named
        return None
    allowed = refusal.extra["max"] / _SAFETY
    length = int(slices[0].length_ms * allowed / max(cost, 1e-9))
    if not 1 <= length < scan.window.length_ms:
        return None
    return f"Narrow the window to {write_duration(longest_duration(length))}, or choose one job with WHERE job = '...'."


def _slices(window: Range) -> Iterator[Range]:
    """A slice at the start, one in the middle and one at the end of the window."""
    length = max(1, window.length_ms // _SHARE)
    for number in range(_SLICES):
        start = window.start + (window.length_ms - length) * number // (_SLICES - 1)
        yield Range(start, start + length)


def _bytes_of(plan: Plan, scan: Scan, session: Session) -> float:
    before = session.bytes_scanned() or 0
    session.fetch(select(plan, scan))
    return (session.bytes_scanned() or 0) - before


def _seconds_of(plan: Plan, scan: Scan, session: Session) -> float:
    started = time.monotonic()
    session.fetch(select(plan, scan))
    return time.monotonic() - started
