"""Bodies that come slowly or not at all: few threads wait for them, and none for long.

granian hands a request on when its headers are there and reads the body in the thread of the request, without an end:
as many half-sent bodies as there are threads would stop the service. And where a body breaks off, granian gives what
has come as if it were all. This stands between granian and the application.
"""

import logging
import os
import socket
import stat
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from obs.errors import ServiceError

MOST_BODY_BYTES = 1 << 20
_DAWDLING_SECONDS = 1  # a body that is there is read in a fraction of a millisecond
_BURST_SECONDS = 2
_TURN_SECONDS = 0.25
_PAGE_READERS = 8
_LOOK_SECONDS = 1
_DESCRIPTORS = "/dev/fd"
_LAST_DATA_SENT = 44  # offset in Linux' struct tcp_info: milliseconds since we last sent data on the connection
_log = logging.getLogger(__name__)


def content_length(environ: Mapping[str, Any]) -> int:
    """The length of a request's body in bytes; 0 without a body, and for one that is sent in chunks.

    Raises ServiceError (400) for a Content-Length that is not a whole number.
    """
    text = environ.get("CONTENT_LENGTH") or "0"
    if not (text.isascii() and text.isdigit()):
        raise ServiceError("bad_request", f"Content-Length is not a whole number: {text!r}.")
    return int(text)


def read_body(environ: Mapping[str, Any]) -> bytes:
    """The whole body of a request, for what is not handled by Flask.

    Raises ServiceError: 413 for more than MOST_BODY_BYTES, 400 for an invalid Content-Length, and what `Bodies.read`
    raises.
    """
    if "HTTP_TRANSFER_ENCODING" in environ:
        return _read_chunks(environ)
    length = content_length(environ)
    if length > MOST_BODY_BYTES:
        raise _body_too_large(str(length))
    body: bytes = environ["wsgi.input"].read(length) if length else b""
    return body


def _read_chunks(environ: Mapping[str, Any]) -> bytes:
    body = bytearray()
    while piece := environ["wsgi.input"].read(MOST_BODY_BYTES + 1 - len(body)):
        body += piece
        if len(body) > MOST_BODY_BYTES:
            raise _body_too_large(f"more than {MOST_BODY_BYTES}")
    return bytes(body)


def _body_too_large(size: str) -> ServiceError:
    return ServiceError("body_too_large", f"The body has {size} bytes; the limit is {MOST_BODY_BYTES} bytes.")


