"""Annotations as the API of Grafana has them, for programs that mark deploys there."""

import json
import re
from html import unescape
from typing import Any

import marshmallow as ma

from obs.annotations import service
from obs.api import Blueprint, Schema, Text, WholeNumber, about
from obs.errors import ServiceError, invalid_field
from obs.tenancy.auth import caller, operation
from obs.times import MAX_MS

blp = Blueprint("grafana", __name__, url_prefix="/api/annotations", description="Annotations as in Grafana.")

_TAG = re.compile(r"</?[a-z!][^<>]*>", re.IGNORECASE)
_LONGEST_TITLE, _LONGEST_DESCRIPTION = 500, 4_000
_ONE, _WRITE = "/<int:annotation_id>", "annotations:write"
_TIME: dict[str, Any] = {"allow_none": True, "validate": ma.validate.Range(0, MAX_MS)}


class GrafanaAnnotationSchema(Schema):
    """An annotation of Grafana. Other fields, such as `dashboardUID` and `panelId`, are accepted and not used."""

    class Meta(Schema.Meta):
        unknown = ma.EXCLUDE

    text = Text(0, None, allow_none=True, metadata=about("The first line is the title.", "Web 2.14.0 is out"))
    tags = ma.fields.List(
        Text(0, 190), allow_none=True, metadata=about("The first one with a slash is the name.", ["deploy/web"])
    )
    time = WholeNumber(**_TIME, metadata=about("Milliseconds since 1970; default: now.", 1507037197339))
    timeEnd = WholeNumber(**_TIME, metadata=about("The end of a band.", 1507180805056))  # noqa: N815


@blp.errorhandler(ServiceError)
def _refuse(error: ServiceError) -> tuple[dict[str, Any], int, dict[str, str]]:
    """The error with the status that Grafana has, 400 for every invalid field, and with its names of the times."""
    if error.status == 422:
        error = ServiceError("bad_request", error.message, hint=error.hint, errors=error.errors)
    body = json.dumps(error.body()).replace("start_time", "time").replace("end_time", "timeEnd")
    return json.loads(body), error.status, error.headers


class GrafanaAnswerSchema(Schema):
    message = ma.fields.Str(metadata={"example": "Annotation added"})
    id = ma.fields.Int()


@operation(blp, "POST", _WRITE, GrafanaAnswerSchema, body=GrafanaAnnotationSchema)
def add_grafana_annotation(sent: dict[str, Any]) -> dict[str, Any]:
    """Create an annotation as in Grafana"""
    start = sent.get("time") or caller().now_ms
    start, end = sorted((start, sent.get("timeEnd") or start))
    fields = {"name": "grafana", **_fields(sent), "start_time": start, **({"end_time": end} if end > start else {})}
    if "title" not in fields:
        raise invalid_field("json", "text", "Must not be empty.")
    return {"message": "Annotation added", "id": service.create(caller(), fields)[0].id}


@operation(blp, f"PATCH {_ONE}", _WRITE, GrafanaAnswerSchema, body=GrafanaAnnotationSchema, errors=(404, 409))
@blp.doc(requestBody={"required": False})
def patch_grafana_annotation(sent: dict[str, Any], annotation_id: int) -> dict[str, str]:
    """Change an annotation as in Grafana, such as its end"""
    times = {"start_time": sent.get("time"), "end_time": sent.get("timeEnd")}
    service.update(caller(), annotation_id, _fields(sent) | {name: time for name, time in times.items() if time})
    return {"message": "Annotation patched"}


def _fields(sent: dict[str, Any]) -> dict[str, Any]:
    """What the tags and the text, without its HTML, say: the name, the title and the description."""
    fields: dict[str, Any] = {}
    if tags := [tag.strip() for tag in sent.get("tags") or () if tag.strip()]:
        fields["name"] = next((tag for tag in tags if re.fullmatch(r"[^\s/:]+/\S+", tag)), f"grafana/{tags[0]}")
    title, _, rest = unescape(_TAG.sub("", sent.get("text") or "")).strip().partition("\n")
    if title:
        rest = f"{title[_LONGEST_TITLE:]}\n{rest}".strip()[:_LONGEST_DESCRIPTION]
        fields |= {"title": title[:_LONGEST_TITLE].strip(), "description": rest or None}
    return fields
