"""The chart library's file."""

from pathlib import Path

from flask import Blueprint, Response, current_app, send_file

from obs.dashboard import vega

blp = Blueprint("library", __name__)


@blp.get("/library/vega-<version>.js")
def script(version: str) -> Response:  # noqa: ARG001 - the address changes with the version, the file is the one there is
    """Vega-Lite with what it needs; the address changes with the version, so that a browser may keep it for good."""
    path = vega.bundle(Path(current_app.instance_path) / "cache")
    return send_file(path, mimetype="text/javascript", max_age=31_536_000)
