"""Channels, incidents, deliveries and alerts on queries over HTTP."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import marshmallow as ma

from obs import api, times
from obs.alerts.courier import Answer
from obs.alerts.rules import NO_DATA, OPERATORS, Alert
from obs.alerts.store import incidents, outbox, rules
from obs.alerts.store.channels import EVENTS, Channel
from obs.api import ROW_ID, Blueprint, ChangesSchema, PageSchema, Schema, Text, WholeNumber, list_of, page_of, schema_of
from obs.services import services
from obs.tenancy.auth import caller, operation
from obs.times import DAY_MS, MINUTE_MS

blp = Blueprint("alerts", __name__, url_prefix="/api/v1", description="Incidents, and messages about them.")
_CHANNEL = f"/channels/<{ROW_ID}:channel_id>"
_INCIDENT = f"/incidents/<{ROW_ID}:incident_id>"
_ALERT = f"/alerts/<{ROW_ID}:alert_id>"
_LONGEST_ADDRESS = 2_000  # characters
_TIME_OF_DAY = ma.validate.Regexp(r"^([01][0-9]|2[0-3]):[0-5][0-9]$(?!\n)", error="Not a time of day such as 22:00.")


def _events(description: str, least: int) -> ma.fields.List[str]:
    one, several = ma.fields.Str(validate=ma.validate.OneOf(EVENTS)), ma.validate.Length(least, error="Pick an event.")
    return ma.fields.List(one, validate=several, metadata={"description": description, "example": ["failed"]})


class QuietHoursSchema(Schema):
    start = ma.fields.Str(required=True, data_key="from", attribute="from", validate=_TIME_OF_DAY)
    until = ma.fields.Str(required=True, validate=_TIME_OF_DAY, metadata={"example": "07:00"})
    timezone = ma.fields.Str(required=True, validate=api.check_zone, metadata={"example": "Europe/Berlin"})

    @ma.validates_schema
    def _check(self, hours: Mapping[str, str], **_: Any) -> None:
        if hours["from"] == hours["until"]:
            raise ma.ValidationError("from and until must differ.")


class WebhookSchema(Schema):
    url = Text(1, _LONGEST_ADDRESS, required=True, metadata={"example": "https://example.com/hooks/obs"})
    secret = Text(16, 200, metadata={"description": "Default: one is generated, and shown once."})


class ChannelChangesSchema(api.JobFilterSchema, ChangesSchema):
    name = Text(1, 200, metadata={"description": "A name for people.", "example": "phone"})
    url = Text(1, _LONGEST_ADDRESS, metadata={"description": "An Apprise URL.", "example": "ntfy://ntfy.sh/my-topic"})
    webhook = ma.fields.Nested(WebhookSchema)
    events = _events("What to report. Default: all but schedule_changed.", 1)
    recoveries = api.Flag(metadata={"description": "Report the end as well."})
    reminder_hours = WholeNumber(allow_none=True, validate=ma.validate.Range(1, 168), metadata={"example": None})
    quiet_hours = ma.fields.Nested(QuietHoursSchema, allow_none=True)
    always_loud = _events("What is reported in quiet hours as well.", 0)
    enabled = api.Flag()


class ChannelRequestSchema(ChannelChangesSchema):
    name = Text(1, 200, required=True, metadata={"description": "A name for people.", "example": "phone"})


class ChannelSchema(ChannelChangesSchema):
    """A channel. The secret parts of its address are masked; the secret of a webhook is shown once."""

    id = ma.fields.Int()


def channel_json(channel: Channel, *, secret: bool = False) -> dict[str, Any]:
    """A channel as ChannelSchema dumps it, with the secret of a webhook or without."""
    shown = {"id": channel.id, "name": channel.name, "enabled": bool(channel.enabled), **channel.filter}
    if channel.kind == "apprise":
        return {**shown, "url": channel.masked}
    return {**shown, "webhook": {"url": channel.masked, **({"secret": channel.secret} if secret else {})}}


class DeliveryPageSchema(PageSchema):
    state = ma.fields.Str(load_default=None, validate=ma.validate.OneOf(list(outbox.State)))
    channel = ma.fields.Int(load_default=None, validate=ma.validate.Range(1, 2**63 - 1))


DeliverySchema = schema_of(outbox.Delivery, leave_out={"reminder", "notice", "first_attempt_at"})
DeliveryListSchema = list_of("deliveries", DeliverySchema, paged=True)
_HIDDEN = {"job_id", "heartbeat_at", "annotation_id", "notified", *api.PLACE}
_KIND = ma.fields.Str(attribute="kind.word", metadata={"enum": list(incidents.KINDS)})
IncidentSchema = schema_of(incidents.Incident, leave_out=_HIDDEN, kind=_KIND)
_VERDICT = ma.fields.Str(required=True, validate=ma.validate.OneOf(incidents.VERDICTS))
VerdictSchema = Schema.from_dict({"verdict": _VERDICT}, name="VerdictSchema")
_EFFECT = ma.fields.Str(allow_none=True, metadata=api.about("What has changed by it, in words."))
JudgedSchema = Schema.from_dict({"incident": ma.fields.Nested(IncidentSchema), "effect": _EFFECT}, name="JudgedSchema")
_TESTED: dict[str, api.Field] = {"delivered": ma.fields.Bool(), "answer": ma.fields.Str()}
IncidentListSchema = list_of("incidents", IncidentSchema, paged=True)


class IncidentPageSchema(PageSchema):
    state = ma.fields.Str(load_default=None, validate=ma.validate.OneOf(["open", "resolved"]))
    job = ma.fields.Str(load_default=None, metadata={"description": "The name of a job."})


class Length(ma.fields.Field[int]):
    """A length of time of `least_ms` to 30 days: ``5m`` in JSON, milliseconds in Python."""

    def __init__(self, least_ms: int, description: str, **kwargs: Any) -> None:
        check = ma.validate.Range(least_ms, 30 * DAY_MS, error=f"Must be from {times.write_duration(least_ms)} to 30d.")
        about = {**api.about(description, "5m"), "type": "string", "pattern": "^[0-9]+[smhd]$"}
        super().__init__(validate=check, metadata=about, **kwargs)

    def _serialize(self, value: int | None, attr: str | None, obj: Any, **kwargs: Any) -> str:
        return times.write_duration(value or 0)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> int:
        try:
            return times.parse_time(f"+{value}", 0)
        except ValueError as error:
            raise ma.ValidationError("Not a length of time such as 30s, 5m, 2h or 1d.") from error


class AlertRequestSchema(Schema):
    name = Text(1, 190, required=True, metadata=api.about("A name for people.", "failures by host"))
    query = Text(1, None, required=True, metadata=api.about("A statement.", "SELECT count(*) FROM runs LAST 1h"))
    operator = ma.fields.Str(required=True, validate=ma.validate.OneOf(OPERATORS), metadata={"example": ">"})
    threshold = ma.fields.Float(required=True, allow_nan=False, metadata={"example": 5})
    for_ms = Length(0, "How long the condition must be met.", data_key="for", load_default=0)
    every_ms = Length(30_000, "How often the statement runs.", data_key="every", load_default=MINUTE_MS)
    no_data = ma.fields.Str(load_default="keep", validate=ma.validate.OneOf(NO_DATA))
    enabled = api.Flag(load_default=True)


class AlertChangesSchema(AlertRequestSchema, ChangesSchema):
    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "partial": True})


class AlertSchema(AlertRequestSchema):
    """An alert. `firing` has the open incidents and `pending` the start, by group; all other groups are ok."""

    id = ma.fields.Int()
    state = ma.fields.Str(metadata={"enum": ["error", "firing", "pending", "ok"]})
    last_error = ma.fields.Str(allow_none=True, metadata=api.about("Why the last evaluation failed."))
    firing = ma.fields.Dict(ma.fields.Str(), ma.fields.Nested(IncidentSchema))
    pending = ma.fields.Dict(ma.fields.Str(), api.Time())


class PreviewRequestSchema(AlertRequestSchema):
    name = Text(0, 190, load_default="")
    last = Length(MINUTE_MS, "The length of time to look at.", load_default=7 * DAY_MS)


class PreviewSchema(Schema):
    step = Length(0, "The time between two evaluations.", attribute="step_ms")
    periods = ma.fields.List(ma.fields.Nested(IncidentSchema), metadata={"description": "They have no id."})


@operation(blp, "GET /channels", "admin", list_of("channels", ChannelSchema))
def list_channels() -> dict[str, Any]:
    """List the channels"""
    return {"channels": [channel_json(one) for one in services().alerts.channels(caller().org)]}


@operation(blp, "POST /channels", "admin", ChannelSchema, status=201, body=ChannelRequestSchema, errors=(409,))
def create_channel(fields: dict[str, Any]) -> dict[str, Any]:
    """Create a channel: send either url (an Apprise URL) or webhook"""
    return channel_json(services().alerts.save(caller(), fields), secret=True)


@operation(blp, f"GET {_CHANNEL}", "admin", ChannelSchema, errors=(404,))
def get_channel(channel_id: int) -> dict[str, Any]:
    """Get a channel"""
    return channel_json(services().alerts.channel(caller().org, channel_id))


@operation(blp, f"PUT {_CHANNEL}", "admin", ChannelSchema, body=ChannelChangesSchema, errors=(404, 409))
def update_channel(changes: dict[str, Any], channel_id: int) -> dict[str, Any]:
    """Change the fields of a channel that are sent"""
    known = services().alerts.channel(caller().org, channel_id)
    changed = services().alerts.save(caller(), changes, channel_id)
    return channel_json(changed, secret=changed.secret != known.secret)


@operation(blp, f"DELETE {_CHANNEL}", "admin", status=204, errors=(404,))
def delete_channel(channel_id: int) -> None:
    """Delete a channel, and give up the messages that were still to be sent to it"""
    services().alerts.delete(caller(), channel_id)


@operation(blp, f"POST {_CHANNEL}/test", "admin", Schema.from_dict(_TESTED, name="TestResultSchema"), errors=(404,))
def test_channel(channel_id: int) -> Answer:
    """Send a test message, and respond after the attempt, which can take 30 seconds"""
    return services().alerts.test(caller().org, channel_id)


@operation(blp, "GET /incidents", "query:read", IncidentListSchema, query=IncidentPageSchema)
def list_incidents(page: dict[str, Any]) -> dict[str, Any]:
    """List incidents, newest start first"""
    return caller().fetch(lambda db: page_of("incidents", page, partial(incidents.page, db), "started_at", "id"))


@operation(blp, f"POST {_INCIDENT}/acknowledge", "admin", IncidentSchema, errors=(404, 409))
def acknowledge_incident(incident_id: int) -> Any:
    """Acknowledge an open incident, so that no more reminders of it are sent"""
    return services().background.sweeper.judge(caller(), incident_id, None)["incident"]


@operation(blp, f"POST {_INCIDENT}/feedback", "admin", JudgedSchema, body=VerdictSchema, errors=(404, 409))
def judge_incident(fields: dict[str, str], incident_id: int) -> dict[str, Any]:
    """Say whether an incident of the kind overdue was right

    After a false alarm, the incident ends, and its job is waited for longer in the same situation.
    """
    return services().background.sweeper.judge(caller(), incident_id, fields["verdict"])


@operation(blp, "GET /deliveries", "query:read", DeliveryListSchema, query=DeliveryPageSchema)
def list_deliveries(page: dict[str, Any]) -> dict[str, Any]:
    """List deliveries, newest first"""
    return caller().fetch(lambda db: page_of("deliveries", page, partial(outbox.page, db), "id"))


@operation(blp, f"POST /deliveries/<{ROW_ID}:delivery_id>/retry", "admin", DeliverySchema, errors=(404,))
def retry_delivery(delivery_id: int) -> outbox.Delivery:
    """Send a delivery again

    One that was given up, or that waits for its next attempt, is sent as soon as possible.
    """
    return services().alerts.retry(caller(), delivery_id)


@operation(blp, "GET /alerts", "query:read", list_of("alerts", AlertSchema))
def list_alerts() -> dict[str, Any]:
    """List the alerts on queries"""
    return {"alerts": caller().fetch(rules.alerts)}


@operation(blp, "POST /alerts", "admin", AlertSchema, status=201, body=AlertRequestSchema, errors=(409,))
def create_alert(fields: dict[str, Any]) -> Alert:
    """Create an alert on a query"""
    return services().query_alerts.save(caller(), fields)


@operation(blp, f"GET {_ALERT}", "query:read", AlertSchema, errors=(404,))
def get_alert(alert_id: int) -> Alert:
    """Get an alert on a query"""
    return caller().fetch(lambda db: rules.alert(db, alert_id))


@operation(blp, f"PUT {_ALERT}", "admin", AlertSchema, body=AlertChangesSchema, errors=(404, 409))
def update_alert(changes: dict[str, Any], alert_id: int) -> Alert:
    """Change an alert on a query

    Only the fields that are sent change. If any does, its incidents end; they begin again if the condition is met.
    """
    return services().query_alerts.save(caller(), changes, alert_id)


@operation(blp, f"DELETE {_ALERT}", "admin", status=204, errors=(404,))
def delete_alert(alert_id: int) -> None:
    """Delete an alert on a query, and end its incidents"""
    services().query_alerts.delete(caller(), alert_id)


@operation(blp, "POST /alerts/preview", "query:read", PreviewSchema, body=PreviewRequestSchema)
def preview_alert(fields: dict[str, Any]) -> dict[str, Any]:
    """Preview when an alert would have fired in the time before now"""
    return services().query_alerts.preview(caller(), fields, fields.pop("last"))
