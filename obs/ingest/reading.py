"""Reading a heartbeat out of a request, in both path forms: hand-sized code, because every heartbeat comes by here."""

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

from obs import times
from obs.api import is_storable, json_object
from obs.errors import ServiceError, invalid_field
from obs.heartbeat.names import name_problem
from obs.heartbeat.runs import Heartbeat, Kind, Status
from obs.heartbeat.store.attributions import Attribution
from obs.times import DAY_MS, MINUTE_MS

LONGEST_RUN_ID = 64
LONGEST_HEADER = 200
MOST_EXIT_CODE = 255
MOST_MESSAGE_BYTES = 10 * 1024
MOST_DURATION_MS = 31 * DAY_MS
FUTURE_MS = 10 * MINUTE_MS
"""How far a client's clock may be ahead."""

_STATUSES = {
    "ok": Status.SUCCESS,
    "success": Status.SUCCESS,
    "fail": Status.FAILED,
    "failed": Status.FAILED,
    "error": Status.FAILED,
}
OUTCOMES = tuple(_STATUSES)
"""What an end may say as its status."""
_COMMON = frozenset({"run_id", "message", "time"})
_FIELDS = {
    Kind.START: _COMMON,
    Kind.LOG: _COMMON,
    Kind.END: _COMMON | {"status", "exit_code", "duration_ms"},
    Kind.PING: _COMMON,
}
_DIGITS = re.compile(r"[0-9]{1,15}")


def from_path(
    environ: Mapping[str, Any], body: bytes, kind: Kind, name: str, now_ms: int, oldest_ms: int
) -> tuple[str, Heartbeat]:
    """Form A: the job's name in the path, fields in the query string, the message as the body. Raises ServiceError."""
    if "\ufffd" in name and not _is_utf8(environ["PATH_INFO"]):
        raise invalid_field("path", "job_name", "Not valid UTF-8.")
    job = _job_name(name, "path", "job_name")
    query = environ.get("QUERY_STRING")
    fields = _query_fields(query) if query else {}
    message = _message("query", fields.pop("message", None))
    if len(body) > MOST_MESSAGE_BYTES:
        raise too_large(len(body))
    if body:
        if message is not None:
            raise invalid_field("query", "message", "Given in the body as well.")
        message = body.decode("utf-8", "replace")
    elif message is None and kind is Kind.LOG:
        message = ""
    return job, _heartbeat(kind, fields, message, "query", _whole_number_in_text, now_ms, oldest_ms)


def from_body(
    environ: Mapping[str, Any], body: bytes, kind: Kind, now_ms: int, oldest_ms: int
) -> tuple[str, Heartbeat]:
    """Form B: everything in a JSON object. Raises ServiceError."""
    fields = json_object(body, environ.get("CONTENT_TYPE") or "")
    if "name" not in fields:
        raise invalid_field("json", "name", "Missing data for required field.")
    job = _job_name(fields.pop("name"), "json", "name")
    message = _message("json", fields.pop("message", None))
    if message is None and kind is Kind.LOG:
        raise invalid_field("json", "message", "Missing data for required field.")
    return job, _heartbeat(kind, fields, message, "json", _whole_number, now_ms, oldest_ms)


def attribution(environ: Mapping[str, Any]) -> Attribution:
    """The X-Platform headers; an empty one counts as left out. Raises ServiceError (422)."""
    return Attribution(
        _header(environ.get("HTTP_X_PLATFORM_HOST"), "X-Platform-Host"),
        _header(environ.get("HTTP_X_PLATFORM_SERVICE"), "X-Platform-Service"),
        _header(environ.get("HTTP_X_PLATFORM_PROJECT"), "X-Platform-Project"),
    )


def idempotency_key(environ: Mapping[str, Any]) -> str | None:
    """The header Idempotency-Key, or None. Raises ServiceError (422)."""
    return _header(environ.get("HTTP_IDEMPOTENCY_KEY"), "Idempotency-Key")


