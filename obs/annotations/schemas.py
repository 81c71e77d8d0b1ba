"""Annotations as JSON."""

from functools import partial
from typing import Any

import marshmallow as ma

from obs.annotations.rules import is_web_url
from obs.api import ChangesSchema, PageSchema, Schema, Text, Time, list_of

_name = partial(Text, 1, 200, metadata={"description": "A slash-separated label.", "example": "deploy/web"})
_title = partial(Text, 1, 500, metadata={"description": "The text on the marker.", "example": "Web 2.14.0 is out"})
_key = partial(
    Text,
    1,
    200,
    allow_none=True,
    metadata={"description": "Sent again when a call is repeated, so that it counts once.", "example": "build-8121"},
)


class AnnotationChangesSchema(ChangesSchema):
    """The fields to change; the others stay as they are. null removes an optional one."""

    name: ma.fields.String = _name()
    title = _title()
    start_time = Time(metadata={"description": "When it happened or started."})
    end_time = Time(allow_none=True, metadata={"description": "When it ended; null for a point.", "example": None})
    description = Text(0, 4_000, allow_none=True, metadata={"description": "A longer text.", "example": None})
    url = Text(
        1,
        2_000,
        allow_none=True,
        metadata={"description": "Where to read more; http or https.", "example": "https://ci.example.com/builds/42"},
    )

    @ma.validates("url")
    def _check_url(self, url: str | None, **_: Any) -> None:
        if url is not None and not is_web_url(url):
            raise ma.ValidationError("Not an http or https URL such as https://ci.example.com/builds/42.")


class AnnotationRequestSchema(AnnotationChangesSchema):
    """The fields of a new annotation; null is the same as not sent."""

    name = _name(required=True)
    title = _title(required=True)
    start_time = Time(
        allow_none=True,
        metadata={"description": "Default: the time of the request. An end_time needs it.", "example": None},
    )
    idempotency_key = _key()


class AnnotationSchema(AnnotationChangesSchema):
    """An annotation. With an end_time it is a band, without one a point."""

    id = ma.fields.Int(metadata={"description": "Assigned by the service and never reused.", "example": 42})
    name = ma.fields.Str(metadata={"example": "deploy/web"})  # that of an incident may be longer than 200 characters
    idempotency_key = _key()
    created_at = Time(metadata={"description": "When it was created."})
    updated_at = Time(metadata={"description": "When it was last changed."})
    by_service = ma.fields.Bool(metadata={"description": "Whether it shows an incident and cannot be changed."})


def _range_end(description: str, example: str) -> ma.fields.Str:
    return ma.fields.Str(load_default=None, metadata={"description": description, "example": example})


class AnnotationQuerySchema(PageSchema):
    start = _range_end("Start of the range: ISO 8601, or relative to now such as -24h.", "-24h")
    end = _range_end("End of the range: ISO 8601, relative to now, or now.", "now")
    name_prefix = Text(
        0, 200, load_default="", metadata={"description": "Text that the name starts with; case-sensitive."}
    )
    q = Text(0, 500, load_default="", metadata={"description": "Text that the title contains; case-insensitive."})


AnnotationListSchema = list_of("annotations", AnnotationSchema, paged=True)


class AnnotationPrefixSchema(Schema):
    prefix = ma.fields.Str(
        metadata={"description": "The name up to its first slash, or the whole name.", "example": "deploy/"}
    )
    count = ma.fields.Int(metadata={"example": 12})
