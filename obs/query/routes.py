"""The query endpoint."""

from typing import Any

import marshmallow as ma
from flask import Response, request

from obs.api import Blueprint, Schema, Text, about, compressed
from obs.query.service import FORMATS, converted
from obs.services import services
from obs.tenancy.auth import caller, operation

blp = Blueprint("query", __name__, url_prefix="/api/v1", description="Query data with OQL.")
blp.after_request(compressed)

_TEXT = {mimetype: {"schema": {"type": "string"}} for mimetype in FORMATS[1:]}
_EXAMPLE = "SELECT count(*) FROM runs EVERY 1h LAST 1d"
_CELLS = about("One list of cells per row. A cell is a text, a number, a boolean or null.")
_PARAMS = about("Texts, numbers, booleans, nulls or lists by name: `:job` is that of job.", {"job": "backup"})


class QuerySchema(Schema):
    # Their lengths and types are checked later: what is wrong with them is an error of the language.
    query = Text(0, None, required=True, metadata=about("An OQL statement.", _EXAMPLE))
    params = ma.fields.Dict(metadata=_PARAMS)


class QueryResultSchema(Schema):
    output_type = ma.fields.String(
        metadata=about("The natural presentation: timeseries, table, single_value or bar."),
        validate=ma.validate.OneOf(["timeseries", "table", "single_value", "bar"]),
    )
    columns = ma.fields.List(ma.fields.String(), metadata=about("The names of the columns."))
    rows = ma.fields.List(ma.fields.List(ma.fields.Raw(allow_none=True)), metadata=_CELLS)


@operation(blp, "POST /dsl", "query:read", QueryResultSchema, body=QuerySchema)
@blp.doc(responses={200: {"content": {FORMATS[0]: {"schema": QueryResultSchema}, **_TEXT}}})
def dsl(fields: dict[str, Any]) -> Response:
    """Run an OQL statement

    `SELECT count(*) FROM runs WHERE status = 'failed' EVERY 1h LAST 1d`. The response headers report its cost. With
    Accept: text/csv or application/x-ndjson, the result is CSV, or an object for each row.
    """
    response = services().queries.run(caller(), fields["query"], params=fields.get("params"))
    headers = {**response.headers, "Vary": "Accept"}
    mimetype = request.accept_mimetypes.best_match(FORMATS) or FORMATS[0]
    return Response(converted(response.body, mimetype), headers=headers, mimetype=mimetype)
