"""A statement and a file in, an answer out: what a request needs of the query area, in whatever process."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from obs.query.execution.limits import Limits
from obs.query.execution.run import Answer, run
from obs.query.execution.session import Sessions
from obs.query.execution.window import Range
from obs.query.language import Language
from obs.query.language.errors import OqlError
from obs.query.language.plan import Listing
from obs.sources import Source


class Question(NamedTuple):
    """A statement of OQL, the organization's file that it is asked of, and when (milliseconds since the epoch)."""

    text: str
    path: Path
    now_ms: int
    limits: Limits


class Reply(NamedTuple):
    """An answer as it is sent: JSON, the headers that say what it cost, and the window that it is about.

    It is made where the query runs: to write 10,000 rows is work that no heartbeat should wait for.
    """

    body: bytes
    cost: dict[str, str]
    window: Range | None


class Engine:
    """Answers statements over a list of sources. Safe to use from any thread."""

    def __init__(self, sources: Sequence[Source], sessions: Sessions) -> None:
        self._language = Language(sources)
        self._sessions = sessions

    def answer(self, question: Question) -> Reply:
        """The answer. Raises ServiceError."""
        text, path, now_ms, limits = question
        started = time.perf_counter()
        try:
            plan = self._language.plan(text, limits.max_length)
            parse_seconds = time.perf_counter() - started
            if isinstance(plan, Listing):
                answer = Answer("table", list(plan.columns), [list(row) for row in plan.rows])
            else:
                answer = run(plan, path, now_ms, limits, self._sessions)
        except OqlError as fault:
            raise fault.error(text) from fault
        return _written(answer, parse_seconds)


def _written(answer: Answer, parse_seconds: float) -> Reply:
    fields = {"output_type": answer.output_type, "columns": answer.columns, "rows": answer.rows}
    cost = {
        "Server-Timing": f"parse;dur={parse_seconds * 1000:.2f}, run;dur={answer.run_seconds * 1000:.2f}",
        "X-Query-Rows-Scanned": str(answer.rows_scanned),
        "X-Query-Bytes-Scanned": "unknown" if answer.bytes_scanned is None else str(answer.bytes_scanned),
    }
    if answer.window is not None:
        cost["X-Query-Window"] = str(answer.window)
    body = json.dumps(fields, allow_nan=False, separators=(",", ":"))
    return Reply(body.encode(), cost, answer.window)