def _heartbeat(
    kind: Kind,
    fields: Mapping[str, Any],
    message: str | None,
    place: str,
    number: Callable[[str, str, Any, int], int],
    now_ms: int,
    oldest_ms: int,
) -> Heartbeat:
    for field in fields:
        if field not in _FIELDS[kind]:
            raise invalid_field(
                place, field, "Unknown field.", hint=f"{kind.name.lower()} takes {', '.join(sorted(_FIELDS[kind]))}."
            )
    get = fields.get
    status = exit_code = duration_ms = None
    if (value := get("status")) is not None:
        status = _STATUSES.get(value) if isinstance(value, str) else None
        if status is None:
            raise invalid_field(place, "status", f"Must be one of: {', '.join(_STATUSES)}.")
    if (value := get("exit_code")) is not None:
        exit_code = number(place, "exit_code", value, MOST_EXIT_CODE)
    if (value := get("duration_ms")) is not None:
        duration_ms = number(place, "duration_ms", value, MOST_DURATION_MS)
    return Heartbeat(
        kind,
        _time(place, get("time"), now_ms, oldest_ms),
        _run_id(place, get("run_id")),
        status,
        exit_code,
        duration_ms,
        message,
    )


def _job_name(name: Any, place: str, field: str) -> str:
    problem = name_problem(name)
    if problem is not None:
        raise invalid_field(place, field, problem)
    assert isinstance(name, str)
    return name


def _query_fields(wsgi_text: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    text = wsgi_text.encode("latin-1").decode("utf-8", "replace")
    for field, value in parse_qsl(text, keep_blank_values=True, errors="werkzeug.url_quote"):
        if field in fields:
            raise invalid_field("query", field, "Given more than once.")
        fields[field] = value
    return fields


def _is_utf8(wsgi_text: str) -> bool:
    try:
        wsgi_text.encode("latin-1").decode()
    except UnicodeDecodeError:
        return False
    return True


def _message(place: str, value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise invalid_field(place, "message", "Not a valid string.")
    stored = value.encode("utf-8", "replace")
    if len(stored) > MOST_MESSAGE_BYTES:
        raise too_large(len(stored))
    return value if value.isascii() else stored.decode()


def too_large(size: int) -> ServiceError:
    """The 413 for a message of `size` bytes."""
    return ServiceError(
        "log_too_large",
        f"The message has {size} bytes; {MOST_MESSAGE_BYTES} are allowed. Nothing was recorded.",
        hint="Send it in several log calls, or only its end: tail -c 10240.",
    )


def _run_id(place: str, value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise invalid_field(place, "run_id", "Not a valid string.")
    if not 1 <= len(value) <= LONGEST_RUN_ID:
        raise invalid_field(place, "run_id", f"Length must be between 1 and {LONGEST_RUN_ID}.")
    if not is_storable(value):
        raise invalid_field(place, "run_id", "Not valid Unicode.")
    return value


def _time(place: str, value: Any, now_ms: int, oldest_ms: int) -> int:
    if value is None:
        return now_ms
    if not isinstance(value, str):
        raise invalid_field(place, "time", "Not an ISO 8601 time such as 2026-06-21T10:00:00Z.")
    try:
        time = times.parse_iso(value)
    except ValueError as error:
        raise invalid_field(place, "time", str(error)) from error
    if time > now_ms + FUTURE_MS:
        raise invalid_field(
            place, "time", "Lies in the future.", hint=f"The service's time is {times.format_ms(now_ms)}."
        )
    if time < oldest_ms:
        raise invalid_field(
            place,
            "time",
            "Lies before what is kept.",
            hint=f"The oldest time allowed is {times.format_ms(oldest_ms)}.",
        )
    return time


def _whole_number(place: str, field: str, value: Any, most: int) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON knows one kind of number: 5.0 is as whole as 5
    if isinstance(value, bool) or not isinstance(value, int):
        raise invalid_field(place, field, "Not a whole number.")
    if not 0 <= value <= most:
        raise invalid_field(place, field, f"Must be from 0 to {most}.")
    return value


def _whole_number_in_text(place: str, field: str, value: str, most: int) -> int:
    if not _DIGITS.fullmatch(value) or int(value) > most:
        raise invalid_field(place, field, f"Must be a whole number from 0 to {most}.")
    return int(value)


def _header(value: str | None, name: str) -> str | None:
    if not value:
        return None
    # The WSGI environment holds headers as Latin-1; what clients send is UTF-8.
    text = value if value.isascii() else value.encode("latin-1").decode("utf-8", "replace")
    if len(text) > LONGEST_HEADER:
        raise invalid_field("headers", name, f"Longer than {LONGEST_HEADER} characters.")
    return text
