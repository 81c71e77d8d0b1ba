"""The access log: a line of JSON for each request, without keys and tokens."""

import json
import logging
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import unquote

from obs.server.middleware import client_address, utf8
from obs.times import format_ms

CALLER = "obs.caller"  # in the WSGI environment: the organization and the key of the request, once they are known
_SECRET_NAME = re.compile(r"key|token|secret|password", re.IGNORECASE)
_SECRET = re.compile(
    r"(?:(?<=/sign-in/)|(?<=/ping/)|(?<=/api/push/))[^/?&\s]+|obs_[a-z0-9-]+_[0-9a-z]{8,}"
    r"|(?<!id=)\b[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}\b",
    re.IGNORECASE,
)
_log = logging.getLogger(__name__)


def note_caller(environ: Mapping[str, Any], org: str, key_id: int) -> None:
    """Name the organization and the key of a request in its line. `key_id` is 0 without a key."""
    environ.get(CALLER, {}).update(organization=org, key=key_id or None)


class AccessLog:
    """Adds a line for each request to the file `path` (``-``: standard error; empty: no log)."""

    def __init__(self, path: str, clock: Callable[[], int]) -> None:
        self._path, self._clock, self._is_failing = path, clock, False

    def add(self, environ: Mapping[str, Any], status: str, headers: Iterable[tuple[str, str]], seconds: float) -> None:
        """Add a request whose response has begun after so many `seconds`."""
        if not self._path:
            return
        found = {name.lower(): value for name, value in headers}
        entry = {
            "time": format_ms(self._clock()),
            "client": client_address(environ),
            "method": environ["REQUEST_METHOD"],
            "path": _requested(environ),
            "status": int(status),
            "bytes": 0 if environ["REQUEST_METHOD"] == "HEAD" else int(found.get("content-length", 0)),
            "ms": round(seconds * 1000, 2),
            **environ[CALLER],
            "request_id": found.get("x-request-id"),
        }
        line = f"{json.dumps(entry)}\n"
        try:
            if self._path == "-":
                sys.stderr.write(line)
            else:
                with open(self._path, "ab", buffering=0) as file:  # each time, because others may rename it
                    file.write(line.encode())
            self._is_failing = False
        except OSError as error:
            if not self._is_failing:
                _log.error("cannot write the access log: %s", error)
            self._is_failing = True


def _requested(environ: Mapping[str, Any]) -> str:
    path, parameters = utf8(environ.get("SCRIPT_NAME", "") + environ["PATH_INFO"]), []
    for parameter in filter(None, environ.get("QUERY_STRING", "").split("&")):
        name = parameter.partition("=")[0]
        parameters.append(f"{name}=***" if _SECRET_NAME.search(unquote(name)) else parameter)
    query = f"?{unquote('&'.join(parameters))}" if parameters else ""
    return _SECRET.sub("***", path + query)
