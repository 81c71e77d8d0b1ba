"""Files of packages, served from here: Vega-Lite for charts, Swagger UI for the OpenAPI document, and the client."""

import io
import subprocess
import sys
import zipfile
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import flask_swagger_ui
from filelock import FileLock
from flask import Blueprint, Response, current_app, render_template, request, send_from_directory

from obs.storage.disk import write_once

vega = Blueprint("library", __name__)
docs = Blueprint("docs", __name__, url_prefix="/api/docs", template_folder="templates", static_folder="static")
client = Blueprint("client", __name__, url_prefix="/client")
VEGA_VERSION = version("vl-convert-python")
# Runs in a process of its own: the package contains a JavaScript engine of 150 MB that is needed only once.
_PROGRAM = "import sys, vl_convert; sys.stdout.buffer.write(vl_convert.javascript_bundle().encode())"
_CLIENT_MAIN = "import sys\nfrom obs_client.main import main\nsys.exit(main(sys.argv[1:]))\n"


@vega.get("/library/vega-<version>.js")
def script(version: str) -> Response:  # noqa: ARG001 - the address changes with the version, there is only one file
    path = bundle(Path(current_app.instance_path) / "cache")
    # Not as a file: who leaves the page before all of it is sent would leave it open.
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(path.read_bytes(), mimetype="text/javascript", headers=headers)


def bundle(folder: Path) -> Path:
    """The file, created in `folder` if it is missing, which takes seconds. Raises OSError or SubprocessError."""
    path = folder / f"vega-{VEGA_VERSION}.js"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with FileLock(folder / ".vega.lock"):
        if not path.exists():
            command = [sys.executable, "-c", _PROGRAM]
            done = subprocess.run(command, check=True, capture_output=True, timeout=60, encoding="utf-8")  # noqa: S603
            write_once(path, done.stdout)
    return path


@docs.get("/", strict_slashes=False)  # a redirect to the slash would name the host of the request
def page() -> str:
    return render_template("docs.html")


@docs.get("/dist/<path:name>")
def dist(name: str) -> Response:
    file = send_from_directory(Path(flask_swagger_ui.__file__).parent / "dist", name, max_age=86400)
    # Read now, or a client that reads slowly keeps a thread. Not compressed: anybody could have this done all the time.
    file.direct_passthrough = False
    file.get_data()
    return file


@cache
def _zipapp() -> bytes:
    """The client as a file that Python runs; its bytes depend only on the client."""
    content = io.BytesIO(b"#!/usr/bin/env python3\n")
    with zipfile.ZipFile(content, "a") as archive:
        archive.writestr(zipfile.ZipInfo("__main__.py"), _CLIENT_MAIN)
        for module in sorted(files("obs.client").iterdir(), key=lambda one: one.name):
            if module.name.endswith(".py"):
                archive.writestr(zipfile.ZipInfo(f"obs_client/{module.name}"), module.read_text(), zipfile.ZIP_DEFLATED)
    return content.getvalue()


@client.get("/<any(obs, 'obs.sh'):name>")
def download(name: str) -> Response:
    """The client as a single file, or as a shell script for machines without Python; 304 for who has it already."""
    content = _zipapp() if name == "obs" else files("obs.client").joinpath(name).read_bytes()
    response = Response(content, mimetype="application/octet-stream")
    response.add_etag()
    response.make_conditional(request)
    return response
