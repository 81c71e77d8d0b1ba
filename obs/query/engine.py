"""A statement and a file in, an answer out: what a request needs of the query area, in whatever process."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from obs.query.fault import OqlError
from obs.query.language import Language
from obs.query.limits import Limits
from obs.query.plan import Listing
from obs.query.run import Answer, run
from obs.query.watchdog import Watchdog
from obs.sources import Source


class Question(NamedTuple):
    """A statement of OQL, the organization's file that it is asked of, and when (milliseconds since the epoch)."""

    text: str
    path: Path
    now_ms: int
    limits: Limits


class Engine:
    """Answers statements over a list of sources. Safe to use from any thread."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._language = Language(sources)
        self._watchdog = Watchdog()

    def answer(self, question: Question) -> tuple[Answer, float]:
        """The answer, and the seconds that it took to understand the statement. Raises ServiceError."""
        text, path, now_ms, limits = question
        started = time.perf_counter()
        try:
            plan = self._language.plan(text, limits.max_length)
            parse_seconds = time.perf_counter() - started
            if isinstance(plan, Listing):
                return Answer("table", list(plan.columns), [list(row) for row in plan.rows]), parse_seconds
            return run(plan, path, now_ms, limits, self._watchdog), parse_seconds
        except OqlError as fault:
            raise fault.error(text) from fault
