"""What would have worked: a narrower window for a query that read too much or took too long, found by trying."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace

from obs.errors import ServiceError
from obs.query.execution.limits import Limits, at_most
from obs.query.execution.session import Session
from obs.query.execution.window import Range
from obs.query.language.durations import write_duration
from obs.query.language.plan import Plan
from obs.query.sql.compile import compile_plan
from obs.query.sql.reading import Reading

_SLICES = 3
_SHARE = 200
"""A slice is this part of the window."""
_SAFETY = 2
"""The hint stays this many times below what the slices say, because what is between them may be denser."""


def slices(window: Range) -> Iterator[Range]:
    """A stretch at the start, in the middle and at the end of the window, each a 200th of it."""
    length = max(1, window.length_ms // _SHARE)
    for number in range(_SLICES):
        start = window.start + (window.length_ms - length) * number // (_SLICES - 1)
        yield Range(start, start + length)


def with_window(
    refused: ServiceError, plan: Plan, reading: Reading, open_one: Callable[[], AbstractContextManager[Session]]
) -> ServiceError:
    """The refusal of a query, whose hint names a window that works, if the most expensive slice says that there is one.

    `open_one` opens a session with limits of its own.
    """
    limit = str(refused.extra["limit"])
    try:
        with open_one() as session:
            cost = max(_cost(plan, reading, piece, limit, session) for piece in slices(reading.window))
    except ServiceError:  # a slice alone is too much: there is no window to name
        return refused
    allowed = refused.extra["max"] / _SAFETY
    length = next(slices(reading.window)).length_ms
    longest = int(length * allowed / max(cost, 1e-9))
    if not 1 <= longest < reading.window.length_ms:
        return refused
    hint = f"Narrow the window to {write_duration(at_most(longest))}, or choose one job with WHERE job = '...'."
    return ServiceError(refused.error, refused.message, hint=hint, extra=refused.extra)


def _cost(plan: Plan, reading: Reading, piece: Range, limit: str, session: Session) -> float:
    """The bytes or the seconds that a stretch of the window costs."""
    bytes_before, begun = session.bytes_scanned() or 0, time.monotonic()
    session.fetch(compile_plan(plan, replace(reading, window=piece, most_rows=None)))
    if limit == "max_bytes_scanned":
        return (session.bytes_scanned() or 0) - bytes_before
    return time.monotonic() - begun


def names_a_window(refused: ServiceError) -> bool:
    """Whether a refusal is one that a narrower window may cure."""
    return refused.extra.get("limit") in ("max_bytes_scanned", "max_seconds")


def limits_of_a_try(limits: Limits) -> Limits:
    """What finding a hint may cost: as much as one query at most, and not longer than a second."""
    return replace(limits, max_seconds=min(1, limits.max_seconds))
