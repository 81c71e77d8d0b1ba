"""The query page: a statement in the URL, its result as a chart and a table, and as a download."""

import json
from typing import Any

from flask import Blueprint, Response, render_template, request
from flask.typing import ResponseReturnValue

from obs.annotations import store as annotation_store
from obs.client.views import as_value
from obs.dashboard import store
from obs.dashboard.sessions import is_admin, viewer
from obs.errors import ServiceError
from obs.query.language.functions import FUNCTIONS
from obs.query.service import converted
from obs.query_alerts import MOST_GROUPS
from obs.services import services

blp = Blueprint("query", __name__, url_prefix="/query")


@blp.get("")
def page() -> ResponseReturnValue:
    caller, text, overlay = viewer(), _statement(), request.args.get("overlay", "")
    shown: dict[str, Any] = {"answer": None, "error": None, "annotations": [], "functions": FUNCTIONS}
    status, headers, window = 200, dict[str, str](), None
    if text.strip():
        try:
            reply = services().queries.run(caller, text, params=_params())
        except ServiceError as error:
            shown["error"], status, headers = error, error.status, error.headers
        else:
            answer = json.loads(reply.body)
            rows, places = answer["rows"], range(len(answer["columns"]))
            numbers = [place for place in places if {type(row[place]) for row in rows} <= {int, float, type(None)}]
            window = reply.window if answer["output_type"] == "timeseries" else None
            shown |= {"answer": answer, "numbers": numbers}
            if is_admin(caller) and not _params() and len(rows) <= MOST_GROUPS:
                shown["suits_alerts"] = services().queries.returns_numbers(text)
    with caller.read() as db:
        prefixes = [prefix for prefix, _ in annotation_store.prefixes(db, caller.now_ms)]
        if overlay and window is not None:
            prefix, now_ms = "" if overlay == "all" else overlay, caller.now_ms
            shown["annotations"] = store.annotations(db, window.start, window.end, now_ms, prefix=prefix)
    shown["sources"] = [one for one in services().queries.sources if is_admin(caller) or not one.admin_only]
    return render_template("query.html", text=text, overlay=overlay, prefixes=prefixes, **shown), status, headers


@blp.get("/answer.<any(csv, json):kind>")
def download(kind: str) -> Response:
    mimetype = {"csv": "text/csv", "json": "application/json"}[kind]
    text = converted(services().queries.run(viewer(), _statement(), params=_params()).body, mimetype)
    return Response(text, mimetype=mimetype, headers={"Content-Disposition": f"attachment; filename=result.{kind}"})


def _params() -> dict[str, Any]:
    """The values of the statement's parameters: the fields of the form whose names begin with a colon, unless empty."""
    return {name[1:]: as_value(text) for name, text in request.args.items() if name.startswith(":") and text}


def _statement() -> str:
    """The statement with the line ends of the editor: a form sends CRLF, which would shift the position of an error."""
    return request.args.get("q", "").replace("\r\n", "\n")
