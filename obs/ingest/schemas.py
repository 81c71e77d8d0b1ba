"""Heartbeats in the body form, for the OpenAPI document."""

from typing import Any

import marshmallow as ma

from obs.api import Schema, Time
from obs.heartbeat.names import JOB_NAME
from obs.heartbeat.runs import KINDS, STATUSES
from obs.ingest.reading import LONGEST_RUN_ID, MOST_DURATION_MS, MOST_EXIT_CODE, MOST_MESSAGE_BYTES, OUTCOMES

_MESSAGE_HELP = "At most 10 KB: 10,240 bytes of UTF-8."


class RecordedSchema(Schema):
    """The answer to a heartbeat: it is on disk."""

    job = ma.fields.Str(metadata={"example": "nightly-backup"})
    event = ma.fields.Str(validate=ma.validate.OneOf(KINDS))
    run_id = ma.fields.Int(allow_none=True, metadata={"description": "Number of the run it belongs to.", "example": 42})
    run_status = ma.fields.Str(allow_none=True, validate=ma.validate.OneOf(STATUSES))
    time = Time()


class JobName(ma.fields.Str):
    """A job's name, as the document describes it; `reading.name_problem` checks it."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(metadata={**JOB_NAME, "description": "The job.", "example": "nightly-backup"}, **kwargs)


class HeartbeatSchema(Schema):
    """A heartbeat in the body form; null is the same as not sent. ``end`` also takes status, exit_code, duration_ms."""

    name = JobName(required=True)
    run_id = ma.fields.Str(
        allow_none=True,
        validate=ma.validate.Length(1, LONGEST_RUN_ID),
        metadata={"description": "The client's own id of the run.", "example": "2026-06-21-a"},
    )
    message = ma.fields.Str(
        allow_none=True,
        validate=ma.validate.Length(max=MOST_MESSAGE_BYTES),
        metadata={"description": _MESSAGE_HELP, "example": "halfway"},
    )
    time = Time(allow_none=True, metadata={"description": "When it happened, if not now."})


class LogSchema(HeartbeatSchema):
    """A message in the body form."""

    message = ma.fields.Str(
        required=True,
        validate=ma.validate.Length(max=MOST_MESSAGE_BYTES),
        metadata={"description": _MESSAGE_HELP, "example": "halfway"},
    )


class EndSchema(HeartbeatSchema):
    """The end of a run in the body form."""

    status = ma.fields.Str(
        allow_none=True,
        validate=ma.validate.OneOf(OUTCOMES),
        metadata={"description": "How the run went.", "example": "success"},
    )
    exit_code = ma.fields.Int(
        allow_none=True,
        validate=ma.validate.Range(0, MOST_EXIT_CODE),
        metadata={"description": "Without a status, other than 0 is a failure.", "example": 0},
    )
    duration_ms = ma.fields.Int(
        allow_none=True,
        validate=ma.validate.Range(0, MOST_DURATION_MS),
        metadata={"description": "Milliseconds, up to 31 days.", "example": 61500},
    )
