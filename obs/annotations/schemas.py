"""Annotations as JSON."""

from typing import Any
from urllib.parse import urlsplit

import marshmallow as ma

from obs.api import Schema, Text, Time

LONGEST_NAME = 200
LONGEST_TITLE = 500
LONGEST_DESCRIPTION = 4_000
LONGEST_URL = 2_000
LONGEST_IDEMPOTENCY_KEY = 200
DEFAULT_LIMIT = 100
MOST_IN_A_PAGE = 1_000

EXAMPLE = {
    "id": 42,
    "name": "deploy/web",
    "title": "Web 2.14.0 is out",
    "start_time": "2026-06-21T10:00:00.000Z",
    "end_time": None,
    "description": None,
    "url": "https://ci.example.com/builds/8121",
    "idempotency_key": "build-8121",
    "created_at": "2026-06-21T10:00:00.412Z",
    "updated_at": "2026-06-21T10:00:00.412Z",
    "by_service": False,
}
CREATE_EXAMPLE = {name: EXAMPLE[name] for name in ("name", "title", "url", "idempotency_key")}
UPDATE_EXAMPLE = {"title": "Checkout was down", "end_time": "2026-06-21T10:42:00Z"}
UPDATED_EXAMPLE = {
    **EXAMPLE,
    "name": "incident/checkout",
    "title": "Checkout was down",
    "end_time": "2026-06-21T10:42:00.000Z",
    "updated_at": "2026-06-21T10:42:07.031Z",
}
LIST_EXAMPLE = {"annotations": [EXAMPLE], "next_cursor": None}
PREFIXES_EXAMPLE = {"prefixes": [{"prefix": "deploy/", "count": 12}, {"prefix": "incident/", "count": 1}]}

_ABOUT = {
    "name": "A slash-separated label to filter by, such as deploy/web.",
    "title": "The text shown on the marker.",
    "start_time": "When it happened, or began.",
    "end_time": "When it ended. With it the annotation is a band, without it a point.",
    "description": "A longer text.",
    "url": "Where to read more; http or https.",
    "idempotency_key": "Any text that is the same when a client repeats a call, so that it counts once.",
}


class Url(Text):
    """An http or https URL."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(1, LONGEST_URL, **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        text = super()._deserialize(value, attr, data, **kwargs)
        if not _is_web_url(text):
            raise ma.ValidationError("Not an http or https URL such as https://ci.example.com/builds/42.")
        return text


def _is_web_url(text: str) -> bool:
    # urlsplit drops some white space and control characters; a browser that follows the link may not agree.
    if any(character.isspace() or not character.isprintable() for character in text):
        return False
    try:
        parts = urlsplit(text)
        _ = parts.port  # is read, and refused, only when asked for
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


class AnnotationSchema(Schema):
    """An annotation."""

    id = ma.fields.Int(metadata={"description": "Given by the service and never given again."})
    name = ma.fields.Str(metadata={"description": _ABOUT["name"]})
    title = ma.fields.Str(metadata={"description": _ABOUT["title"]})
    start_time = Time(metadata={"description": _ABOUT["start_time"]})
    end_time = Time(allow_none=True, metadata={"description": _ABOUT["end_time"]})
    description = ma.fields.Str(allow_none=True, metadata={"description": _ABOUT["description"]})
    url = ma.fields.Str(allow_none=True, metadata={"description": _ABOUT["url"]})
    idempotency_key = ma.fields.Str(allow_none=True, metadata={"description": _ABOUT["idempotency_key"]})
    created_at = Time(metadata={"description": "When it was posted."})
    updated_at = Time(metadata={"description": "When it was last changed."})
    by_service = ma.fields.Bool(metadata={"description": "Whether it shows an incident and cannot be changed."})


class AnnotationRequestSchema(Schema):
    """What a new annotation is made from; null is the same as not sent."""

    name = Text(1, LONGEST_NAME, required=True, metadata={"description": _ABOUT["name"]})
    title = Text(1, LONGEST_TITLE, required=True, metadata={"description": _ABOUT["title"]})
    start_time = Time(
        load_default=None,
        allow_none=True,
        metadata={"description": f"{_ABOUT['start_time']} The moment of the request when not sent."},
    )
    end_time = Time(
        load_default=None,
        allow_none=True,
        metadata={"description": f"{_ABOUT['end_time']} It needs start_time beside it."},
    )
    description = Text(
        0, LONGEST_DESCRIPTION, load_default=None, allow_none=True, metadata={"description": _ABOUT["description"]}
    )
    url = Url(load_default=None, allow_none=True, metadata={"description": _ABOUT["url"]})
    idempotency_key = Text(
        1,
        LONGEST_IDEMPOTENCY_KEY,
        load_default=None,
        allow_none=True,
        metadata={"description": _ABOUT["idempotency_key"]},
    )


class AnnotationChangesSchema(Schema):
    """The fields to change; the others stay as they are. null takes end_time, description or url away."""

    name = Text(1, LONGEST_NAME, metadata={"description": _ABOUT["name"]})
    title = Text(1, LONGEST_TITLE, metadata={"description": _ABOUT["title"]})
    start_time = Time(metadata={"description": _ABOUT["start_time"]})
    end_time = Time(allow_none=True, metadata={"description": f"{_ABOUT['end_time']} null opens it again."})
    description = Text(0, LONGEST_DESCRIPTION, allow_none=True, metadata={"description": _ABOUT["description"]})
    url = Url(allow_none=True, metadata={"description": _ABOUT["url"]})

    @ma.validates_schema
    def _changes_something(self, data: dict[str, Any], **_: Any) -> None:
        if not data:
            raise ma.ValidationError(f"Send at least one of {', '.join(self.fields)}.")


class AnnotationQuerySchema(Schema):
    """Which annotations to list."""

    start = ma.fields.Str(
        load_default=None,
        metadata={"description": "List from here on; ISO 8601, or relative to now such as -24h.", "example": "-24h"},
    )
    end = ma.fields.Str(
        load_default=None,
        metadata={"description": "List up to here; ISO 8601, or relative to now, or now.", "example": "now"},
    )
    name_prefix = Text(
        0,
        LONGEST_NAME,
        load_default="",
        metadata={"description": "What the name begins with, to the letter.", "example": "deploy/"},
    )
    q = Text(
        0,
        LONGEST_TITLE,
        load_default="",
        metadata={"description": "Text in the title, in upper or lower case.", "example": "checkout"},
    )
    limit = ma.fields.Int(
        load_default=DEFAULT_LIMIT,
        validate=ma.validate.Range(1, MOST_IN_A_PAGE),
        metadata={"description": "How many to list at most."},
    )
    cursor = ma.fields.Str(load_default=None, metadata={"description": "The next_cursor of the page before."})


class AnnotationListSchema(Schema):
    """A page of annotations, newest start first."""

    annotations = ma.fields.List(ma.fields.Nested(AnnotationSchema))
    next_cursor = ma.fields.Str(
        allow_none=True, metadata={"description": "Send it as cursor to get the next page; null on the last one."}
    )


class AnnotationPrefixSchema(Schema):
    """A prefix and how many annotations have it."""

    prefix = ma.fields.Str(metadata={"description": "The name up to its first slash, or all of it."})
    count = ma.fields.Int()


class AnnotationPrefixListSchema(Schema):
    """The prefixes in use."""

    prefixes = ma.fields.List(ma.fields.Nested(AnnotationPrefixSchema))
