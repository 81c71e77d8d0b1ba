"""The query endpoint."""

import time
from collections.abc import Sequence
from typing import Any

from flask import current_app
from flask.sansio.blueprints import BlueprintSetupState

from obs import compression
from obs.api import Blueprint
from obs.query import store
from obs.query.fault import OqlError
from obs.query.language import Language
from obs.query.limits import Limits
from obs.query.plan import Listing
from obs.query.run import Answer, run
from obs.query.schemas import AnswerSchema, QuerySchema
from obs.query.watchdog import Watchdog
from obs.sources import Source
from obs.tenancy import rate
from obs.tenancy.auth import Caller, caller, requires, tenancy

EXTENSION = "obs.query"
"""Where the application holds a function of a statement and a Caller: the Answer and the seconds to understand it."""

RATES = "obs.query.rates"
"""Where the application holds the count of each organization's queries: a `rate.PerMinute`."""


def blueprint(sources: Sequence[Source]) -> Blueprint:
    """The routes of the query area over `sources`."""
    blp = Blueprint("query", __name__, url_prefix="/api/v1", description="Ask questions in OQL.")
    language = Language(sources)
    watchdog = Watchdog()
    rates = rate.PerMinute("query")

    def ask(text: str, context: Caller) -> tuple[Answer, float]:
        with tenancy().control.read() as db:
            limits = Limits.of(current_app.config, store.own_limits(db, context.org))
        rates.take(context.org, limits.rate_per_minute)
        return _answer(language, watchdog, text, context, limits)

    def register(state: BlueprintSetupState) -> None:
        state.app.extensions[EXTENSION] = ask
        state.app.extensions[RATES] = rates

    blp.record_once(register)
    blp.after_request(compression.answer)

    @blp.route("/dsl", methods=["POST"])
    @requires("query:read")
    @blp.arguments(QuerySchema)
    @blp.response(200, AnswerSchema)
    def dsl(fields: dict[str, str]) -> tuple[dict[str, Any], int, dict[str, str]]:
        """Answer an OQL statement

        `SELECT count(*) FROM runs WHERE status = 'failed' EVERY 1h LAST 1d`. The headers say what it cost.
        """
        answer, parse_seconds = ask(fields["query"], caller())
        body = {"output_type": answer.output_type, "columns": answer.columns, "rows": answer.rows}
        return body, 200, _cost(answer, parse_seconds)

    return blp


def _answer(language: Language, watchdog: Watchdog, text: str, context: Caller, limits: Limits) -> tuple[Answer, float]:
    """The answer, and the seconds that it took to understand the statement. Raises ServiceError."""
    started = time.perf_counter()
    try:
        plan = language.plan(text, limits.max_length)
        parse_seconds = time.perf_counter() - started
        if isinstance(plan, Listing):
            return Answer("table", list(plan.columns), [list(row) for row in plan.rows]), parse_seconds
        with context.read():  # keeps the file open and its schema current while a connection of its own reads it
            path = context.databases.path(context.org)
            return run(plan, path, context.now_ms, limits, watchdog), parse_seconds
    except OqlError as fault:
        raise fault.error(text) from fault


def _cost(answer: Answer, parse_seconds: float) -> dict[str, str]:
    headers = {
        "Server-Timing": f"parse;dur={parse_seconds * 1000:.2f}, run;dur={answer.run_seconds * 1000:.2f}",
        "X-Query-Rows-Scanned": str(answer.rows_scanned),
        "X-Query-Bytes-Scanned": "unknown" if answer.bytes_scanned is None else str(answer.bytes_scanned),
    }
    if answer.window is not None:
        headers["X-Query-Window"] = str(answer.window)
    return headers
