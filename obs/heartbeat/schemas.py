"""Jobs, runs and timelines as JSON."""

from typing import Any

import marshmallow as ma

from obs.api import Schema, Text, Time, WholeNumber
from obs.heartbeat.names import JOB_NAME
from obs.heartbeat.runs import KINDS, STATUSES

STATES = ("failed", "lost", "overdue", "overrunning", "late", "running", "ok", "new", "paused")
_ATTRIBUTION_HELP = {"host": "X-Platform-Host", "service": "X-Platform-Service", "project": "X-Platform-Project"}


def _said(header: str) -> dict[str, Any]:
    return {"description": f"The latest {_ATTRIBUTION_HELP[header]}; null when none was sent."}


class LearnedSchema(Schema):
    """What was learned of a job, in words."""

    state = ma.fields.Str(metadata={"description": "learning, regular or irregular.", "example": "regular"})
    summary = ma.fields.Str(metadata={"example": "Weekdays at 02:00, Europe/Berlin"})
    evidence = ma.fields.Str(metadata={"example": "43 of 44 runs fit"})
    expected = ma.fields.Str(metadata={"example": "expected Mon 02:00, overdue at 02:07"})
    confidence = ma.fields.Float(metadata={"description": "0 to 1", "example": 0.97})
    cron = ma.fields.Str(allow_none=True, metadata={"example": "0 2 * * 1-5"})
    zone = ma.fields.Str(metadata={"example": "Europe/Berlin"})


class PinSchema(Schema):
    """A schedule that a person has said: a cron line, an interval, or never overdue."""

    cron = Text(1, 200, metadata={"example": "0 2 * * 1-5"})
    timezone = Text(1, 64, metadata={"description": "Of the cron line; UTC when left out.", "example": "Europe/Berlin"})
    interval_seconds = WholeNumber(validate=ma.validate.Range(1, 366 * 86400))
    grace_seconds = WholeNumber(
        validate=ma.validate.Range(0, 366 * 86400),
        metadata={"description": "How late a heartbeat may be; 60 when left out.", "example": 300},
    )
    never = ma.fields.Bool(truthy={True}, falsy={False}, metadata={"description": "Silence never means anything."})


class JobChangesSchema(Schema):
    """What may be changed of a job."""

    name = ma.fields.Str(
        metadata={**JOB_NAME, "description": "A new name; the history is kept.", "example": "nightly-backup"}
    )
    pin = ma.fields.Nested(PinSchema, allow_none=True, metadata={"description": "Null gives it back to the learner."})
    paused = ma.fields.Bool(truthy={True}, falsy={False}, metadata={"description": "Pause it, or resume it."})
    paused_until = Time(metadata={"description": "Pause it until then."})
    failure_tolerance = WholeNumber(validate=ma.validate.Range(1, 1000))


class WindowSchema(Schema):
    """A maintenance window: nothing becomes overdue in it, and no incident begins."""

    id = ma.fields.Int(dump_only=True)
    title = Text(1, 500, load_default="Maintenance", metadata={"example": "New disks"})
    start_time = Time(required=True)
    end_time = Time(required=True)


class WindowListSchema(Schema):
    """Maintenance windows, the latest first."""

    maintenance_windows = ma.fields.List(ma.fields.Nested(WindowSchema))


class JobSchema(Schema):
    """A job. ``status`` is the loudest state that holds now."""

    name = ma.fields.Str(metadata={"example": "nightly-backup"})
    status = ma.fields.Str(validate=ma.validate.OneOf(STATES), metadata={"example": "ok"})
    last_outcome = ma.fields.Str(allow_none=True, validate=ma.validate.OneOf(STATUSES[1:]))
    overdue = ma.fields.Bool()
    overrunning = ma.fields.Bool()
    last_heartbeat_at = Time()
    expected_interval_ms = ma.fields.Int(allow_none=True, metadata={"example": 86400000})
    next_expected = Time(allow_none=True)
    overdue_from = Time(allow_none=True, metadata={"description": "When silence will mean overdue."})
    avg_duration_ms = ma.fields.Float(allow_none=True, metadata={"example": 61500.0})
    run_count = ma.fields.Int(metadata={"example": 44})
    host = ma.fields.Str(allow_none=True, metadata=_said("host"))
    service = ma.fields.Str(allow_none=True, metadata=_said("service"))
    project = ma.fields.Str(allow_none=True, metadata=_said("project"))
    created_at = Time()
    learned = ma.fields.Nested(LearnedSchema, allow_none=True)
    pin = ma.fields.Nested(PinSchema, allow_none=True, metadata={"description": "What a person has said instead."})
    paused = ma.fields.Bool()
    paused_until = Time(allow_none=True, metadata={"description": "Null: until resumed."})
    failure_tolerance = ma.fields.Int(
        metadata={"description": "Failures in a row that make an incident.", "example": 1}
    )
    failures_in_row = ma.fields.Int(metadata={"example": 0})


class JobListSchema(Schema):
    """Jobs by name."""

    jobs = ma.fields.List(ma.fields.Nested(JobSchema))
    next_cursor = ma.fields.Str(allow_none=True)


class RunSchema(Schema):
    """A run."""

    id = ma.fields.Int(metadata={"example": 42})
    run_id = ma.fields.Str(allow_none=True, metadata={"description": "The client's own id."})
    job = ma.fields.Str(metadata={"example": "nightly-backup"})
    status = ma.fields.Str(validate=ma.validate.OneOf(STATUSES), metadata={"example": "success"})
    started_at = Time()
    ended_at = Time(allow_none=True)
    duration_ms = ma.fields.Int(allow_none=True, metadata={"example": 61500})
    exit_code = ma.fields.Int(allow_none=True, metadata={"example": 0})
    late_ms = ma.fields.Int(allow_none=True, metadata={"description": "How long after the expected time it came."})
    host = ma.fields.Str(allow_none=True)
    service = ma.fields.Str(allow_none=True)
    project = ma.fields.Str(allow_none=True)


class RunListSchema(Schema):
    """Runs, newest start first."""

    runs = ma.fields.List(ma.fields.Nested(RunSchema))
    next_cursor = ma.fields.Str(allow_none=True)


class EventSchema(Schema):
    """A heartbeat on a timeline."""

    kind = ma.fields.Str(validate=ma.validate.OneOf(KINDS))
    time = Time()
    received_at = Time()
    message = ma.fields.Str(allow_none=True)


class RunWithTimelineSchema(RunSchema):
    """A run with its heartbeats in the order of their times."""

    timeline = ma.fields.List(ma.fields.Nested(EventSchema))


class JobPageSchema(Schema):
    """Which jobs to list."""

    q = Text(1, 200, load_default=None, metadata={"description": "Text that the name holds."})
    limit = ma.fields.Int(load_default=100, validate=ma.validate.Range(1, 1000))
    cursor = ma.fields.Str(load_default=None, metadata={"description": "next_cursor of the page before."})


class RunPageSchema(Schema):
    """Which runs to list."""

    limit = ma.fields.Int(load_default=100, validate=ma.validate.Range(1, 1000))
    cursor = ma.fields.Str(load_default=None, metadata={"description": "next_cursor of the page before."})
