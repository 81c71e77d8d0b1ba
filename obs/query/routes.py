"""The query endpoint."""

from collections.abc import Sequence

from flask import Response, current_app
from flask.sansio.blueprints import BlueprintSetupState

from obs import compression
from obs.api import Blueprint
from obs.query import store
from obs.query.engine import Engine, Question, Reply
from obs.query.limits import Limits
from obs.query.schemas import AnswerSchema, QuerySchema
from obs.query.session import Sessions
from obs.query.workers import Workers
from obs.sources import Source
from obs.tenancy import rate
from obs.tenancy.auth import Caller, caller, requires, tenancy

EXTENSION = "obs.query"
"""Where the application holds a function of a statement and a Caller that gives the Reply."""

WORKERS = "obs.query.workers"
"""Where the application holds the Workers, None where queries run in this process."""

RATES = "obs.query.rates"
"""Where the application holds the count of each organization's queries: a `rate.PerMinute`."""


def blueprint(sources: Sequence[Source]) -> Blueprint:
    """The routes of the query area over `sources`."""
    blp = Blueprint("query", __name__, url_prefix="/api/v1", description="Ask questions in OQL.")
    engine = Engine(sources, Sessions())
    rates = rate.PerMinute("query")

    def ask(text: str, context: Caller) -> Reply:
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
    def dsl(fields: dict[str, str]) -> Response:
        """Answer an OQL statement

        `SELECT count(*) FROM runs WHERE status = 'failed' EVERY 1h LAST 1d`. The headers say what it cost.
        """
        reply = ask(fields["query"], caller())
        return Response(reply.body, headers=reply.cost, mimetype="application/json")

    return blp
