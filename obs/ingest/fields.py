"""The fields and headers of a heartbeat: names, bounds, help texts, and how each value is read.

This table drives both request forms (`obs.ingest.native`) and the OpenAPI document (`obs.ingest.openapi`). The name of
a field is also the name of its attribute in `Heartbeat`.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from obs import times
from obs.api import is_storable
from obs.client.output import MOST_MESSAGE_BYTES
from obs.errors import ServiceError, invalid_field
from obs.heartbeat.names import JOB_NAME, valid_name
from obs.heartbeat.runs import FUTURE_MS, Kind, Status
from obs.heartbeat.store.record import Attribution
from obs.times import DAY_MS, MINUTE_MS

_DIGITS = re.compile(r"[0-9]{1,15}")


class TimeLimits(NamedTuple):
    """The current time and the oldest time that a heartbeat may have, in milliseconds since the epoch."""

    now_ms: int
    oldest_ms: int


class InvalidValueError(ValueError):
    """A value of a field is not valid. `message` says what is allowed; `hint` gives advice, or is None."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ValueType(ABC):
    """How the values of a field are read and described. Both readers accept and reject the same values."""

    @abstractmethod
    def schema(self) -> dict[str, Any]:
        """The JSON schema of a value."""

    @abstractmethod
    def from_json(self, value: Any, limits: TimeLimits) -> Any:
        """Read a JSON value other than null. Raises InvalidValueError, or ServiceError for another status."""

    def from_text(self, text: str, limits: TimeLimits) -> Any:
        """Read a query parameter. Raises what `from_json` raises."""
        return self.from_json(text, limits)


@dataclass(frozen=True, slots=True)
class Text(ValueType):
    shortest: int
    longest: int

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "minLength": self.shortest, "maxLength": self.longest}

    def from_json(self, value: Any, limits: TimeLimits) -> str:
        if not isinstance(value, str):
            raise InvalidValueError("Not a valid string.")
        if not self.shortest <= len(value) <= self.longest:
            raise InvalidValueError(f"Length must be between {self.shortest} and {self.longest}.")
        if not is_storable(value):
            raise InvalidValueError("Not valid Unicode.")
        return value


@dataclass(frozen=True, slots=True)
class MessageText(ValueType):
    """Text of at most `most_bytes` bytes of UTF-8. What is not valid Unicode is replaced, not rejected."""

    most_bytes: int

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "maxLength": self.most_bytes}

    def from_json(self, value: Any, limits: TimeLimits) -> str:
        if not isinstance(value, str):
            raise InvalidValueError("Not a valid string.")
        encoded = value.encode("utf-8", "replace")
        if len(encoded) > self.most_bytes:
            raise self.too_large(len(encoded))
        return value if value.isascii() else encoded.decode()

    def from_body(self, body: bytes) -> str:
        """The message in the body of a request. Raises ServiceError (413)."""
        if len(body) > self.most_bytes:
            raise self.too_large(len(body))
        return body.decode("utf-8", "replace")

    def too_large(self, size: int) -> ServiceError:
        return ServiceError(
            "log_too_large",
            f"The message has {size} bytes; the limit is {self.most_bytes} bytes. Nothing was recorded.",
            hint=f"Send it in several log calls, or send only its end: tail -c {self.most_bytes}.",
        )


@dataclass(frozen=True, slots=True)
class WholeNumber(ValueType):
    """A whole number from 0 to `most`. JSON has one type of number: 5.0 is the same as 5."""

    most: int

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": 0, "maximum": self.most}

    def from_text(self, text: str, limits: TimeLimits) -> int:
        return self.from_json(int(text) if _DIGITS.fullmatch(text) else None, limits)

    def from_json(self, value: Any, limits: TimeLimits) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= self.most:
            raise InvalidValueError(f"Must be a whole number from 0 to {self.most}.")
        return value


class Outcome(ValueType):
    """How a run ended; several words have the same meaning."""

    words: Mapping[str, Status] = {
        "ok": Status.SUCCESS,
        "success": Status.SUCCESS,
        "fail": Status.FAILED,
        "failed": Status.FAILED,
        "error": Status.FAILED,
    }

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "enum": list(self.words)}

    def from_json(self, value: Any, limits: TimeLimits) -> Status:
        status = self.words.get(value) if isinstance(value, str) else None
        if status is None:
            raise InvalidValueError(f"Must be one of: {', '.join(self.words)}.")
        return status


@dataclass(frozen=True, slots=True)
class Time(ValueType):
    """An ISO 8601 time, not before the retention period and at most `future_ms` ahead (clocks of hosts differ)."""

    future_ms: int

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "format": "date-time"}

    def from_json(self, value: Any, limits: TimeLimits) -> int:
        if not isinstance(value, str):
            raise InvalidValueError("Not an ISO 8601 time such as 2026-06-21T10:00:00Z.")
        try:
            time = times.parse_iso(value)
        except ValueError as error:
            raise InvalidValueError(str(error)) from error
        if time > limits.now_ms + self.future_ms:
            now = times.format_ms(limits.now_ms)
            raise InvalidValueError("The time is in the future.", f"The service's time is {now}.")
        if time < limits.oldest_ms:
            oldest = times.format_ms(limits.oldest_ms)
            raise InvalidValueError("The time is before the retention period.", f"The oldest time allowed is {oldest}.")
        return time


