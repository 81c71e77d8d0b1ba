"""Pins: schedules that a person sets by hand instead of the learned one. Pure.

In JSON, in the API as well as stored, a pin is ``{"cron", "timezone", "grace_seconds"}``,
``{"interval_seconds", "grace_seconds"}`` or ``{"never": true}``.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from marshmallow import ValidationError

from obs.heartbeat.schedule.history import awaited
from obs.times import MAX_MS, MINUTE_MS, SECOND_MS, duration_words

MAX_CRON_LENGTH, MAX_ZONE_LENGTH = 200, 64

_CRON_FIELDS = (  # of a cron expression: the name in the errors of cronsim, its name for people, its values
    ("minute", "minute", "0-59"),
    ("hour", "hour", "0-23"),
    ("day-of-month", "day of the month", "1-31, and a day that the month has"),
    ("month", "month", "1-12"),
    ("day-of-week", "day of the week", "0-7, where 0 and 7 are Sunday"),
)
_NICKNAMES = {"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *"}
_NICKNAMES |= {"@midnight": "0 0 * * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *"}


@dataclass(frozen=True, slots=True)
class Cron:
    expression: str
    zone: str = "UTC"
    grace_ms: int = MINUTE_MS


@dataclass(frozen=True, slots=True)
class Interval:
    interval_ms: int
    grace_ms: int = MINUTE_MS


@dataclass(frozen=True, slots=True)
class Never:
    """The job is never overdue."""


Pin = Cron | Interval | Never


def due(pin: Pin, last_ms: int, unknown: Sequence[tuple[int, int]] = ()) -> tuple[int, int] | None:
    """When the next heartbeat is due and when it is overdue, in milliseconds; None where none is expected.

    A time of a cron expression in `unknown` times is not waited for; an interval begins again at the end of one.
    """
    match pin:
        case Cron(expression, zone, grace_ms):
            if (slot := next(cron_times(expression, zone, last_ms), None)) is not None:
                return awaited(slot, grace_ms, unknown, lambda end: next(cron_times(expression, zone, end - 1), MAX_MS))
        case Interval(interval_ms, grace_ms):
            return awaited(last_ms + interval_ms, grace_ms, unknown, lambda end: end + interval_ms)
    return None


def cron_times(expression: str, zone: str, after_ms: int) -> Iterator[int]:
    """The times after a moment. A time that the clock skips is moved to the change; one that it repeats occurs once."""
    with suppress(OverflowError, ValueError):  # from the year 10000 on there are none
        for time in CronSim(expression, datetime.fromtimestamp(after_ms / SECOND_MS, ZoneInfo(zone))):
            yield round(time.timestamp()) * SECOND_MS


def from_dict(fields: Mapping[str, Any]) -> Pin:
    """The pin with these fields of JSON. Raises marshmallow's ValidationError unless they are those of one kind."""
    grace_ms = fields.get("grace_seconds", 60) * SECOND_MS
    match sorted(fields.keys() - {"grace_seconds"}):
        case ["cron"] | ["cron", "timezone"]:
            return Cron(fields["cron"], fields.get("timezone", "UTC"), grace_ms)
        case ["interval_seconds"]:
            return Interval(fields["interval_seconds"] * SECOND_MS, grace_ms)
        case ["never"] if fields == {"never": True}:
            return Never()
    raise ValidationError("Send cron (with timezone), interval_seconds, or never: true.", "pin")


def to_dict(pin: Pin) -> dict[str, Any]:
    match pin:
        case Cron(expression, zone, grace_ms):
            return {"cron": expression, "timezone": zone, "grace_seconds": grace_ms // SECOND_MS}
        case Interval(interval_ms, grace_ms):
            return {"interval_seconds": interval_ms // SECOND_MS, "grace_seconds": grace_ms // SECOND_MS}
        case Never():
            return {"never": True}


def in_words(pin: Pin) -> str:
    """The schedule that was set, as in ``every 10 min, 1 min grace period``."""
    if isinstance(pin, Never):
        return "never overdue"
    schedule = f"{pin.expression}, {pin.zone}" if isinstance(pin, Cron) else f"every {duration_words(pin.interval_ms)}"
    return f"{schedule}, {duration_words(pin.grace_ms)} grace period"


def from_json(text: str | None) -> Pin | None:
    """The pin from its stored form; None for None. A pin from before a bound was lowered stays valid."""
    return None if text is None else from_dict(json.loads(text))


def to_json(pin: Pin | None) -> str | None:
    return None if pin is None else json.dumps(to_dict(pin))


def expanded(expression: str) -> str:
    """The cron expression for a nickname, such as ``@daily``; any other text as it is."""
    return _NICKNAMES.get(expression.lower(), expression)


def check_expression(expression: str) -> None:
    if len(expression) > MAX_CRON_LENGTH:
        raise ValidationError(f"The cron expression must be at most {MAX_CRON_LENGTH} characters long.")
    try:
        CronSim(expanded(expression), datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        for (field, name, values), part in zip(_CRON_FIELDS, expression.split()[-len(_CRON_FIELDS) :], strict=False):
            if str(error) == f"Bad {field}":
                raise ValidationError(f'Invalid {name} "{part}" in the cron expression: use {values}.') from error
        fields = "minute, hour, day of the month, month and day of the week"
        raise ValidationError(f'"{expression}" is not a cron expression. Use five fields: {fields}.') from error
