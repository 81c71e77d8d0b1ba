"""The access log: a line of JSON for each request, without keys and tokens."""

import json
import logging
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from queue import SimpleQueue
from typing import Any
from urllib.parse import unquote

from obs.server.middleware import Wsgi, client_address
from obs.times import format_ms

_ENTRY = "obs.access_log"
_MOST_WAITING = 100_000  # if the disk is this far behind, lines are left out
_BATCH_SECONDS = 0.1
_SECRET_NAME = re.compile(r"key|token|secret|password", re.IGNORECASE)
_SECRET = re.compile(
    r"(?:(?<=/sign-in/)|(?<=/ping/)|(?<=/api/push/))[^/?&\s]+|obs_[a-z0-9-]+_[0-9a-z]{8,}|\b[0-9a-f]{32}\b",
    re.IGNORECASE,
)
_log = logging.getLogger(__name__)


def note_caller(environ: Mapping[str, Any], org: str, key_id: int) -> None:
    """Name the organization and the key of a request in its line. `key_id` is 0 after signing in with a link."""
    entry = environ.get(_ENTRY)
    if entry is not None:
        entry |= {"organization": org, "key": key_id or None}


class AccessLog:
    """Adds a line for each request to the file `path` (``-``: standard error; empty: no log), in its own thread."""

    def __init__(self, path: str, clock: Callable[[], int]) -> None:
        self._path, self._clock = path, clock
        self._entries: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="access-log", daemon=True)
        if path:
            self._thread.start()

    def record(self, app: Wsgi) -> Wsgi:
        def recorded(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            entry = environ[_ENTRY] = {
                "time": self._clock(),
                "client": client_address(environ),
                "method": environ["REQUEST_METHOD"],
                "path": environ.get("SCRIPT_NAME", "") + environ["PATH_INFO"],
                "query": environ.get("QUERY_STRING", ""),
                **dict.fromkeys(("status", "bytes", "ms", "organization", "key", "request_id")),
            }
            begun = time.perf_counter()

            def start(line: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
                found = {name.lower(): value for name, value in headers}
                entry["status"], entry["request_id"] = int(line[:3]), found.get("x-request-id")
                entry["bytes"] = 0 if entry["method"] == "HEAD" else int(found.get("content-length", 0))
                return start_response(line, headers, *rest)

            try:
                return app(environ, start)
            finally:
                entry["ms"] = round((time.perf_counter() - begun) * 1000, 2)
                if self._entries.qsize() < _MOST_WAITING:
                    self._entries.put(entry)

        return recorded if self._path else app

    def close(self) -> None:
        self._entries.put(None)
        if self._path:
            self._thread.join()

    def _write(self) -> None:
        is_open, is_failing = True, False
        while is_open:
            entries = [self._entries.get()]
            time.sleep(_BATCH_SECONDS)
            entries += [self._entries.get() for _ in range(self._entries.qsize())]
            is_open = None not in entries
            try:  # opened anew each time, because others may move the file
                with nullcontext(sys.stderr) if self._path == "-" else open(self._path, "a") as file:
                    file.writelines(_line(entry) for entry in entries if entry is not None)
                is_failing = False
            except OSError as error:
                if not is_failing:
                    _log.error("cannot write the access log: %s", error)
                is_failing = True


def _line(entry: dict[str, Any]) -> str:
    path, parameters = entry["path"].encode("latin-1").decode("utf-8", "replace"), []
    for parameter in filter(None, entry.pop("query").split("&")):
        name = parameter.partition("=")[0]
        parameters.append(f"{name}=***" if _SECRET_NAME.search(unquote(name)) else parameter)
    query = f"?{unquote('&'.join(parameters))}" if parameters else ""
    entry |= {"time": format_ms(entry["time"]), "path": _SECRET.sub("***", path + query)}
    return f"{json.dumps(entry)}\n"
