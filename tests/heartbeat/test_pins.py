"""A pinned schedule: when it is due, clock changes included, what it may be, and its JSON."""

import re
from typing import Any

import pytest
from marshmallow import ValidationError

from obs.heartbeat import pins
from obs.heartbeat.pins import MAX_CRON_LENGTH, MAX_ZONE_LENGTH, Cron, Interval, Never, Pin
from obs.heartbeat.schemas import JobChangesSchema
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from tests.heartbeat.schedule.jobs import at

GRACE_MS = 5 * MINUTE_MS
YEAR_MS = 366 * DAY_MS


def load(fields: Any) -> Pin:
    """The pin that a request with these fields asks for."""
    pin: Pin = JobChangesSchema().load({"pin": fields})["pin"]
    return pin


@pytest.mark.parametrize(
    ("expression", "zone", "last", "due"),
    [
        ("0 2 * * 1-5", "UTC", "2025-01-10 02:00:04", "2025-01-13 02:00"),
        ("0 2 * * *", "Europe/Berlin", "2025-03-28 02:00:04", "2025-03-29 02:00"),
        ("30 2 * * *", "Europe/Berlin", "2025-03-29 02:30:04", "2025-03-30 03:00"),  # 02:30 is skipped
        ("30 3 * * *", "America/New_York", "2025-03-08 03:30:04", "2025-03-09 03:30"),
        ("0 6 * * *", "America/New_York", "2025-11-01 06:00:04", "2025-11-02 06:00"),
        ("30 2 * * *", "Europe/Berlin", "2025-10-25 02:30:04", "2025-10-26 02:30"),  # the first of two
        ("0 0 29 2 *", "UTC", "2025-01-10 00:00", "2028-02-29 00:00"),
        ("0 3 * * 2#3", "UTC", "2025-01-21 03:00:01", "2025-02-18 03:00"),
        ("0 5 L * *", "UTC", "2025-01-31 05:00:01", "2025-02-28 05:00"),
    ],
)
def test_a_cron_expression_is_due_at_its_next_time_after_the_last_heartbeat(
    expression: str, zone: str, last: str, due: str
) -> None:
    due_ms = at(due, zone)
    assert pins.due(Cron(expression, zone, GRACE_MS), at(last, zone)) == (due_ms, due_ms + GRACE_MS)


def test_a_daily_job_runs_once_when_its_time_occurs_twice() -> None:
    first = at("2025-10-26 02:30", "Europe/Berlin")
    tomorrow = at("2025-10-27 02:30", "Europe/Berlin")
    assert pins.due(Cron("30 2 * * *", "Europe/Berlin", 0), first) == (tomorrow, tomorrow)


def test_an_hourly_job_runs_in_both_of_the_hours_that_occur_twice() -> None:
    first = at("2025-10-26 02:00", "Europe/Berlin")
    assert pins.due(Cron("0 * * * *", "Europe/Berlin", 0), first) == (first + HOUR_MS, first + HOUR_MS)


@pytest.mark.parametrize(("end", "due"), [("05:59", "06:00"), ("06:00", "06:00"), ("06:01", "07:00")])
def test_a_time_at_the_end_of_an_unknown_time_is_waited_for(end: str, due: str) -> None:
    unknown = (at("2025-01-10 04:30"), at(f"2025-01-10 {end}"))
    due_ms = at(f"2025-01-10 {due}")
    found = pins.due(Cron("0 * * * *", "UTC", MINUTE_MS), at("2025-01-10 04:00"), [unknown])
    assert found == (due_ms, due_ms + MINUTE_MS)


def test_an_interval_counts_from_the_last_heartbeat() -> None:
    assert pins.due(Interval(HOUR_MS, 2 * MINUTE_MS), 1_000_123) == (4_600_123, 4_720_123)


@pytest.mark.parametrize(
    ("pin", "unknown", "due", "overdue"),
    [
        (Cron("0 2 * * *", grace_ms=GRACE_MS), [("01:00", "01:59")], "02:00", "02:05"),
        (Cron("0 2 * * *", grace_ms=GRACE_MS), [("01:00", "03:00")], "1 02:00", "1 02:05"),
        (Cron("0 2 * * *", grace_ms=GRACE_MS), [("02:04", "03:00")], "1 02:00", "1 02:05"),
        (Cron("0 2 * * *", grace_ms=GRACE_MS), [("02:06", "03:00")], "02:00", "02:05"),
        (Cron("0 2 * * *", grace_ms=0), [("02:00", "03:00")], "1 02:00", "1 02:00"),
        (Cron("0 2 * * *", grace_ms=GRACE_MS), [("01:59", "02:01")], "02:00", "02:06"),
        (Cron("0 2 * * *", grace_ms=GRACE_MS), [("01:00", "09:00"), ("1 00:00", "1 09:00")], "2 02:00", "2 02:05"),
        (Interval(HOUR_MS, GRACE_MS), [("00:30", "00:50")], "01:00", "01:05"),
        (Interval(HOUR_MS, GRACE_MS), [("00:30", "04:00")], "05:00", "05:05"),
        (Interval(HOUR_MS, GRACE_MS), [("00:30", "04:00"), ("04:50", "05:30")], "06:30", "06:35"),
        (Interval(HOUR_MS, GRACE_MS), [("00:30", "02:00"), ("01:30", "02:30")], "03:30", "03:35"),
        (Interval(HOUR_MS, GRACE_MS), [("01:04", "01:05")], "01:00", "01:10"),
        (Never(), [("00:30", "04:00")], None, None),
    ],
)
def test_a_time_in_which_nobody_can_know_whether_the_job_ran(
    pin: Pin, unknown: list[tuple[str, str]], due: str | None, overdue: str | None
) -> None:
    midnight = at("2025-01-10 00:00")

    def moment(text: str) -> int:
        day, _, time = text.rpartition(" ")
        return midnight + int(day or 0) * DAY_MS + at(f"1970-01-01 {time}")

    expected = None if due is None or overdue is None else (moment(due), moment(overdue))
    assert pins.due(pin, midnight, [(moment(start), moment(end)) for start, end in unknown]) == expected


