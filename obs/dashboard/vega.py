"""The chart library: Vega-Lite, as one file that is made out of the package vl-convert and served from here."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from filelock import FileLock

VERSION = version("vl-convert-python")
# In a process of its own: the package holds a JavaScript engine of 150 MB that is needed once.
_MAKE = "import sys, vl_convert; sys.stdout.buffer.write(vl_convert.javascript_bundle().encode())"
_MOST_SECONDS = 60


def bundle(folder: Path) -> Path:
    """The file, made in `folder` when it is not there yet (some seconds). Raises OSError or SubprocessError."""
    path = folder / f"vega-{VERSION}.js"
    if not path.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FileLock(folder / ".vega.lock"):
            if not path.exists():
                made = subprocess.run(  # noqa: S603 - nothing of it comes from outside
                    [sys.executable, "-c", _MAKE], check=True, capture_output=True, timeout=_MOST_SECONDS
                )
                half = path.with_suffix(".part")
                half.write_bytes(made.stdout)
                half.rename(path)
    return path
