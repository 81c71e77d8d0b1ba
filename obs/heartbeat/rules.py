"""The rules and limits for changes to jobs and maintenance windows. Pure: the time of the request is an argument.

Times are milliseconds since the Unix epoch.
"""

from collections.abc import Mapping
from typing import Any

from obs.api import is_storable
from obs.errors import ServiceError, invalid_field
from obs.heartbeat import pins
from obs.heartbeat.names import valid_name
from obs.heartbeat.pins import Pin
from obs.times import DAY_MS

MOST_FAILURES = 1_000
LONGEST_TITLE = 500
LONGEST_MAINTENANCE_MS = 31 * DAY_MS


def job_changes(fields: Mapping[str, Any], now_ms: int) -> dict[str, Any]:
    """The changes to a job that `fields`, those of JobChangesSchema, ask for: the same, with `pin` as a Pin.

    Raises ServiceError (422).
    """
    if not fields:
        raise invalid_field("json", "_schema", "Send at least one field to change.")
    changes = dict(fields)
    if "name" in changes:
        changes["name"] = valid_name(changes["name"], "json", "name")
    if changes.get("pin") is not None:
        changes["pin"] = pin(changes["pin"])
    if "paused_until" in changes:
        if changes.get("paused") is False:
            raise invalid_field("json", "paused_until", "Cannot be combined with paused: false.")
        if changes["paused_until"] <= now_ms:
            raise invalid_field("json", "paused_until", "Must be in the future.")
    if "failure_tolerance" in changes and not 1 <= changes["failure_tolerance"] <= MOST_FAILURES:
        raise invalid_field("json", "failure_tolerance", f"Must be from 1 to {MOST_FAILURES}.")
    return changes


def pin(fields: Mapping[str, Any]) -> Pin:
    """The pin with these `fields`, those of PinSchema. Raises ServiceError (422) that names the invalid field."""
    try:
        return pins.from_dict(fields)
    except pins.PinError as error:
        if error.field is None:
            raise invalid_field("json", "pin", str(error)) from error
        errors = {"json": {"pin": {error.field: [str(error)]}}}
        raise ServiceError("invalid_field", f"pin.{error.field}: {error}", errors=errors) from error


def check_maintenance(start_time: int, end_time: int, title: str) -> None:
    """Raise ServiceError (422) unless a maintenance window can have these times and this title."""
    if not 1 <= len(title) <= LONGEST_TITLE:
        raise invalid_field("json", "title", f"Length must be between 1 and {LONGEST_TITLE}.")
    if not is_storable(title):
        raise invalid_field("json", "title", "Not valid Unicode.")
    if end_time <= start_time:
        raise invalid_field("json", "end_time", "Must be after start_time.")
    if end_time - start_time > LONGEST_MAINTENANCE_MS:
        days = LONGEST_MAINTENANCE_MS // DAY_MS
        raise invalid_field("json", "end_time", f"A maintenance window can be at most {days} days long.")