class Bodies:
    """A WSGI application around `app` that lets bodies be waited for by at most half of `threads`.

    The pages, whose sign-in form anybody may send, have a few turns of their own: strangers cannot take those of the
    API, which reads no body before it has checked the key.
    """

    def __init__(self, app: Callable[..., Iterable[bytes]], threads: int, patience_seconds: float) -> None:
        """`patience_seconds` is how long a body may take, from the first byte that is waited for to the last."""
        self._app = app
        self._patience_seconds = patience_seconds
        self._api_turns = threading.BoundedSemaphore(max(1, threads // 2))
        self._page_turns = threading.BoundedSemaphore(max(1, min(_PAGE_READERS, threads // 4)))
        self._queue = threading.BoundedSemaphore(max(1, threads // 4))
        self._waiting: dict[object, tuple[float, str]] = {}
        threading.Thread(target=self._watch, name="slow-bodies", daemon=True).start()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ.get("CONTENT_LENGTH", "0") != "0" or "HTTP_TRANSFER_ENCODING" in environ:
            environ["wsgi.input"] = _Body(self, environ)
        return self._app(environ, start_response)

    def read(self, read: Callable[[int], bytes], size: int, environ: Mapping[str, Any], begun: float) -> bytes:
        """What `read` gives, when it is this thread's turn. Raises ServiceError: 503 without one, 408 after too long.

        `begun` is when the body was first waited for, by `time.monotonic`.
        """
        turns = self._api_turns if environ["PATH_INFO"].startswith("/api/") else self._page_turns
        if not self._take(turns):
            raise ServiceError(
                "too_many_bodies",
                "Too many requests wait for bodies that do not come. Nothing was recorded.",
                hint="Send it again in a moment.",
                headers={"Retry-After": "1"},
            )
        token = object()
        self._waiting[token] = (begun, environ.get("REMOTE_ADDR", ""))
        try:
            data = read(size)
        finally:
            del self._waiting[token]
            turns.release()
        if time.monotonic() - begun >= self._patience_seconds:
            raise ServiceError(
                "body_timeout", f"The body did not come within {self._patience_seconds:g} s. Nothing was recorded."
            )
        return data

    def _take(self, turns: threading.BoundedSemaphore) -> bool:
        """Whether this thread got one of `turns`.

        In a burst all may stand in line. When those whose turn it is dawdle, few may, and not for long.
        """
        if turns.acquire(blocking=False):
            return True
        dawdling_since = time.monotonic() - _DAWDLING_SECONDS
        if not any(begun <= dawdling_since for begun, _ in list(self._waiting.values())):
            return turns.acquire(timeout=_BURST_SECONDS)
        if not self._queue.acquire(blocking=False):
            return False
        try:
            return turns.acquire(timeout=_TURN_SECONDS)
        finally:
            self._queue.release()

    def _watch(self) -> None:
        while True:
            time.sleep(_LOOK_SECONDS)
            late = time.monotonic() - self._patience_seconds
            peers = {peer for begun, peer in list(self._waiting.values()) if begun <= late}
            if peers:
                ended = end_silent_connections(peers, self._patience_seconds)
                _log.warning("ended %d connections of %s: bodies did not come", ended, ", ".join(sorted(peers)))


class _Body:
    """The body of one request, in the place of granian's."""

    def __init__(self, bodies: Bodies, environ: dict[str, Any]) -> None:
        self._bodies = bodies
        self._read = environ["wsgi.input"].read
        self._environ = environ
        self._missing = None if "HTTP_TRANSFER_ENCODING" in environ else int(environ["CONTENT_LENGTH"])
        self._begun: float | None = None

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes, all for -1. Raises ServiceError as `Bodies.read`, and 400 where the body breaks off."""
        if self._missing is not None:
            size = self._missing if size < 0 else min(size, self._missing)
        elif size < 0:
            size = sys.maxsize
        if size == 0:
            return b""
        if self._begun is None:
            self._begun = time.monotonic()
        data = self._bodies.read(self._read, size, self._environ, self._begun)
        if self._missing is not None:
            self._missing -= len(data)
            if len(data) < size:
                raise ServiceError(
                    "incomplete_body", f"The body broke off: {self._missing} bytes are missing. Nothing was recorded."
                )
        return data


def end_silent_connections(peers: Iterable[str], silent_seconds: float) -> int:
    """Shut down this process's TCP connections from `peers` on which we have sent nothing for so long; how many.

    Those are the ones that keep us waiting, and idle ones, which a server may end at any time: granian does not tell
    which connection a request came by. Only Linux says when data was last sent; elsewhere this ends none.
    """
    ended, wanted = 0, set(peers)
    for name in os.listdir(_DESCRIPTORS) if sys.platform == "linux" else ():
        try:
            descriptor = os.dup(int(name))
        except OSError:
            continue  # closed since it was listed
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            continue
        with socket.socket(fileno=descriptor) as connection:
            try:
                if (
                    connection.family not in (socket.AF_INET, socket.AF_INET6)
                    or connection.getpeername()[0] not in wanted
                ):
                    continue
                info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 64)
                if struct.unpack_from("I", info, _LAST_DATA_SENT)[0] >= silent_seconds * 1000:
                    connection.shutdown(socket.SHUT_RD)
                    ended += 1
            except OSError:
                continue  # not a connection, or no longer one
    return ended
