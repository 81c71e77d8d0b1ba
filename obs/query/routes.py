"""The query endpoint."""

from flask import Response

from obs.api import Blueprint
from obs.query.schemas import QueryResultSchema, QuerySchema
from obs.server import compression
from obs.services import services
from obs.tenancy.auth import caller, requires

blp = Blueprint("query", __name__, url_prefix="/api/v1", description="Query data with OQL.")
blp.after_request(compression.answer)


@blp.route("/dsl", methods=["POST"])
@requires("query:read")
@blp.arguments(QuerySchema)
@blp.response(200, QueryResultSchema)
def dsl(fields: dict[str, str]) -> Response:
    """Run an OQL statement

    `SELECT count(*) FROM runs WHERE status = 'failed' EVERY 1h LAST 1d`. The response headers report its cost.
    """
    response = services().queries.run(caller(), fields["query"])
    return Response(response.body, headers=response.headers, mimetype="application/json")
