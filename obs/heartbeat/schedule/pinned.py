"""A schedule a person pinned, judged as any monitor judges what it was told: next moment due, then grace.

A cron line is read in its zone by the rules of cron: a time that the clock skips runs right after the jump,
a time that comes twice runs once, and lines by the minute or hour follow real time through both.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron line in a zone; overdue `grace` seconds after it was due."""

    expression: str
    zone: str = "UTC"
    grace: float = 60.0


@dataclass(frozen=True, slots=True)
class Interval:
    """At most `seconds` between heartbeats; overdue `grace` seconds after that."""

    seconds: float
    grace: float = 60.0


@dataclass(frozen=True, slots=True)
class Never:
    """Silence never means anything."""


Pin = Cron | Interval | Never


@dataclass(frozen=True, slots=True)
class Expectation:
    """When the next heartbeat is due and from when on it is overdue, in epoch seconds; None is never."""

    expected_at: float | None
    overdue_at: float | None


def check(pin: Pin) -> None:
    """Raises ValueError saying what is wrong with a pin: the line, the zone, or a span."""
    match pin:
        case Cron(expression, zone, grace):
            try:
                CronSim(expression, datetime(2000, 1, 1, tzinfo=UTC))
            except CronSimError as error:
                raise ValueError(f"{expression!r} is not a cron line: {error}") from error
            try:
                ZoneInfo(zone)
            except (ZoneInfoNotFoundError, ValueError, OSError) as error:
                raise ValueError(f"{zone!r} is not a time zone.") from error
            _check_grace(grace)
        case Interval(seconds, grace):
            if not 0 < seconds < float("inf"):
                raise ValueError("An interval must be longer than 0 seconds.")
            _check_grace(grace)
        case Never():
            pass


def _check_grace(grace: float) -> None:
    if not 0 <= grace < float("inf"):
        raise ValueError("The grace must not be negative.")


def expect(pin: Pin, last: float) -> Expectation:
    """When the next heartbeat is due and when overdue, `last` being the latest heartbeat, in epoch seconds.

    A cron line that has no further moment (February 30) is never due. Raises ValueError as `check` does.
    """
    check(pin)
    match pin:
        case Cron(expression, zone, grace):
            after = datetime.fromtimestamp(last, ZoneInfo(zone))
            due = next(CronSim(expression, after), None)
            if due is None:
                return Expectation(None, None)
            return Expectation(due.timestamp(), due.timestamp() + grace)
        case Interval(seconds, grace):
            return Expectation(last + seconds, last + seconds + grace)
        case Never():
            return Expectation(None, None)
