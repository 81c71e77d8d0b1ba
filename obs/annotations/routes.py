"""Annotations over HTTP."""

from functools import partial
from typing import Any

from flask import request, url_for
from werkzeug.datastructures import ETags
from werkzeug.http import quote_etag

from obs.annotations import rules, schemas, service, store
from obs.annotations.schemas import AnnotationChangesSchema, AnnotationRequestSchema, AnnotationSchema
from obs.api import Blueprint, list_of, page_of, time_of_query
from obs.errors import invalid_field
from obs.tenancy.auth import caller, operation

_ABOUT = "Points and bands that are drawn on every chart, kept 90 days."
blp = Blueprint("annotations", __name__, url_prefix="/api/v1/annotations", description=_ABOUT)
_ONE, _WRITE = "/<int:annotation_id>", "annotations:write"
_TEXT = {"schema": {"type": "string"}}
_ETAG = {"ETag": {"description": "The version of the annotation.", **_TEXT}}
_NEW = {**_ETAG, "Location": {"description": "The path of the annotation.", **_TEXT}}
_IF_MATCH = {"in": "header", "name": "If-Match", "description": "Change it only if this is its current ETag.", **_TEXT}


@operation(blp, "GET", "annotations:read", schemas.AnnotationListSchema, query=schemas.AnnotationQuerySchema)
def list_annotations(query: dict[str, Any]) -> dict[str, Any]:
    """List annotations

    The newest start comes first. A band is listed when any part of it lies between start and end.
    """
    now_ms = caller().now_ms
    query |= {name: time_of_query(name, query[name], now_ms) for name in ("start", "end")}
    if None not in (query["start"], query["end"]) and query["end"] < query["start"]:
        raise invalid_field("query", "end", "Must not be before start.", hint="Send a later end or an earlier start.")
    return caller().fetch(lambda db: page_of("annotations", query, partial(store.page, db, now_ms), "start_time", "id"))


@operation(blp, "POST", _WRITE, AnnotationSchema, status=201, headers=_NEW, body=AnnotationRequestSchema)
@blp.alt_response(200, schema=AnnotationSchema, headers=_NEW, description="What the key has created before.")
def create_annotation(fields: dict[str, Any]) -> tuple[rules.Annotation, int, dict[str, str]]:
    """Create an annotation

    A name and a title are enough: a point at the time of the request.
    """
    created, is_new = service.create(caller(), fields)
    annotation, headers = _with_etag(created)
    headers["Location"] = url_for("annotations.get_annotation", annotation_id=annotation.id)
    return annotation, 201 if is_new else 200, headers


@operation(blp, "GET /prefixes", "annotations:read", list_of("prefixes", schemas.AnnotationPrefixSchema))
def list_prefixes() -> dict[str, Any]:
    """List the prefixes of names

    A prefix is a name up to and including its first slash, or the whole name without one.
    """
    counts = caller().fetch(lambda db: store.prefixes(db, caller().now_ms))
    return {"prefixes": [{"prefix": prefix, "count": count} for prefix, count in counts]}


@operation(blp, f"GET {_ONE}", "annotations:read", AnnotationSchema, headers=_ETAG, errors=(404,))
def get_annotation(annotation_id: int) -> tuple[rules.Annotation, dict[str, str]]:
    """Get an annotation"""
    return _with_etag(service.get(caller(), annotation_id))


@operation(
    blp, f"PUT {_ONE}", _WRITE, AnnotationSchema, headers=_ETAG, body=AnnotationChangesSchema, errors=(404, 409, 412)
)
@blp.doc(parameters=[_IF_MATCH])
def update_annotation(changes: dict[str, Any], annotation_id: int) -> tuple[rules.Annotation, dict[str, str]]:
    """Change the fields of an annotation that are sent"""
    return _with_etag(service.update(caller(), annotation_id, changes, _if_match()))


@operation(blp, f"DELETE {_ONE}", _WRITE, status=204, errors=(404, 409, 412))
@blp.doc(parameters=[_IF_MATCH])
def delete_annotation(annotation_id: int) -> None:
    """Delete an annotation"""
    service.delete(caller(), annotation_id, _if_match())


def _if_match() -> ETags | None:
    return request.if_match if "If-Match" in request.headers else None


def _with_etag(annotation: rules.Annotation) -> tuple[rules.Annotation, dict[str, str]]:
    return annotation, {"ETag": quote_etag(rules.version(annotation))}
