"""The client, which needs no key."""

from importlib.resources import files

from flask import Blueprint, Response, request

blp = Blueprint("client", __name__, url_prefix="/client")


@blp.get("/obs.sh")
def shell_script() -> Response:
    """The client for machines without Python."""
    response = Response(files("obs.client").joinpath("obs.sh").read_bytes(), mimetype="text/x-shellscript")
    response.add_etag()
    response.make_conditional(request)
    return response
