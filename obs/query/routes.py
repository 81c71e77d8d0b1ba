"""The query endpoint."""

from flask import Response

from obs.api import Blueprint
from obs.query.schemas import AnswerSchema, QuerySchema
from obs.server import compression
from obs.services import services
from obs.tenancy.auth import caller, requires

blp = Blueprint("query", __name__, url_prefix="/api/v1", description="Ask questions in OQL.")
blp.after_request(compression.answer)


@blp.route("/dsl", methods=["POST"])
@requires("query:read")
@blp.arguments(QuerySchema)
@blp.response(200, AnswerSchema)
def dsl(fields: dict[str, str]) -> Response:
    """Answer an OQL statement

    `SELECT count(*) FROM runs WHERE status = 'failed' EVERY 1h LAST 1d`. The headers say what it cost.
    """
    reply = services().queries.ask(caller(), fields["query"])
    return Response(reply.body, headers=reply.cost, mimetype="application/json")