@pytest.mark.parametrize(
    ("nickname", "expression"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@Hourly", "0 * * * *"),
    ],
)
def test_a_nickname_is_a_cron_expression(nickname: str, expression: str) -> None:
    assert load({"cron": nickname, "timezone": "Europe/Berlin"}) == Cron(expression, "Europe/Berlin")


def test_never() -> None:
    assert pins.due(Never(), 1_000_000) is None


@pytest.mark.parametrize(
    ("pin", "message"),
    [
        (Cron("61 * * * *"), 'Invalid minute "61" in the cron expression: use 0-59.'),
        (Cron("0 25 * * *"), 'Invalid hour "25" in the cron expression: use 0-23.'),
        (
            Cron("0 0 30 2 *"),
            'Invalid day of the month "30" in the cron expression: use 1-31, and a day that the month has.',
        ),
        (Cron("0 0 1 13 *"), 'Invalid month "13" in the cron expression: use 1-12.'),
        (Cron("0 0 * * 8"), 'Invalid day of the week "8" in the cron expression: use 0-7, where 0 and 7 are Sunday.'),
        (Cron("every day"), '"every day" is not a cron expression. Use five fields: minute, hour, day of'),
        (Cron(" " * MAX_CRON_LENGTH + "0 2 * * *"), "The cron expression must be at most 200 characters long."),
        (Cron("0 2 * * *", "Europe/Bonn"), '"Europe/Bonn" is not a known time zone.'),
        (Cron("0 2 * * *", "localtime"), '"localtime" is not a known time zone.'),
        (Cron("0 2 * * *", "../etc/passwd"), '"../etc/passwd" is not a known time zone.'),
        (Cron("0 2 * * *", "x" * (MAX_ZONE_LENGTH + 1)), f'"{"x" * (MAX_ZONE_LENGTH + 1)}" is not a known time zone.'),
        (Cron("0 2 * * *", grace_ms=-SECOND_MS), "The grace period must be 0 seconds to 366 days."),
        (Interval(0), "The interval must be 1 second to 366 days."),
        (Interval(YEAR_MS + SECOND_MS), "The interval must be 1 second to 366 days."),
        (Interval(MINUTE_MS, YEAR_MS + SECOND_MS), "The grace period must be 0 seconds to 366 days."),
    ],
)
def test_a_pin_that_is_not_valid_is_refused_with_the_reason(pin: Pin, message: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(message)):
        load(pins.to_dict(pin))


@pytest.mark.parametrize(
    "pin",
    [
        Cron("0 2 * * *".ljust(MAX_CRON_LENGTH), grace_ms=YEAR_MS),
        Interval(SECOND_MS, 0),
        Interval(366 * DAY_MS, 366 * DAY_MS),
        Never(),
    ],
)
def test_a_pin_may_be_at_its_bounds(pin: Pin) -> None:
    assert load(pins.to_dict(pin)) == pin


@pytest.mark.parametrize("pin", [Cron("0 2 * * 1-5", "Europe/Berlin", GRACE_MS), Interval(HOUR_MS, GRACE_MS), Never()])
def test_a_pin_survives_its_json(pin: Pin) -> None:
    assert pins.from_json(pins.to_json(pin)) == pin
    assert load(pins.to_dict(pin)) == pin


def test_no_pin_is_no_json() -> None:
    assert pins.to_json(None) is None
    assert pins.from_json(None) is None


@pytest.mark.parametrize(
    ("pin", "fields"),
    [
        (
            Cron("0 2 * * 1-5", "Europe/Berlin", GRACE_MS),
            {"cron": "0 2 * * 1-5", "timezone": "Europe/Berlin", "grace_seconds": 300},
        ),
        (Interval(HOUR_MS, 0), {"interval_seconds": 3600, "grace_seconds": 0}),
        (Never(), {"never": True}),
    ],
)
def test_the_fields_of_a_pin_are_in_seconds(pin: Pin, fields: dict[str, Any]) -> None:
    assert pins.to_dict(pin) == fields


def test_the_zone_and_the_grace_period_have_defaults() -> None:
    assert load({"cron": "0 2 * * *"}) == Cron("0 2 * * *", "UTC", MINUTE_MS)
    assert load({"interval_seconds": 3600}) == Interval(HOUR_MS, MINUTE_MS)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "Send cron"),
        ({"grace_seconds": 60}, "Send cron"),
        ({"timezone": "UTC"}, "Send cron"),
        ({"cron": "0 2 * * *", "interval_seconds": 60}, "Send cron"),
        ({"never": False}, "Send cron"),
        ({"never": True, "grace_seconds": 60}, "Send cron"),
        ({"cron": 5}, "Not a valid string"),
        ({"interval_seconds": "60"}, "Not a valid integer"),
        ({"interval_seconds": 60, "grace_seconds": 1.5}, "Not a valid integer"),
        ({"interval_seconds": 60, "grace_seconds": True}, "Not a valid integer"),
        ({"interval_seconds": YEAR_MS // SECOND_MS + 1}, "The interval must be"),
    ],
)
def test_fields_that_are_no_pin_are_refused_with_the_reason(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        load(fields)


def test_a_stored_pin_beyond_a_bound_can_still_be_read() -> None:
    stored = '{"interval_seconds": 600000000, "grace_seconds": 60}'
    assert pins.from_json(stored) == Interval(600_000_000 * SECOND_MS, MINUTE_MS)
