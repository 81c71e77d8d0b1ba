"""What an annotation is, and the rules for changes. Pure. Times are milliseconds since the epoch."""

import hashlib
from collections.abc import Collection, Container, Mapping
from dataclasses import astuple, dataclass
from typing import Any
from urllib.parse import urlsplit

from obs.annotations.source import RETENTION_MS
from obs.errors import ServiceError, invalid_field
from obs.times import DAY_MS, format_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """An annotation. With an end it is a band, without one a point. It has no `id` before it is stored."""

    name: str
    title: str
    start_time: int
    end_time: int | None = None
    description: str | None = None
    url: str | None = None
    idempotency_key: str | None = None
    id: int | None = None
    created_at: int
    updated_at: int
    by_service: bool = False  # whether it shows an incident, and clients cannot change it


def new(fields: Mapping[str, Any], now_ms: int) -> Annotation:
    """The annotation with these `fields`; without a start_time it starts now. Raises ServiceError (422)."""
    sent = {name: value for name, value in fields.items() if value is not None}
    if "end_time" in sent and "start_time" not in sent:
        message, hint = "Must be sent together with end_time.", "Send start_time as well."
        raise invalid_field("json", "start_time", message, hint=hint)
    annotation = Annotation(**{"start_time": now_ms, **sent}, created_at=now_ms, updated_at=now_ms)
    check_times(annotation, sent, now_ms)
    return annotation


def is_web_url(text: str) -> bool:
    """Whether `text` is an http or https URL that a browser understands in the same way."""
    # urlsplit drops some white space and control characters; a browser that follows the link may not.
    if any(character.isspace() or not character.isprintable() for character in text):
        return False
    try:
        parts = urlsplit(text)
        _ = parts.port  # is parsed, and rejected, only when it is read
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def check_times(annotation: Annotation, sent: Collection[str], now_ms: int) -> None:
    """Raise ServiceError (422), naming a field that was sent, unless the times are in order and recent enough."""
    start_time, end_time = annotation.start_time, annotation.end_time
    field, oldest = "end_time" if "end_time" in sent else "start_time", now_ms - RETENTION_MS
    if end_time is not None and end_time < start_time:
        message = "Must not be before start_time." if field == "end_time" else "Must not be after end_time."
        hint = f"It would be from {format_ms(start_time)} to {format_ms(end_time)}."
        raise invalid_field("json", field, message, hint=hint)
    if (start_time if end_time is None else end_time) < oldest:  # as LAST_MOMENT_SQL
        message = f"The annotation would be older than the {RETENTION_MS // DAY_MS} days that annotations are kept."
        raise invalid_field("json", field, message, hint=f"The oldest time allowed is {format_ms(oldest)}.")


def version(annotation: Annotation) -> str:
    """A text that changes with every change of the annotation; the ETag, without its quotes."""
    return hashlib.sha256(repr(astuple(annotation)).encode()).hexdigest()[:32]


def check_change(annotation: Annotation, allowed: Container[str] | None) -> None:
    """Raise ServiceError: 409 for an annotation that shows an incident, 412 for a version that is not in `allowed`."""
    if annotation.by_service:
        message = f"Annotation {annotation.id} shows an incident and is managed automatically."
        hint = "It ends when the incident does. To end the incident now, pause the job."
        raise ServiceError("conflict", message, hint=hint)
    if allowed is not None and version(annotation) not in allowed:
        hint = "Fetch the annotation again and send the ETag that comes with it."
        raise ServiceError("precondition_failed", "The annotation was changed meanwhile. Open it again.", hint=hint)
