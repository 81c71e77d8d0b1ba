"""What an annotation is, and what it may be made into. Pure: the moment of the request is handed in.

All times are milliseconds since the Unix epoch.
"""

import hashlib
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any

from obs.annotations.source import RETENTION_MS
from obs.errors import ServiceError, invalid_field
from obs.times import DAY_MS, format_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An annotation that is not stored yet. With an end it is a band, without one a point."""

    name: str
    title: str
    start_time: int
    end_time: int | None
    description: str | None
    url: str | None
    idempotency_key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation(Draft):
    """An annotation as it is stored. One that is `by_service` shows an incident and is not a client's to change."""

    id: int
    created_at: int
    updated_at: int
    by_service: bool = False


@dataclass(frozen=True, slots=True)
class PrefixCount:
    """How many annotations have names that begin with `prefix`."""

    prefix: str
    count: int


def draft(fields: Mapping[str, Any], now_ms: int) -> Draft:
    """The annotation that `fields` ask for; it starts now unless they say otherwise. Raises ServiceError (422)."""
    start_time = fields["start_time"]
    if start_time is None:
        if fields["end_time"] is not None:
            raise invalid_field(
                "json", "start_time", "Must be sent together with end_time.", hint="Send start_time as well."
            )
        start_time = now_ms
    asked = Draft(**{**fields, "start_time": start_time})
    _check_times(asked, [name for name, value in fields.items() if value is not None], now_ms)
    return asked


def revised(stored: Annotation, changes: Mapping[str, Any], now_ms: int) -> Annotation:
    """What `stored` becomes when the fields in `changes` are set. Raises ServiceError (422)."""
    annotation = replace(stored, **changes, updated_at=now_ms)
    _check_times(annotation, changes, now_ms)
    return annotation


def _check_times(annotation: Draft, sent: Collection[str], now_ms: int) -> None:
    """Raise ServiceError (422), naming a field that was sent, unless the times can stand together and be kept."""
    start_time, end_time = annotation.start_time, annotation.end_time
    if end_time is not None and end_time < start_time:
        if "end_time" in sent:
            raise invalid_field(
                "json",
                "end_time",
                "Must not be before start_time.",
                hint=f"Send an end_time that is not before {format_ms(start_time)}.",
            )
        raise invalid_field(
            "json",
            "start_time",
            "Must not be after end_time.",
            hint=f"Send a start_time that is not after {format_ms(end_time)}, or a later end_time with it.",
        )
    oldest = oldest_kept(now_ms)
    if last_moment(annotation) < oldest:
        raise invalid_field(
            "json",
            "end_time" if "end_time" in sent else "start_time",
            f"The annotation would be older than the {RETENTION_MS // DAY_MS} days that annotations are kept.",
            hint=f"The oldest time allowed is {format_ms(oldest)}.",
        )


def last_moment(annotation: Draft) -> int:
    """The moment from which the retention counts: the end, or the start where there is no end."""
    return annotation.start_time if annotation.end_time is None else annotation.end_time


def oldest_kept(now_ms: int) -> int:
    """The earliest last moment that an annotation which is still kept may have."""
    return now_ms - RETENTION_MS


def version(annotation: Annotation) -> str:
    """A text that changes whenever anything of the annotation does; the ETag, without its quotes."""
    return hashlib.sha256(repr(astuple(annotation)).encode()).hexdigest()[:32]


def check_version(annotation: Annotation, allowed: Container[str] | None) -> None:
    """Raise ServiceError (412) unless the annotation's version is among `allowed`; None allows every version."""
    if allowed is not None and version(annotation) not in allowed:
        raise ServiceError(
            "precondition_failed",
            f"If-Match does not name the current version of annotation {annotation.id}.",
            hint="Fetch the annotation again and send the ETag that comes with it.",
        )


def check_editable(annotation: Annotation) -> None:
    """Raise ServiceError (409) for an annotation that the service keeps itself."""
    if annotation.by_service:
        raise ServiceError(
            "conflict",
            f"Annotation {annotation.id} is kept by the service: it shows an incident.",
            hint="It ends by itself when the job reports again. Pause the job to silence it.",
        )


def prefix_of(name: str) -> str:
    """The part of a name up to and including the first slash, the whole name when there is none."""
    head, slash, _ = name.partition("/")
    return head + slash


def count_prefixes(name_counts: Iterable[tuple[str, int]]) -> list[PrefixCount]:
    """Names with how often each is there, counted together by their prefixes; sorted by prefix."""
    counts: dict[str, int] = {}
    for name, count in name_counts:
        prefix = prefix_of(name)
        counts[prefix] = counts.get(prefix, 0) + count
    return [PrefixCount(prefix, counts[prefix]) for prefix in sorted(counts)]
