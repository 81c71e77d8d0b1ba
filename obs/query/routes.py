"""The query endpoint."""

from collections.abc import Sequence
from typing import Any

from flask import current_app
from flask.sansio.blueprints import BlueprintSetupState

from obs import compression
from obs.api import Blueprint
from obs.query import store
from obs.query.engine import Engine, Question
from obs.query.limits import Limits
from obs.query.run import Answer
from obs.query.schemas import AnswerSchema, QuerySchema
from obs.query.workers import Workers
from obs.sources import Source
from obs.tenancy import rate
from obs.tenancy.auth import Caller, caller, requires, tenancy

EXTENSION = "obs.query"
"""Where the application holds a function of a statement and a Caller: the Answer and the seconds to understand it."""

WORKERS = "obs.query.workers"
"""Where the application holds the Workers, None where queries run in this process."""

RATES = "obs.query.rates"
"""Where the application holds the count of each organization's queries: a `rate.PerMinute`."""


def blueprint(sources: Sequence[Source]) -> Blueprint:
    """The routes of the query area over `sources`."""
    blp = Blueprint("query", __name__, url_prefix="/api/v1", description="Ask questions in OQL.")
    engine = Engine(sources)
    rates = rate.PerMinute("query")

    def ask(text: str, context: Caller) -> tuple[Answer, float]:
        with tenancy().control.read() as db:
            limits = Limits.of(current_app.config, store.own_limits(db, context.org))
        rates.take(context.org, limits.rate_per_minute)
        question = Question(text, context.databases.path(context.org), context.now_ms, limits)
        workers: Workers | None = current_app.extensions[WORKERS]
        with context.read():  # keeps the file open and its schema current while a connection of its own reads it
            return engine.answer(question) if workers is None else workers.ask(context.org, question)

    def register(state: BlueprintSetupState) -> None:
        state.app.extensions[EXTENSION] = ask
        state.app.extensions[RATES] = rates
        most = int(state.app.config["QUERY_WORKERS"])
        state.app.extensions[WORKERS] = Workers(sources, most) if most else None

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


def _cost(answer: Answer, parse_seconds: float) -> dict[str, str]:
    headers = {
        "Server-Timing": f"parse;dur={parse_seconds * 1000:.2f}, run;dur={answer.run_seconds * 1000:.2f}",
        "X-Query-Rows-Scanned": str(answer.rows_scanned),
        "X-Query-Bytes-Scanned": "unknown" if answer.bytes_scanned is None else str(answer.bytes_scanned),
    }
    if answer.window is not None:
        headers["X-Query-Window"] = str(answer.window)
    return headers
