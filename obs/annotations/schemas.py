"""Annotations as JSON."""

from typing import Any

import marshmallow as ma

from obs.annotations.rules import is_web_url
from obs.api import Schema, Text, Time

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
    "start_time": "When it happened or started.",
    "end_time": "When it ended. With an end the annotation is a band, without one a point.",
    "description": "A longer text.",
    "url": "Where to read more; http or https.",
    "idempotency_key": "Any text that a client sends again when it repeats a call, so that the call counts once.",
}
_LONGEST = {"name": 200, "title": 500, "description": 4_000, "url": 2_000, "idempotency_key": 200}


def _text(name: str, shortest: int = 1, **kwargs: Any) -> Text:
    return Text(shortest, _LONGEST[name], metadata={"description": _ABOUT[name]}, **kwargs)


def _time(name: str, more: str = "", **kwargs: Any) -> Time:
    return Time(metadata={"description": f"{_ABOUT[name]}{more}"}, **kwargs)


class AnnotationSchema(Schema):
    id = ma.fields.Int(metadata={"description": "Assigned by the service and never reused."})
    name = ma.fields.Str(metadata={"description": _ABOUT["name"]})
    title = ma.fields.Str(metadata={"description": _ABOUT["title"]})
    start_time = _time("start_time")
    end_time = _time("end_time", allow_none=True)
    description = ma.fields.Str(allow_none=True, metadata={"description": _ABOUT["description"]})
    url = ma.fields.Str(allow_none=True, metadata={"description": _ABOUT["url"]})
    idempotency_key = ma.fields.Str(allow_none=True, metadata={"description": _ABOUT["idempotency_key"]})
    created_at = Time(metadata={"description": "When it was created."})
    updated_at = Time(metadata={"description": "When it was last changed."})
    by_service = ma.fields.Bool(metadata={"description": "Whether it shows an incident and cannot be changed."})


class _WithUrl(Schema):
    @ma.validates("url")
    def _check_url(self, url: str | None, **_: Any) -> None:
        if url is not None and not is_web_url(url):
            raise ma.ValidationError("Not an http or https URL such as https://ci.example.com/builds/42.")


class AnnotationRequestSchema(_WithUrl):
    """The fields of a new annotation; null is the same as not sent."""

    name = _text("name", required=True)
    title = _text("title", required=True)
    start_time = _time("start_time", " Default: the time of the request.", load_default=None, allow_none=True)
    end_time = _time("end_time", " Needs start_time as well.", load_default=None, allow_none=True)
    description = _text("description", 0, load_default=None, allow_none=True)
    url = _text("url", load_default=None, allow_none=True)
    idempotency_key = _text("idempotency_key", load_default=None, allow_none=True)


class AnnotationChangesSchema(_WithUrl):
    """The fields to change; the others stay as they are. null removes an optional one."""

    name = _text("name")
    title = _text("title")
    start_time = _time("start_time")
    end_time = _time("end_time", " null removes it.", allow_none=True)
    description = _text("description", 0, allow_none=True)
    url = _text("url", allow_none=True)

    @ma.validates_schema
    def _changes_something(self, data: dict[str, Any], **_: Any) -> None:
        if not data:
            raise ma.ValidationError(f"Send at least one of {', '.join(self.fields)}.")


def _range_end(description: str, example: str) -> ma.fields.Str:
    return ma.fields.Str(load_default=None, metadata={"description": description, "example": example})


def _filter(field: str, description: str, example: str) -> Text:
    return Text(0, _LONGEST[field], load_default="", metadata={"description": description, "example": example})


class AnnotationQuerySchema(Schema):
    start = _range_end("Start of the range: ISO 8601, or relative to now such as -24h.", "-24h")
    end = _range_end("End of the range: ISO 8601, relative to now, or now.", "now")
    name_prefix = _filter("name", "Text that the name starts with; case-sensitive.", "deploy/")
    q = _filter("title", "Text that the title contains; case-insensitive.", "checkout")
    limit = ma.fields.Int(
        load_default=DEFAULT_LIMIT,
        validate=ma.validate.Range(1, MOST_IN_A_PAGE),
        metadata={"description": "The most annotations to list."},
    )
    cursor = ma.fields.Str(load_default=None, metadata={"description": "next_cursor of the previous page."})


class AnnotationListSchema(Schema):
    annotations = ma.fields.List(ma.fields.Nested(AnnotationSchema))
    next_cursor = ma.fields.Str(
        allow_none=True, metadata={"description": "Send it as cursor to get the next page; null on the last page."}
    )


class AnnotationPrefixSchema(Schema):
    prefix = ma.fields.Str(metadata={"description": "The name up to its first slash, or the whole name without one."})
    count = ma.fields.Int()


class AnnotationPrefixListSchema(Schema):
    prefixes = ma.fields.List(ma.fields.Nested(AnnotationPrefixSchema))
