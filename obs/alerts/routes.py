"""Channels and deliveries over HTTP."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import marshmallow as ma

from obs.alerts.courier import Answer
from obs.alerts.store import incidents, outbox
from obs.alerts.store.channels import EVENTS, Channel
from obs.alerts.store.outbox import Delivery, State
from obs.api import ROW_ID, Blueprint, ChangesSchema, PageSchema, Schema, Text, WholeNumber, list_of, page_of, schema_of
from obs.services import services
from obs.tenancy.auth import caller, operation
from obs.times import find_zone

blp = Blueprint("alerts", __name__, url_prefix="/api/v1", description="Incidents, and messages about them.")
_CHANNEL = f"/channels/<{ROW_ID}:channel_id>"
_LONGEST_ADDRESS = 2_000  # characters
_TIME_OF_DAY = ma.validate.Regexp(r"^([01][0-9]|2[0-3]):[0-5][0-9]$(?!\n)", error="Not a time of day such as 22:00.")


def _events(description: str, least: int) -> ma.fields.List[str]:
    one, several = ma.fields.Str(validate=ma.validate.OneOf(EVENTS)), ma.validate.Length(least, error="At least one.")
    return ma.fields.List(one, validate=several, metadata={"description": description, "example": ["failed"]})


def _only(what: str) -> Text:
    return Text(1, 200, allow_none=True, metadata={"description": f"Only jobs {what}; null for all.", "example": None})


class QuietHoursSchema(Schema):
    start = ma.fields.Str(required=True, data_key="from", attribute="from", validate=_TIME_OF_DAY)
    until = ma.fields.Str(required=True, validate=_TIME_OF_DAY, metadata={"example": "07:00"})
    timezone = ma.fields.Str(required=True, metadata={"example": "Europe/Berlin"})

    @ma.validates_schema
    def _check(self, hours: Mapping[str, str], **_: Any) -> None:
        if find_zone(hours["timezone"]) is None:
            raise ma.ValidationError("Not a time zone such as Europe/Berlin.", "timezone")
        if hours["from"] == hours["until"]:
            raise ma.ValidationError("from and until must differ.")


class WebhookSchema(Schema):
    url = Text(1, _LONGEST_ADDRESS, required=True, metadata={"example": "https://example.com/hooks/obs"})
    secret = Text(16, 200, metadata={"description": "Default: one is generated, and shown once."})


class ChannelChangesSchema(ChangesSchema):
    name = Text(1, 200, metadata={"description": "A name for people.", "example": "phone"})
    url = Text(1, _LONGEST_ADDRESS, metadata={"description": "An Apprise URL.", "example": "ntfy://ntfy.sh/my-topic"})
    webhook = ma.fields.Nested(WebhookSchema)
    events = _events("What to report. Default: all but schedule_changed.", 1)
    job_prefix = _only("whose name begins like this")
    host = _only("of this host")
    service = _only("of this service")
    project = _only("of this project")
    recoveries = ma.fields.Bool(truthy={True}, falsy={False}, metadata={"description": "Report the end as well."})
    reminder_hours = WholeNumber(allow_none=True, validate=ma.validate.Range(1, 168), metadata={"example": None})
    quiet_hours = ma.fields.Nested(QuietHoursSchema, allow_none=True)
    always_loud = _events("What is reported in quiet hours as well.", 0)
    enabled = ma.fields.Bool(truthy={True}, falsy={False})


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


DeliverySchema = schema_of(Delivery, leave_out={"reminder", "notice", "first_attempt_at"})
DeliveryListSchema = list_of("deliveries", DeliverySchema, paged=True)


class DeliveryPageSchema(PageSchema):
    state = ma.fields.Str(load_default=None, validate=ma.validate.OneOf(list(State)))
    channel = ma.fields.Int(load_default=None, validate=ma.validate.Range(1, 2**63 - 1))


IncidentSchema = schema_of(
    incidents.Incident,
    leave_out={"job_id", "heartbeat_at", "annotation_id", "notified", *incidents.PLACE},
    kind=ma.fields.Str(attribute="kind.word", metadata={"enum": list(incidents.KINDS)}),
)
IncidentListSchema = list_of("incidents", IncidentSchema, paged=True)


class IncidentPageSchema(PageSchema):
    state = ma.fields.Str(load_default=None, validate=ma.validate.OneOf(["open", "resolved"]))
    job = ma.fields.Str(load_default=None, metadata={"description": "The name of a job."})


class TestResultSchema(Schema):
    delivered = ma.fields.Bool()
    answer = ma.fields.Str()


@operation(blp, "GET /channels", "admin", list_of("channels", ChannelSchema))
def list_channels() -> dict[str, Any]:
    """List the channels"""
    return {"channels": [channel_json(one) for one in services().alerts.channels(caller().org)]}


@operation(blp, "POST /channels", "admin", ChannelSchema, status=201, body=ChannelRequestSchema, errors=(409,))
def create_channel(fields: dict[str, Any]) -> dict[str, Any]:
    """Create a channel

    Send either url, an Apprise URL, or webhook.
    """
    return channel_json(services().alerts.save(caller(), fields), secret=True)


@operation(blp, f"GET {_CHANNEL}", "admin", ChannelSchema, errors=(404,))
def get_channel(channel_id: int) -> dict[str, Any]:
    """Get a channel"""
    return channel_json(services().alerts.channel(caller().org, channel_id))


@operation(blp, f"PUT {_CHANNEL}", "admin", ChannelSchema, body=ChannelChangesSchema, errors=(404, 409))
def update_channel(changes: dict[str, Any], channel_id: int) -> dict[str, Any]:
    """Change a channel

    Only the fields that are sent change.
    """
    known = services().alerts.channel(caller().org, channel_id)
    changed = services().alerts.save(caller(), changes, channel_id)
    return channel_json(changed, secret=changed.secret != known.secret)


@operation(blp, f"DELETE {_CHANNEL}", "admin", status=204, errors=(404,))
def delete_channel(channel_id: int) -> None:
    """Delete a channel

    Messages that were still to be sent to it are given up.
    """
    services().alerts.delete(caller(), channel_id)


@operation(blp, f"POST {_CHANNEL}/test", "admin", TestResultSchema, errors=(404,))
def test_channel(channel_id: int) -> Answer:
    """Send a test message

    The response comes after the attempt, which can take 30 seconds.
    """
    return services().alerts.test(caller().org, channel_id)


@operation(blp, "GET /incidents", "query:read", IncidentListSchema, query=IncidentPageSchema)
def list_incidents(page: dict[str, Any]) -> dict[str, Any]:
    """List incidents

    The newest start comes first.
    """
    with caller().read() as db:
        return page_of("incidents", page, partial(incidents.page, db), "started_at", "id")


@operation(blp, "GET /deliveries", "query:read", DeliveryListSchema, query=DeliveryPageSchema)
def list_deliveries(page: dict[str, Any]) -> dict[str, Any]:
    """List deliveries

    The newest comes first.
    """
    with caller().read() as db:
        return page_of("deliveries", page, partial(outbox.page, db), "id")


@operation(blp, f"POST /deliveries/<{ROW_ID}:delivery_id>/retry", "admin", DeliverySchema, errors=(404,))
def retry_delivery(delivery_id: int) -> Delivery:
    """Send a delivery again

    One that was given up, or that waits for its next attempt, is sent as soon as possible.
    """
    return services().alerts.retry(caller(), delivery_id)
