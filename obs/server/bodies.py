"""Request bodies: read within limits of size and time, so that slow clients do not occupy all threads.

granian reads a body in the thread of its request without a time limit, and returns what has arrived as if it were
complete when a connection ends. `Bodies` stands between the two and prevents both, the latter if the length is known.
"""

import logging
import os
import socket
import struct
import sys
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from encodings import normalize_encoding
from encodings.aliases import aliases
from stat import S_ISSOCK
from typing import Any

import brotli
from werkzeug.http import parse_options_header

from obs.errors import ServiceError

MOST_BODY_BYTES = 1 << 20
_PIECE_BYTES = 1 << 16
_SAME_AS_UTF8 = frozenset({"utf_8", "utf8", "us_ascii", "ascii"})
_CHARSETS = frozenset(aliases) | frozenset(aliases.values())  # not all codecs: some are slow, or specific to Python
_SLOW_SECONDS = 1  # a body that has arrived is read in a fraction of a millisecond
_BURST_SECONDS = 2
_QUEUE_SECONDS = 0.25
_PAGE_READERS = 8
_LAST_DATA_SENT = 44  # offset in Linux' struct tcp_info: milliseconds since we last sent data on the connection
_log = logging.getLogger(__name__)


def body_too_large(size: int | str) -> ServiceError:
    return ServiceError("body_too_large", f"The body has {size} bytes; the limit is {MOST_BODY_BYTES} bytes.")


def read_body(environ: Mapping[str, Any], too_large: Callable[[int], ServiceError] = body_too_large) -> bytes:
    """The whole body of a request, decompressed and in UTF-8. What is not valid in its charset is replaced.

    Raises ServiceError: `too_large` for a Content-Length above MOST_BODY_BYTES (the body is not read), 413 for such a
    body in chunks or after decompression, 400 for an invalid Content-Length and for damaged data, 415 for an encoding
    or charset that is not supported, and what `Body.read` raises.
    """
    text = environ.get("CONTENT_LENGTH") or "0"
    if "HTTP_TRANSFER_ENCODING" in environ:
        most = MOST_BODY_BYTES + 1
    elif not (text.isascii() and text.isdigit()):
        raise ServiceError("bad_request", f"Content-Length is not a whole number: {text!r}.")
    elif (most := int(text)) > MOST_BODY_BYTES:
        raise too_large(most)
    pieces, missing = list[bytes](), most
    while missing and (piece := environ["wsgi.input"].read(missing)):
        pieces.append(piece)
        missing -= len(piece)
    if most - missing > MOST_BODY_BYTES:
        raise body_too_large(f"more than {MOST_BODY_BYTES}")
    body, coding, content_type = b"".join(pieces), environ.get("HTTP_CONTENT_ENCODING"), environ.get("CONTENT_TYPE")
    if coding and body and coding.lower() != "identity":
        body = _decompressed(body, coding)
    if content_type and body and "charset" in content_type.lower():
        charset = parse_options_header(content_type)[1].get("charset", "utf-8")
        name = normalize_encoding(charset.lower())
        if name not in _SAME_AS_UTF8:
            try:
                body = body.decode(name if name in _CHARSETS else "unknown", "replace").encode("utf-8", "replace")
            except (LookupError, UnicodeError) as error:
                message = f"The charset {charset!r} is not supported."
                raise ServiceError("unsupported_media_type", message, hint="Send UTF-8.") from error
    return body


def read_end(environ: Mapping[str, Any], most_bytes: int) -> tuple[bytes, int]:
    """The last `most_bytes` bytes of a body, as sent, and how many precede them. Raises what `Body.read` raises."""
    end, size = b"", 0
    length = sys.maxsize if "HTTP_TRANSFER_ENCODING" in environ else int(environ.get("CONTENT_LENGTH") or 0)
    while size < length and (piece := environ["wsgi.input"].read(min(_PIECE_BYTES, length - size))):
        end, size = (end + piece)[-most_bytes:], size + len(piece)
    return end, size - len(end)


def _decompressed(body: bytes, coding: str) -> bytes:
    name = coding.lower()
    if name not in ("br", "gzip", "x-gzip", "deflate"):
        message, hint = f"The Content-Encoding {coding!r} is not supported.", "Use gzip, deflate or br, or none."
        headers = {"Accept-Encoding": "gzip, deflate, br"}
        raise ServiceError("unsupported_media_type", message, hint=hint, headers=headers)
    stream: Any
    try:
        if name == "br":
            stream = brotli.Decompressor()
            plain: bytes = stream.process(body, output_buffer_limit=MOST_BODY_BYTES + 1)
            is_whole = stream.is_finished()
        else:
            stream = zlib.decompressobj(zlib.MAX_WBITS | 32)  # 32: both formats
            plain = stream.decompress(body, MOST_BODY_BYTES + 1)
            is_whole = stream.eof and not stream.unused_data
        if len(plain) > MOST_BODY_BYTES:
            raise body_too_large(f"more than {MOST_BODY_BYTES}")
        if not is_whole:
            raise zlib.error("it is not one complete stream")
    except (brotli.error, zlib.error) as error:
        raise ServiceError("bad_request", f"The body is not valid {coding}: {error}.") from error
    return plain


