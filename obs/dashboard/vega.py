"""The chart library: Vega-Lite as one file, created from the package vl-convert and served from here."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from filelock import FileLock
from flask import Blueprint, Response, current_app, send_file

blp = Blueprint("library", __name__)
VERSION = version("vl-convert-python")
# Runs in a process of its own: the package contains a JavaScript engine of 150 MB that is needed only once.
_PROGRAM = "import sys, vl_convert; sys.stdout.buffer.write(vl_convert.javascript_bundle().encode())"
_TIMEOUT_SECONDS = 60


@blp.get("/library/vega-<version>.js")
def script(version: str) -> Response:  # noqa: ARG001 - the address changes with the version, there is only one file
    """The file. Its address contains the version, so browsers can keep it for good."""
    path = bundle(Path(current_app.instance_path) / "cache")
    return send_file(path, mimetype="text/javascript", max_age=31_536_000)


def bundle(folder: Path) -> Path:
    """The file, created in `folder` if it is missing, which takes seconds. Raises OSError or SubprocessError."""
    path = folder / f"vega-{VERSION}.js"
    if not path.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FileLock(folder / ".vega.lock"):
            if not path.exists():
                done = subprocess.run(  # noqa: S603 - no part of it comes from outside
                    [sys.executable, "-c", _PROGRAM], check=True, capture_output=True, timeout=_TIMEOUT_SECONDS
                )
                partial = path.with_suffix(".part")
                partial.write_bytes(done.stdout)
                partial.rename(path)
    return path
