"""Annotations as JSON."""

from functools import partial
from typing import Any

import marshmallow as ma

from obs.annotations.rules import is_web_url
from obs.api import ChangesSchema, PageSchema, Schema, Text, Time, about, list_of

_KEY = about("Sent again when a call is repeated, so that it counts once.", "build-8121")
_name = partial(Text, 1, 200, metadata=about("A slash-separated label.", "deploy/web"))
_title = partial(Text, 1, 500, metadata=about("The text on the marker.", "Web 2.14.0 is out"))
_key = partial(Text, 1, 200, allow_none=True, metadata=_KEY)
_URL = about("Where to read more; http or https.", "https://ci.example.com/builds/42")
_START = about("Start of the range: ISO 8601, or relative to now such as -24h.", "-24h")
_END = about("End of the range: ISO 8601, relative to now, or now.", "now")


class AnnotationChangesSchema(ChangesSchema):
    """The fields to change; the others stay as they are. null removes an optional one."""

    name: ma.fields.String = _name()
    title = _title()
    start_time = Time(metadata=about("When it happened or started."))
    end_time = Time(allow_none=True, metadata=about("When it ended; null for a point.", None))
    description = Text(0, 4_000, allow_none=True, metadata=about("A longer text.", None))
    url = Text(1, 2_000, allow_none=True, metadata=_URL)

    @ma.validates("url")
    def _check_url(self, url: str | None, **_: Any) -> None:
        if url is not None and not is_web_url(url):
            raise ma.ValidationError("Not an http or https URL such as https://ci.example.com/builds/42.")


class AnnotationRequestSchema(AnnotationChangesSchema):
    """The fields of a new annotation; null is the same as not sent."""

    name = _name(required=True)
    title = _title(required=True)
    start_time = Time(allow_none=True, metadata=about("Default: the time of the request. An end_time needs it.", None))
    idempotency_key = _key()


class AnnotationSchema(AnnotationChangesSchema):
    """An annotation. With an end_time it is a band, without one a point."""

    id = ma.fields.Int(metadata=about("Assigned by the service and never reused.", 42))
    name = ma.fields.Str(metadata={"example": "deploy/web"})  # that of an incident may be longer than 200 characters
    idempotency_key = _key()
    created_at = Time(metadata=about("When it was created."))
    updated_at = Time(metadata=about("When it was last changed."))
    by_service = ma.fields.Bool(metadata=about("Whether it shows an incident and cannot be changed."))


class AnnotationQuerySchema(PageSchema):
    start = ma.fields.Str(load_default=None, metadata=_START)
    end = ma.fields.Str(load_default=None, metadata=_END)
    name_prefix = Text(0, 200, load_default="", metadata=about("Text that the name starts with; case-sensitive."))
    q = Text(0, 500, load_default="", metadata=about("Text that the title contains; case-insensitive."))


AnnotationListSchema = list_of("annotations", AnnotationSchema, paged=True)


class AnnotationPrefixSchema(Schema):
    prefix = ma.fields.Str(metadata=about("The name up to its first slash, or the whole name.", "deploy/"))
    count = ma.fields.Int(metadata={"example": 12})
