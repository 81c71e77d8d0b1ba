"""The rules and limits for changes to jobs and maintenance windows. Pure: the time of the request is an argument.

Times are milliseconds since the Unix epoch.
"""

from collections.abc import Mapping
from typing import Any

from obs.api import is_storable
from obs.errors import ServiceError, invalid_field
from obs.heartbeat import pins, schedule
from obs.heartbeat.names import name_problem
from obs.heartbeat.schedule import Cron, Pin
from obs.times import DAY_MS

LONGEST_CRON = 200
LONGEST_TIME_ZONE = 64
LONGEST_INTERVAL_SECONDS = 366 * 86_400
LONGEST_GRACE_SECONDS = 366 * 86_400
MOST_FAILURES = 1_000
LONGEST_TITLE = 500
LONGEST_MAINTENANCE_MS = 31 * DAY_MS

_LENGTHS = {"cron": LONGEST_CRON, "timezone": LONGEST_TIME_ZONE}
_RANGES = {"interval_seconds": (1, LONGEST_INTERVAL_SECONDS), "grace_seconds": (0, LONGEST_GRACE_SECONDS)}


def job_changes(fields: Mapping[str, Any], now_ms: int) -> dict[str, Any]:
    """The changes to a job that `fields`, those of JobChangesSchema, ask for: the same, with `pin` as a Pin.

    Raises ServiceError (422).
    """
    if not fields:
        raise invalid_field("json", "_schema", "Send at least one field to change.")
    changes = dict(fields)
    if "name" in changes and (problem := name_problem(changes["name"])) is not None:
        raise invalid_field("json", "name", problem)
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
    """The pin that `fields`, those of PinSchema, ask for. Raises ServiceError (422)."""
    for field, longest in _LENGTHS.items():
        if field in fields and not 1 <= len(fields[field]) <= longest:
            raise _invalid_pin(field, f"Length must be between 1 and {longest}.")
    for field, (least, most) in _RANGES.items():
        if field in fields and not least <= fields[field] <= most:
            raise _invalid_pin(field, f"Must be from {least} to {most}.")
    if "cron" in fields:
        _check("cron", Cron(fields["cron"]))
        _check("timezone", Cron("* * * * *", fields.get("timezone", "UTC")))
    try:
        return pins.from_dict(dict(fields))
    except ValueError as error:
        raise invalid_field("json", "pin", str(error)) from error


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


def _check(field: str, schedule_with_field: Cron) -> None:
    try:
        schedule.check(schedule_with_field)
    except ValueError as error:
        raise _invalid_pin(field, str(error)) from error


def _invalid_pin(field: str, message: str) -> ServiceError:
    """A 422 that names a field of the pin."""
    return ServiceError("invalid_field", f"pin.{field}: {message}", errors={"json": {"pin": {field: [message]}}})
