"""The server that the client talks to: its address and key, and requests to it."""

from __future__ import annotations

import json
import os
import re
from typing import Any

CONFIG = "~/.config/obs.toml"
_SECONDS = 5  # for a request; connecting included


class ServerError(OSError):
    """The server did not do what was requested. `status` is that of its response; 0 if there was no valid one."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Server:
    """A server: its URL, which may be an ingest address, and an API key."""

    def __init__(self, url: str, key: str) -> None:
        self._url, self._key = url.rstrip("/"), key

    def post(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> None:
        """Send a heartbeat. Raises ServerError unless obs responds that it is recorded."""
        from http.client import HTTPConnection, HTTPException, HTTPSConnection
        from urllib.parse import urlsplit

        try:
            address = urlsplit(self._url)
            kind = HTTPSConnection if address.scheme == "https" else HTTPConnection
            connection = kind(address.hostname or "", address.port, timeout=_SECONDS)
            try:
                sent = {"X-API-Key": self._key, "Content-Type": "application/json", **headers}
                connection.request("POST", f"{address.path}/api/v1/{path}", json.dumps(body), sent)
                response = connection.getresponse()
                answer = json.loads(response.read())
            finally:
                connection.close()
        except (HTTPException, ValueError, OSError) as error:
            raise ServerError(f"no valid response from {self._url}: {error}") from error
        if not isinstance(answer, dict) or "run_id" not in answer:
            reason = answer.get("message") if isinstance(answer, dict) else "it is not obs"
            raise ServerError(f"{self._url} responded with {response.status}: {reason}", response.status)


def configured() -> Server | None:
    """The server in OBS_URL and OBS_API_KEY, else in ~/.config/obs.toml; None if there is none."""
    url, key = os.environ.get("OBS_URL"), os.environ.get("OBS_API_KEY")
    if not (url and key):
        try:
            with open(os.path.expanduser(CONFIG)) as file:
                stored = dict(re.findall(r'^\s*(url|key)\s*=\s*"([^"]*)"', file.read(), re.MULTILINE))
        except OSError:
            return None
        url, key = url or stored.get("url"), key or stored.get("key")
    return Server(url, key) if url and key else None