class Bodies:
    """A WSGI application around `app` in which at most half of `threads` read bodies at the same time.

    Pages have readers of their own: anybody can post the sign-in form, and must not take the readers of the API.
    """

    def __init__(self, app: Callable[..., Iterable[bytes]], threads: int, patience_seconds: float) -> None:
        self._app = app
        self.patience_seconds = patience_seconds  # from the start of the first read to the last byte
        self.api_readers = threading.BoundedSemaphore(max(1, threads // 2))
        self.page_readers = threading.BoundedSemaphore(max(1, min(_PAGE_READERS, threads // 4)))
        self._queue = threading.BoundedSemaphore(max(1, threads // 4))
        self.waiting: dict[Body, tuple[float, str]] = {}
        threading.Thread(target=self._watch, name="slow-bodies", daemon=True).start()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ.get("CONTENT_LENGTH", "0") != "0" or "HTTP_TRANSFER_ENCODING" in environ:
            environ["wsgi.input"] = Body(self, environ)
        return self._app(environ, start_response)

    def acquire(self, readers: threading.BoundedSemaphore) -> bool:
        """Become one of `readers`, briefly waiting for it. While clients are slow, only a few threads may wait."""
        if readers.acquire(blocking=False):
            return True
        slow_since = time.monotonic() - _SLOW_SECONDS
        if not any(begun <= slow_since for begun, _ in list(self.waiting.values())):
            return readers.acquire(timeout=_BURST_SECONDS)
        if not self._queue.acquire(blocking=False):
            return False
        try:
            return readers.acquire(timeout=_QUEUE_SECONDS)
        finally:
            self._queue.release()

    def _watch(self) -> None:
        while True:
            time.sleep(1)
            late = time.monotonic() - self.patience_seconds
            peers = {peer for begun, peer in list(self.waiting.values()) if begun <= late}
            if peers:
                try:
                    closed = close_silent_connections(peers, self.patience_seconds)
                except OSError as error:  # there are no more descriptors
                    _log.warning("connections whose bodies do not arrive cannot be closed: %s", error)
                    continue
                _log.warning("closed %d connections from %s: bodies did not arrive", closed, ", ".join(sorted(peers)))


class Body:
    def __init__(self, bodies: Bodies, environ: dict[str, Any]) -> None:
        self._read: Callable[[int], bytes] = environ["wsgi.input"].read
        self._bodies, self._environ = bodies, environ
        self._is_chunked = "HTTP_TRANSFER_ENCODING" in environ
        self._missing = sys.maxsize if self._is_chunked else int(environ["CONTENT_LENGTH"])
        self._begun: float | None = None

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes, all for -1. Raises ServiceError: 503 (no free reader), 408 (slow), 400 (incomplete)."""
        size = self._missing if size < 0 else min(size, self._missing)
        if size == 0:
            return b""
        if self._begun is None:
            self._begun = time.monotonic()
        bodies, is_of_api = self._bodies, self._environ["PATH_INFO"].startswith(("/api/", "/ping/"))
        readers = bodies.api_readers if is_of_api else bodies.page_readers
        if not bodies.acquire(readers):
            raise ServiceError("too_many_bodies", hint="Try again in a moment.", headers={"Retry-After": "1"})
        bodies.waiting[self] = (self._begun, self._environ.get("REMOTE_ADDR", ""))
        try:
            data = self._read(size)
        finally:
            del bodies.waiting[self]
            readers.release()
        if time.monotonic() - self._begun >= bodies.patience_seconds:
            message = f"The body did not arrive within {bodies.patience_seconds:g} s. Nothing was recorded."
            raise ServiceError("body_timeout", message)
        self._missing -= len(data)
        if len(data) < size and not self._is_chunked:
            message = f"The body is incomplete: {self._missing} bytes are missing. Nothing was recorded."
            raise ServiceError("incomplete_body", message)
        return data


def close_silent_connections(peers: Collection[str], silent_seconds: float) -> int:
    """Close the TCP connections from `peers` on which this process sent nothing for `silent_seconds`; returns how many.

    These are the ones whose bodies do not arrive, and idle ones, which a server may close at any time. granian does not
    say which connection a request belongs to. Outside Linux, no connection is closed.
    """
    closed = 0
    for connection, info in tcp_sockets():
        with suppress(OSError):  # it is closed already, or listens
            (silent_ms,) = struct.unpack_from("I", info, _LAST_DATA_SENT)
            if connection.getpeername()[0] in peers and silent_ms >= silent_seconds * 1000:
                connection.shutdown(socket.SHUT_RD)
                closed += 1
    return closed


def tcp_sockets() -> Iterator[tuple[socket.socket, bytes]]:
    """The TCP sockets of this process, each with its struct tcp_info (see linux/tcp.h). Outside Linux, none."""
    for number in map(int, os.listdir("/dev/fd")):
        with suppress(OSError, AttributeError):  # it is closed already, or no TCP socket
            if S_ISSOCK(os.fstat(number).st_mode):  # of other files, the copy would stay open
                with socket.socket(fileno=os.dup(number)) as one:
                    yield one, one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 136)
