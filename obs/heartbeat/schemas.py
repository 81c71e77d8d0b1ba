"""Jobs, runs and maintenance windows as JSON, with the limits that the OpenAPI document shows."""

from collections.abc import Callable
from functools import partial
from typing import Any

import marshmallow as ma

from obs import api
from obs.api import ChangesSchema, Flag, PageSchema, Schema, Text, Time, WholeNumber, about, list_of, schema_of
from obs.heartbeat import pins
from obs.heartbeat.names import JOB_NAME, UUID_PATTERN, valid_name
from obs.heartbeat.runs import STATES, STATUSES
from obs.heartbeat.schedule.words import Description
from obs.heartbeat.store.jobs import Event, Job, Run
from obs.times import DAY_MS

_NAME = {**JOB_NAME, "example": "nightly-backup"}
_YEAR_DAYS, _LONGEST_DAYS = 366, 31
_TIMES = {"start_time", "end_time"}
_filter = partial(Text, 1, 200, load_default=None)
_TOLERANCE = ma.validate.Range(1, 1000, error="Must be from {min} to {max}.")
_UUID = ma.validate.Regexp(UUID_PATTERN, error="Not a UUID such as 6ba7b810-9dad-41d1-80b4-00c04fd430c8.")


def _text(check: Callable[[str], None], longest: int, description: str, example: str, **kwargs: Any) -> ma.fields.Str:
    limits = {"minLength": 1, "maxLength": longest}  # for the OpenAPI document: `check` has its own words for them
    return ma.fields.Str(validate=check, metadata={**limits, **about(description, example)}, **kwargs)


_cron = partial(_text, pins.check_expression, pins.MAX_CRON_LENGTH, post_load=pins.expanded)


def _seconds(name: str, least: int, days: int, description: str, example: int, **kwargs: Any) -> WholeNumber:
    error = f"The {name} must be {least} second{'' if least == 1 else 's'} to {days} days."
    limits = ma.validate.Range(least, days * 86_400, error=error)
    return WholeNumber(validate=limits, metadata=about(description, example), **kwargs)


class PinSchema(Schema):
    """A schedule that was set by hand: a cron expression, an interval, or never overdue."""

    cron = _cron("A cron expression.", "0 2 * * 1-5")
    timezone = _text(api.check_zone, pins.MAX_ZONE_LENGTH, "Its time zone; default UTC.", "Europe/Berlin")
    interval_seconds = _seconds("interval", 1, _YEAR_DAYS, "The longest time between two heartbeats.", 3600)
    grace_seconds = _seconds("grace period", 0, _YEAR_DAYS, "How late a heartbeat may be; default 60.", 300)
    never = Flag(metadata={"description": "true: the job is never overdue."})

    @ma.pre_dump
    def _from_pin(self, pin: pins.Pin, **_: Any) -> dict[str, Any]:
        return pins.to_dict(pin)


class JobFieldsSchema(Schema):
    pin = ma.fields.Nested(PinSchema, allow_none=True, metadata=about("null returns the job to the learned schedule."))
    paused = Flag(metadata={"description": "Pause the job, or resume it."})
    paused_until = Time(metadata={"description": "Pause the job until then."})
    failure_tolerance = WholeNumber(validate=_TOLERANCE, metadata=about("Failures in a row that open an incident.", 3))
    ping_uuid = ma.fields.Str(allow_none=True, validate=_UUID, metadata=about("Of the ping URL; null: a new one."))
    host, service, project = (
        Text(1, 200, allow_none=True, metadata=about(f"Until a heartbeat sends another X-Platform-{name.title()}."))
        for name in api.PLACE
    )

    @ma.post_load
    def _checked(self, fields: dict[str, Any], **_: Any) -> dict[str, Any]:
        if "name" in fields:
            fields["name"] = valid_name(fields["name"], "json", "name")
        if fields.get("pin") is not None:
            fields["pin"] = pins.from_dict(fields["pin"])
        if fields.get("paused") is False and "paused_until" in fields:
            raise ma.ValidationError("Cannot be combined with paused: false.", "paused_until")
        return fields


class JobChangesSchema(JobFieldsSchema, ChangesSchema):
    name = ma.fields.Str(metadata={**_NAME, "description": "A new name; the history stays."})
    schedule_changed_at = Time(allow_none=True, metadata=about("Learn the schedule from the heartbeats since then."))


class NewJobSchema(JobFieldsSchema):
    name = ma.fields.Str(required=True, metadata=_NAME)


