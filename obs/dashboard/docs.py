"""Swagger UI for the OpenAPI document, from files of a package: nothing is loaded from another host."""

from pathlib import Path

import flask_swagger_ui
from flask import Blueprint, Response, render_template, send_from_directory

from obs.server import compression

blp = Blueprint("docs", __name__, url_prefix="/api/docs", template_folder="templates", static_folder="static")
blp.after_request(compression.page)
_DIST = Path(flask_swagger_ui.__file__).parent / "dist"
# Swagger UI uses data: URLs for icons and sets style attributes.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"
)


@blp.get("/", strict_slashes=False)  # a redirect to the slash would name the host of the request
def page() -> Response:
    """The page."""
    response = Response(render_template("docs.html"), mimetype="text/html")
    response.headers["Content-Security-Policy"] = _POLICY
    return response


@blp.get("/dist/<path:name>")
def dist(name: str) -> Response:
    """A file of Swagger UI."""
    return send_from_directory(_DIST, name, max_age=86400)