@dataclass(frozen=True, slots=True)
class Field:
    """A field: the kinds of heartbeats that accept it, and those for which the JSON form requires it."""

    name: str
    type: ValueType
    help: str
    example: str | int
    kinds: frozenset[Kind] = frozenset(Kind)
    required: frozenset[Kind] = frozenset()


MESSAGE = MessageText(MOST_MESSAGE_BYTES)
LONGEST_DURATION_MS = 31 * DAY_MS
_END = frozenset({Kind.END})

FIELDS = (
    Field("run_id", Text(1, 64), "The client's own id of the run.", "2026-06-21-a"),
    Field(
        "message",
        MESSAGE,
        f"Text of at most {MESSAGE.most_bytes:,} bytes of UTF-8.",
        "copied 412 files",
        required=frozenset({Kind.LOG}),
    ),
    Field(
        "time",
        Time(FUTURE_MS),
        f"When it happened, if not now: at most {FUTURE_MS // MINUTE_MS} minutes ahead, within the retention period.",
        "2026-06-21T10:00:00Z",
    ),
    Field("status", Outcome(), "The outcome of the run.", "success", _END),
    Field("exit_code", WholeNumber(255), "Without a status, any exit code other than 0 is a failure.", 0, _END),
    Field(
        "duration_ms",
        WholeNumber(LONGEST_DURATION_MS),
        f"Duration in milliseconds, at most {LONGEST_DURATION_MS // DAY_MS} days. Default: the time since the start.",
        61500,
        _END,
    ),
)
"""Every field of a heartbeat, except the name of the job."""

FIELDS_OF: Mapping[Kind, Mapping[str, Field]] = {
    kind: {field.name: field for field in FIELDS if kind in field.kinds} for kind in Kind
}
"""The fields that each kind of heartbeat accepts, by name."""

_REQUIRED_OF = {kind: tuple(field.name for field in FIELDS if kind in field.required) for kind in Kind}

NAME_SCHEMA: Mapping[str, Any] = {"type": "string", **JOB_NAME}
NAME_HELP = "The name of the job."
NAME_EXAMPLE = "nightly-backup"


def read_values(kind: Kind, sent: Mapping[str, Any], place: str, limits: TimeLimits) -> dict[str, Any]:
    """The values of the fields in `sent`, by name; null counts as not sent.

    `place` is ``query`` for query parameters and ``json`` for a JSON object. Raises ServiceError: 422 for a field that
    is unknown, invalid or missing, 413 for a message that is too large.
    """
    values: dict[str, Any] = {}
    fields = FIELDS_OF[kind]
    for name, value in sent.items():
        field = fields.get(name)
        if field is None:
            hint = f"{kind.name.lower()} accepts {', '.join(sorted(fields))}."
            raise invalid_field(place, name, "Unknown field.", hint=hint)
        if value is None:
            continue
        read = field.type.from_text if place == "query" else field.type.from_json
        try:
            values[name] = read(value, limits)
        except InvalidValueError as error:
            raise invalid_field(place, name, error.message, hint=error.hint) from error
    if place == "json":
        for name in _REQUIRED_OF[kind]:
            if name not in values:
                raise missing_field(name)
    return values


def missing_field(name: str) -> ServiceError:
    return invalid_field("json", name, "Missing data for required field.")


def read_name_in_path(text: str) -> str:
    """The name of a job in a path, of which `text` is a part as WSGI passes it. Raises ServiceError (422)."""
    if not text.isascii():
        try:
            text = text.encode("latin-1").decode()  # WSGI decodes paths as Latin-1; clients send UTF-8
        except UnicodeDecodeError as error:
            raise invalid_field("path", "job_name", "Not valid UTF-8.") from error
    return valid_name(text, "path", "job_name")


LONGEST_HEADER = 200
"""In characters."""


class Header:
    """A request header that every heartbeat accepts; an empty one counts as not sent."""

    def __init__(self, name: str, help_text: str) -> None:
        self.name = name
        self.help = help_text
        self._variable = f"HTTP_{name.upper().replace('-', '_')}"

    def read(self, environ: Mapping[str, Any]) -> str | None:
        """The value in a WSGI environment, or None. Raises ServiceError (422)."""
        value: str | None = environ.get(self._variable)
        if not value:
            return None
        # WSGI decodes headers as Latin-1; clients send UTF-8.
        text = value if value.isascii() else value.encode("latin-1").decode("utf-8", "replace")
        if len(text) > LONGEST_HEADER:
            raise invalid_field("headers", self.name, f"Longer than {LONGEST_HEADER} characters.")
        return text


HOST = Header("X-Platform-Host", "The host that the job runs on.")
SERVICE = Header("X-Platform-Service", "The service that the job belongs to.")
PROJECT = Header("X-Platform-Project", "The project that the service belongs to.")
IDEMPOTENCY_KEY = Header("Idempotency-Key", "Calls repeated with the same key within 24 hours count once.")
HEADERS = (HOST, SERVICE, PROJECT, IDEMPOTENCY_KEY)


def read_attribution(environ: Mapping[str, Any]) -> Attribution:
    """Where the job runs, from the request headers. Raises ServiceError (422)."""
    return Attribution(HOST.read(environ), SERVICE.read(environ), PROJECT.read(environ))
