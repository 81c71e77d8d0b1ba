"""The server that the client talks to: its address and key, and requests to it."""

from __future__ import annotations

import json
import os
import re
from contextlib import closing, suppress
from typing import Any

CONFIG = "~/.config/obs.toml"
_SECONDS = 5  # for a request; connecting included


class ServerError(OSError):
    """The server did not do what was requested. `status` is that of the response; 0 if obs cannot be reached now."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Server:
    """A server: its URL, which may be an ingest address, an API key, and the version of the API."""

    def __init__(self, url: str, key: str, api: str = "v1") -> None:
        self._url, self._key, self._api = url.rstrip("/"), key, f"/api/{api}/"

    def request(self, method: str, path: str, field: str, body: object = None, **headers: str) -> Any:
        """The response of obs: an object with the field `field`; its text if there is an Accept. Raises ServerError."""
        from http.client import HTTPConnection, HTTPException, HTTPSConnection
        from urllib.parse import urlsplit

        try:
            address = urlsplit(self._url)
            kind = {"http": HTTPConnection, "https": HTTPSConnection}[address.scheme]
            with closing(kind(address.hostname or "", address.port, timeout=_SECONDS)) as connection:
                sent = {"X-API-Key": self._key, "Content-Type": "application/json", **headers}
                sent = {name: re.sub("[^ -~]", "?", value) for name, value in sent.items()}  # else they are dropped
                connection.request(method, address.path + self._api + path, json.dumps(body) if body else None, sent)
                response = connection.getresponse()
                content = response.read()
            answer = json.loads(content) if content.startswith(b"{") else {}
        except KeyError:
            problem = f"{self._url} is not an address such as https://obs.example.com"
            raise ServerError(problem, 401) from None  # like a wrong key, it lasts until a person mends it
        except (HTTPException, ValueError, OSError) as error:
            status = 401 if hasattr(error, "verify_code") else 0  # an SSLCertVerificationError lasts too
            raise ServerError(f"cannot reach {self._url}: {error}", status) from error
        if response.status == 200 and response.headers.get_content_type() == sent.get("Accept"):
            return content.decode()
        if response.status < 300 and field in answer:
            return answer
        if not {"error", "message"} <= answer.keys():
            problem = f"{self._url} responded with {response.status}: {answer.get('error', 'wrong address?')}"
            raise ServerError(problem, response.status if response.status < 400 else 0)  # it is a page, or a redirect
        message, hint = answer["message"], answer.get("hint") or ""
        raise ServerError(message if hint in message else f"{message}\n{hint}", response.status)


def configured() -> Server:
    """The server in OBS_URL and OBS_API_KEY, else in ~/.config/obs.toml. Raises ServerError (401) if there is none."""
    stored: dict[str, str] = {}
    with suppress(OSError), open(os.path.expanduser(CONFIG)) as file:
        stored = dict(re.findall(r'^\s*(url|key)\s*=\s*"([^"]*)"', file.read(), re.MULTILINE))
    url, key = os.environ.get("OBS_URL") or stored.get("url"), os.environ.get("OBS_API_KEY") or stored.get("key")
    if not (url and key):
        raise ServerError("no server is configured. Run obs login URL, or set OBS_URL and OBS_API_KEY.", 401)
    return Server(url, key)