class MaintenanceWindowSchema(api.JobFilterSchema):
    """A maintenance window: during it, no job that matches becomes overdue, and no incident of such a job is opened.

    Send start_time and end_time, or cron and duration_seconds for one that recurs. In responses, the times of one that
    recurs are those of the current or next occurrence.
    """

    id = ma.fields.Int(dump_only=True)
    title = Text(1, 500, load_default="Maintenance", metadata={"example": "New disks"})
    start_time = Time()
    end_time = Time(metadata={"description": f"At most {_LONGEST_DAYS} days after start_time."})
    cron = _cron("When it begins, again.", "0 22 * * 6", allow_none=True)
    timezone = _text(api.check_zone, pins.MAX_ZONE_LENGTH, "Of cron; default UTC.", "Europe/Berlin", allow_none=True)
    duration_seconds = _seconds("length", 60, _LONGEST_DAYS, "How long each one lasts.", 28_800, allow_none=True)

    @ma.validates_schema
    def _check_times(self, fields: dict[str, Any], **_: Any) -> None:
        sent = {name for name, value in fields.items() if value is not None}
        recurs = bool(sent & {"cron", "timezone", "duration_seconds"})
        needed, others = ({"cron", "duration_seconds"}, _TIMES) if recurs else (_TIMES, set())
        problems = {name: ["Missing data for required field."] for name in needed - sent}
        problems |= {name: ["Cannot be combined with cron."] for name in others & sent}
        if problems:
            raise ma.ValidationError(problems)
        if not recurs and fields["end_time"] <= fields["start_time"]:
            raise ma.ValidationError("Must be after start_time.", "end_time")
        if not recurs and fields["end_time"] - fields["start_time"] > _LONGEST_DAYS * DAY_MS:
            raise ma.ValidationError(f"A maintenance window can be at most {_LONGEST_DAYS} days long.", "end_time")


_LEARNED = ma.fields.Nested(schema_of(Description, "Learned"), allow_none=True)
_job_schema = partial(
    schema_of,
    Job,
    leave_out={"id", "last_event_id", "overdue_since", "last_run_at", "changes_at", "waits"},
    learned=_LEARNED,
    pin=ma.fields.Nested(PinSchema, allow_none=True, metadata=about("The schedule that was set by hand.")),
)
JobSchema = _job_schema()
_ABOUT_PING_URL = about(
    "Created when it is first requested. null unless the key has heartbeat:write.",
    "https://obs.example.com/in/acme/ping/6ba7b810-9dad-41d1-80b4-00c04fd430c8",
)
_PING_URL = ma.fields.Str(allow_none=True, metadata=_ABOUT_PING_URL)
_HOST = {"host": ma.fields.Str(), "learned": _LEARNED, "last_heartbeat_at": Time()}
_HOST |= {name: Time(allow_none=True) for name in ("expected_at", "overdue_at")}
_HOSTS = ma.fields.List(ma.fields.Nested(Schema.from_dict(_HOST, name="HostSchema")))
JobWithPingUrlSchema = _job_schema("JobWithPingUrl", ping_url=_PING_URL, hosts=_HOSTS)
RunListSchema = list_of("runs", schema_of(Run), paged=True)
_TIMELINE = ma.fields.List(ma.fields.Nested(schema_of(Event)))
_LEFT_OUT = ma.fields.Int(metadata=about("Events between the first and the last 500, which OQL reads.", 0))
RunWithTimelineSchema = schema_of(Run, "RunWithTimeline", timeline=_TIMELINE, left_out=_LEFT_OUT)


class RunPageSchema(PageSchema):
    status = ma.fields.Str(load_default=None, validate=ma.validate.OneOf(STATUSES))
    start = ma.fields.Str(load_default=None, metadata=about("Runs from then on: ISO 8601, or such as -24h."))
    end = ma.fields.Str(load_default=None, metadata={"description": "Runs that started before then."})


class JobPageSchema(PageSchema):
    q = _filter(metadata=about("Text that the name contains."), post_load=api.normalized)
    prefix = _filter(metadata=about("Text that the name starts with; case-sensitive."), post_load=api.normalized)
    status = ma.fields.Str(load_default=None, validate=ma.validate.OneOf((*STATES, "trouble")))
    host, service, project = (_filter(metadata=about(f"The latest {name}.")) for name in api.PLACE)


class JobPrefixSchema(Schema):
    prefix = Text(1, 200, required=True, metadata={"description": "What the names start with.", "example": "test/"})
    dry_run = ma.fields.Bool(load_default=False, metadata={"description": "Only count the jobs."})


class DeletedJobsSchema(Schema):
    deleted = ma.fields.Int(metadata={"example": 51200})
    remaining = ma.fields.Int(metadata={"example": 0})
