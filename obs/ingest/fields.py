"""The fields and headers of a heartbeat: names, bounds, help texts, and how each value is read.

This table drives both request forms and the OpenAPI document. A field has the name of its attribute in `Heartbeat`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from obs.api import is_storable
from obs.client.run import MOST_MESSAGE_BYTES
from obs.errors import ServiceError, invalid_field
from obs.heartbeat.names import valid_name
from obs.heartbeat.runs import FUTURE_MS, Kind, Status
from obs.heartbeat.store.record import Attribution
from obs.server.middleware import utf8
from obs.tenancy.auth import Caller
from obs.times import DAY_MS, MINUTE_MS, format_ms, parse_iso

LONGEST_DURATION_MS = 31 * DAY_MS
OUTCOMES: Mapping[Any, Status] = {  # how a run ended; several words have the same meaning
    **dict.fromkeys(("ok", "success"), Status.SUCCESS),
    **dict.fromkeys(("fail", "failed", "error"), Status.FAILED),
}
MISSING = "Missing data for required field."
LONGEST_HEADER = 200  # characters
HEADERS = ("X-Platform-Host", "X-Platform-Service", "X-Platform-Project", "Idempotency-Key")
"""Of requests: every heartbeat accepts them. An empty one counts as not sent."""
_VARIABLES = {name: f"HTTP_{name.upper().replace('-', '_')}" for name in HEADERS}
_DIGITS = re.compile(r"[0-9]{1,15}")
_END = frozenset({Kind.END})
_Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Field:
    """A field. `read` raises ValueError with a message and perhaps a hint; ServiceError for another status than 422."""

    name: str
    schema: _Schema
    read: Callable[[Any, _Schema, Caller], Any]  # takes a value that is not null, its JSON schema and who sends it
    help: str
    example: str | int
    kinds: frozenset[Kind] = frozenset(Kind)  # of heartbeats that accept it
    required: frozenset[Kind] = frozenset()  # for which the JSON form requires it


def _text(value: Any, schema: _Schema, _: Caller) -> str:
    if not isinstance(value, str):
        raise ValueError("Not a valid string.")
    shortest, longest = schema["minLength"], schema["maxLength"]
    if not shortest <= len(value) <= longest:
        raise ValueError(f"Length must be between {shortest} and {longest}.")
    if not is_storable(value):
        raise ValueError("Not valid Unicode.")
    return value


def _message(value: Any, _schema: _Schema, _: Caller) -> str:
    if not isinstance(value, str):
        raise ValueError("Not a valid string.")
    return read_message(value.encode("utf-8", "replace"))


def read_message(sent: bytes) -> str:
    """The message in these bytes. What is not valid UTF-8 is replaced, not rejected. Raises ServiceError (413)."""
    if len(sent) > MOST_MESSAGE_BYTES:
        raise message_too_large(len(sent))
    return sent.decode("utf-8", "replace")


def message_too_large(size: int) -> ServiceError:
    message = f"The message has {size} bytes; the limit is {MOST_MESSAGE_BYTES} bytes. Nothing was recorded."
    hint = f"Send it in several log calls, or send only its end: tail -c {MOST_MESSAGE_BYTES}."
    return ServiceError("log_too_large", message, hint=hint)


def _whole_number(value: Any, schema: _Schema, _: Caller) -> int:
    if isinstance(value, float) and value.is_integer():  # JSON has one type of number: 5.0 is the same as 5
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= schema["maximum"]:
        raise ValueError(f"Must be a whole number from 0 to {schema['maximum']}.")
    return value


def _outcome(value: Any, _schema: _Schema, _: Caller) -> Status:
    status = OUTCOMES.get(value) if isinstance(value, str) else None
    if status is None:
        raise ValueError(f"Must be one of: {', '.join(OUTCOMES)}.")
    return status


def _time(value: Any, _: _Schema, caller: Caller) -> int:
    """An ISO 8601 time, not before the retention period and at most FUTURE_MS ahead (clocks of hosts differ)."""
    time = parse_iso(value)
    if time > caller.now_ms + FUTURE_MS:
        raise ValueError("The time is in the future.", f"The service's time is {format_ms(caller.now_ms)}.")
    oldest_ms = caller.now_ms - caller.tenancy.quotas.settings["RUN_RETENTION_DAYS"] * DAY_MS
    if time < oldest_ms:
        hint = f"The oldest time allowed is {format_ms(oldest_ms)}."
        raise ValueError("The time is before the retention period.", hint)
    return time


def _up_to(maximum: int) -> _Schema:
    return {"type": "integer", "minimum": 0, "maximum": maximum}


_MESSAGE = {"type": "string", "maxLength": MOST_MESSAGE_BYTES}
_RUN_ID_HELP = "The client's own id of the run."
_MESSAGE_HELP = f"Text of at most {MOST_MESSAGE_BYTES:,} bytes of UTF-8."
_TIME_HELP = f"When it happened, if not now: at most {FUTURE_MS // MINUTE_MS} minutes ahead, within the retention."
_DURATION_HELP = f"In milliseconds, at most {LONGEST_DURATION_MS // DAY_MS} days. Default: the time since the start."
FIELDS = (  # of a heartbeat, except the name of the job
    Field("run_id", {"type": "string", "minLength": 1, "maxLength": 64}, _text, _RUN_ID_HELP, "2026-06-21-a"),
    Field("message", _MESSAGE, _message, _MESSAGE_HELP, "copied 412 files", required=frozenset({Kind.LOG})),
    Field("time", {"type": "string", "format": "date-time"}, _time, _TIME_HELP, "2026-06-21T10:00:00Z"),
    Field("status", {"type": "string", "enum": list(OUTCOMES)}, _outcome, "The outcome of the run.", "success", _END),
    Field("exit_code", _up_to(255), _whole_number, "Without a status, any other than 0 is a failure.", 0, _END),
    Field("duration_ms", _up_to(LONGEST_DURATION_MS), _whole_number, _DURATION_HELP, 61500, _END),
)

FIELDS_OF: Mapping[Kind, Mapping[str, Field]] = {  # those that each kind of heartbeat accepts, by name
    kind: {field.name: field for field in FIELDS if kind in field.kinds} for kind in Kind
}


def read_values(kind: Kind, sent: Mapping[str, Any], place: str, caller: Caller) -> dict[str, Any]:
    """The values of `sent` by name, without nulls; `place` is query or json. Raises ServiceError (413, 422)."""
    values: dict[str, Any] = {}
    fields = FIELDS_OF[kind]
    for name, value in sent.items():
        if (field := fields.get(name)) is None:
            hint = f"{kind.name.lower()} accepts {', '.join(sorted(fields))}."
            raise invalid_field(place, name, "Unknown field.", hint=hint)
        if value is None:
            continue
        if place == "query" and field.schema["type"] == "integer":
            value = int(value) if _DIGITS.fullmatch(value) else None
        try:
            values[name] = field.read(value, field.schema, caller)
        except ValueError as error:
            message, *advice = map(str, error.args)
            raise invalid_field(place, name, message, hint=advice[0] if advice else None) from error
    return values


def read_duration(value: Any, unit_ms: int) -> int | None:
    """So many units in milliseconds; None for an invalid duration, with which other monitors accept heartbeats."""
    try:
        duration_ms = float(value) * unit_ms
    except (TypeError, ValueError, OverflowError):
        return None
    return round(duration_ms) if 0 <= duration_ms <= LONGEST_DURATION_MS else None


def read_name_in_path(text: str) -> str:
    """The name of a job in a path, of which `text` is a part as WSGI passes it. Raises ServiceError (422)."""
    try:
        name = text.encode("latin-1").decode()  # WSGI decodes paths as Latin-1; clients send UTF-8
    except UnicodeDecodeError as error:
        raise invalid_field("path", "job_name", "Not valid UTF-8.") from error
    return valid_name(name, "path", "job_name")


def read_query(environ: Mapping[str, Any]) -> str:
    return utf8(environ.get("QUERY_STRING") or "")


def read_header(environ: Mapping[str, Any], name: str) -> str | None:
    """One of HEADERS in a WSGI environment, or None. Raises ServiceError (422)."""
    text = utf8(environ.get(_VARIABLES[name]) or "")
    if len(text) > LONGEST_HEADER:
        raise invalid_field("headers", name, f"Longer than {LONGEST_HEADER} characters.")
    return text or None


def read_attribution(environ: Mapping[str, Any]) -> Attribution:
    """Where the job runs, from the request headers. Raises ServiceError (422)."""
    return Attribution(*(read_header(environ, f"X-Platform-{name}") for name in ("Host", "Service", "Project")))
