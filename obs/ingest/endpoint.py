"""The short way of the usual heartbeats: they are answered in front of Flask, which costs five times what they do.

What is out of the usual (another method, a body of unknown or large size, a path that is none) goes on to Flask and its
routes. Both ways meet in `Intake` and in `obs.tenancy.auth`, so that they differ in nothing but speed.
"""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from obs import errors
from obs.api import ENDPOINT
from obs.errors import ServiceError
from obs.heartbeat.runs import KINDS, Kind
from obs.ingest.intake import ANSWER_HEADERS, SCOPE, Intake
from obs.server.middleware import Wsgi
from obs.tenancy.auth import authenticate

_PREFIX = "/api/v1/heartbeat/"
_KINDS = {kind: Kind(number) for number, kind in enumerate(KINDS)}
_MOST_BODY_BYTES = 64 * 1024
_STATUS_LINES = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}


class HeartbeatEndpoint:
    """Answers heartbeats in front of Flask."""

    def __init__(self, intake: Intake) -> None:
        self.intake = intake

    def answer_heartbeats(self, flask: Wsgi) -> Wsgi:
        """The WSGI application that answers heartbeats itself and passes the rest on to `flask`."""
        return wrap(self.intake, flask)


def wrap(intake: Intake, flask: Wsgi) -> Wsgi:
    """The WSGI application that answers the usual heartbeats itself and hands the rest on to `flask`."""

    def lane(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path: str = environ["PATH_INFO"]
        if not path.startswith(_PREFIX):
            return flask(environ, start_response)
        wsgi_name, slash, event = path[len(_PREFIX) :].rpartition("/")
        kind = _KINDS.get(event)
        size = environ.get("CONTENT_LENGTH") or "0"
        if (
            kind is None
            or not _is_taken(environ["REQUEST_METHOD"], kind, in_path=bool(slash))
            or "HTTP_TRANSFER_ENCODING" in environ
            or not (size.isascii() and size.isdigit() and int(size) <= _MOST_BODY_BYTES)
        ):
            return flask(environ, start_response)
        form = "get" if environ["REQUEST_METHOD"] == "GET" else "path" if slash else "body"
        environ[ENDPOINT] = f"heartbeats.{event}_by_{form}"
        try:
            sender = authenticate(intake.tenancy, environ, SCOPE)
            body = environ["wsgi.input"].read(int(size)) if size != "0" else b""
            name = _decoded(wsgi_name) if slash else None
            answer = intake.take(sender, environ, body, kind, name)
        except ServiceError as error:
            return _refuse(start_response, error)
        except Exception as error:  # noqa: BLE001 - it goes to the log, and the client is told its id
            return _refuse(start_response, errors.internal_error(error, environ["REQUEST_METHOD"], path))
        return _respond(start_response, 200, answer, ANSWER_HEADERS)

    return lane


def _is_taken(method: str, kind: Kind, *, in_path: bool) -> bool:
    return method == "POST" or (method == "GET" and kind is Kind.PING and in_path)


def _decoded(wsgi_text: str) -> str:
    """A WSGI string, which holds bytes as Latin-1, as the UTF-8 that a client means."""
    return wsgi_text if wsgi_text.isascii() else wsgi_text.encode("latin-1").decode("utf-8", "replace")


def _refuse(start_response: Any, error: ServiceError) -> Iterable[bytes]:
    headers = {**ANSWER_HEADERS, **error.headers}
    return _respond(start_response, error.status, errors.json_body(error).encode(), headers)


def _respond(start_response: Any, status: int, body: bytes, headers: dict[str, str]) -> Iterable[bytes]:
    start_response(_STATUS_LINES[status], [*headers.items(), ("Content-Length", str(len(body)))])
    return [body]
