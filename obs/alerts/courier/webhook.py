"""The channel ``webhook``: a JSON body, signed, sent with POST. Redirects are not followed."""

import hashlib
import hmac
import signal
import time
import urllib.request
from contextlib import suppress
from http.client import HTTPException
from urllib.parse import urlsplit

from . import ATTEMPT_SECONDS, MOST_ANSWER, Order, RefusedError


def check(address: str) -> tuple[str, str | None]:
    """The server of a webhook; the path may be a secret. Raises RefusedError."""
    try:
        url = urlsplit(address)
        port = url.port
    except ValueError as error:
        raise RefusedError(f"Not a URL: {error}.") from error
    is_plain = address.isascii() and address.isprintable() and " " not in address
    if url.scheme not in ("http", "https") or not url.hostname or not is_plain:
        raise RefusedError("Not a URL of ASCII characters that starts with http:// or https://.")
    if "@" in url.netloc:
        raise RefusedError("User names and passwords in the URL are not supported.")
    host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
    return f"{url.scheme}://{host}{f':{port}' if port else ''}/***", url.hostname


def send(order: Order) -> tuple[bool, str, int]:
    """POST the payload, signed. Any response but 2xx is a failure."""
    body = order["payload"].encode()
    seconds = str(int(time.time()))
    headers = {"Content-Type": "application/json", "User-Agent": "obs", "Idempotency-Key": order["key"]}
    headers["X-Obs-Signature"] = f"t={seconds},v1={sign(order['secret'], seconds, body)}"
    return _open(order["address"], body, headers)


def fetch(order: Order) -> tuple[bool, str, int]:
    """GET the address."""
    return _open(order["address"], None, {"User-Agent": "obs"})


def sign(secret: str, seconds: str, body: bytes) -> str:
    """The signature of a request: the HMAC-SHA256 of its time, a full stop and its body, in hexadecimal."""
    return hmac.new(secret.encode(), f"{seconds}.".encode() + body, hashlib.sha256).hexdigest()


def _open(url: str, body: bytes | None, headers: dict[str, str]) -> tuple[bool, str, int]:
    request, text = urllib.request.Request(url, body, headers), b""  # noqa: S310 - checked
    opener = urllib.request.OpenerDirector()  # without the handlers of redirects and errors: every status is an answer
    for handler in (urllib.request.ProxyHandler, urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
        opener.add_handler(handler())
    with opener.open(request, timeout=ATTEMPT_SECONDS) as response:
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.alarm(5)  # for all but the status, which alone decides whether a message was delivered
        with suppress(OSError, HTTPException, KeyboardInterrupt):
            text = response.read(MOST_ANSWER)
    wait = response.headers.get("Retry-After", "")[:9]
    seconds = int(wait) if wait.isascii() and wait.isdigit() else 0  # else it is a date, which clocks can make wrong
    return 200 <= response.status < 300, f"{response.status} {text.decode(errors='replace')}".strip(), seconds
