"""A pinned schedule is judged as it was told, clock changes included."""

import pytest

from obs.heartbeat.schedule import Cron, Expectation, Interval, Never, check, expect
from tests.heartbeat.schedule.jobs import at


@pytest.mark.parametrize(
    ("line", "zone", "last", "due"),
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
def test_a_cron_line_is_due_at_its_next_moment_after_the_last_heartbeat(
    line: str, zone: str, last: str, due: str
) -> None:
    assert expect(Cron(line, zone, grace=300), at(last, zone)) == Expectation(at(due, zone), at(due, zone) + 300)


def test_a_daily_line_runs_once_where_its_time_comes_twice() -> None:
    first = at("2025-10-26 02:30", "Europe/Berlin")
    assert expect(Cron("30 2 * * *", "Europe/Berlin"), first).expected_at == at("2025-10-27 02:30", "Europe/Berlin")


def test_an_hourly_line_runs_in_both_of_the_hours_that_come_twice() -> None:
    first = at("2025-10-26 02:00", "Europe/Berlin")
    assert expect(Cron("0 * * * *", "Europe/Berlin"), first).expected_at == first + 3600


def test_an_interval() -> None:
    assert expect(Interval(3600, grace=120), 1000.0) == Expectation(4600.0, 4720.0)


def test_never() -> None:
    assert expect(Never(), 1000.0) == Expectation(None, None)


@pytest.mark.parametrize(
    ("pin", "says"),
    [
        (Cron("61 * * * *"), "is not a cron line"),
        (Cron("every day"), "is not a cron line"),
        (Cron("0 0 30 2 *"), "is not a cron line"),
        (Cron("0 2 * * *", "Europe/Bonn"), "is not a time zone"),
        (Cron("0 2 * * *", "../etc/passwd"), "is not a time zone"),
        (Cron("0 2 * * *", grace=-1), "grace"),
        (Interval(0), "interval"),
        (Interval(float("nan")), "interval"),
        (Interval(60, grace=float("inf")), "grace"),
    ],
)
def test_what_cannot_be_pinned_is_said(pin: Cron | Interval, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        check(pin)
