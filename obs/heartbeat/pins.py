"""What a person pins, as JSON: in the API and as it is stored. Pure."""

import json
from typing import Any

from obs.heartbeat import schedule
from obs.heartbeat.schedule import Cron, Interval, Never, Pin


def from_dict(said: dict[str, Any]) -> Pin:
    """The pin out of ``{"cron", "timezone", "grace_seconds"}``, ``{"interval_seconds", "grace_seconds"}`` or
    ``{"never": true}``. Raises ValueError, with a message for people.
    """
    pin: Pin
    grace = said.get("grace_seconds", 60)
    match sorted(said.keys() - {"grace_seconds"}):
        case ["cron"] | ["cron", "timezone"]:
            pin = Cron(said["cron"], said.get("timezone", "UTC"), grace)
        case ["interval_seconds"]:
            pin = Interval(said["interval_seconds"], grace)
        case ["never"] if said["never"] is True and "grace_seconds" not in said:
            pin = Never()
        case _:
            raise ValueError("Give cron (with timezone), interval_seconds, or never: true.")
    schedule.check(pin)
    return pin


def to_dict(pin: Pin) -> dict[str, Any]:
    """The pin as `from_dict` takes it."""
    match pin:
        case Cron(expression, zone, grace):
            return {"cron": expression, "timezone": zone, "grace_seconds": grace}
        case Interval(seconds, grace):
            return {"interval_seconds": seconds, "grace_seconds": grace}
        case Never():
            return {"never": True}


def from_json(text: str | None) -> Pin | None:
    """The pin out of its stored form; None for None."""
    return None if text is None else from_dict(json.loads(text))
