"""The buckets of EVERY: how long they are, where they start, and what the clocks of a time zone make of that."""

from collections.abc import Callable
from typing import Any

import pytest

Ask = Callable[..., dict[str, Any]]
pytestmark = pytest.mark.usefixtures("shop")


@pytest.mark.parametrize(
    ("window", "starts"),
    [
        # clocks go forward on 2026-03-29 and back on 2026-10-25: days of 23 and 25 hours
        ("EVERY 1d BETWEEN '2026-03-28T23:00Z' AND '2026-03-30T22:00Z'", ["2026-03-28T23", "2026-03-29T22"]),
        ("EVERY 1d BETWEEN '2026-10-24T22:00Z' AND '2026-10-26T23:00Z'", ["2026-10-24T22", "2026-10-25T23"]),
        # an hour that the clocks skip is no bucket, one that they show twice is two
        (
            "EVERY 1h BETWEEN '2026-03-29T00:00Z' AND '2026-03-29T03:00Z'",
            ["2026-03-29T00", "2026-03-29T01", "2026-03-29T02"],
        ),
        (
            "EVERY 1h BETWEEN '2026-10-25T00:00Z' AND '2026-10-25T03:00Z'",
            ["2026-10-25T00", "2026-10-25T01", "2026-10-25T02"],
        ),
        (
            "EVERY 6h BETWEEN '2026-10-24T22:00Z' AND '2026-10-25T12:00Z'",
            ["2026-10-24T22", "2026-10-25T05", "2026-10-25T11"],
        ),
    ],
)
def test_buckets_follow_the_clocks_of_a_time_zone(ask: Ask, write: Any, window: str, starts: list[str]) -> None:
    """A run at every half hour of the window: none is lost, each is in the bucket that it belongs to."""
    answer = ask(f"SELECT count(*) FROM runs {window} TIMEZONE 'Europe/Berlin'")
    assert [row[0] for row in answer["rows"]] == [f"{start}:00:00.000Z" for start in starts]


def test_a_day_of_25_hours_holds_25_runs(ask: Ask, write: Any) -> None:
    first = 1_792_879_200_000  # 2026-10-24T22:00Z, midnight in Berlin
    write(
        lambda db: db.executemany(
            "INSERT INTO runs (job_id, status, started_at, heartbeat_at) VALUES (1, 1, ?, 0)",
            [(first + hour * 3_600_000,) for hour in range(-24, 49)],
        )
    )
    answer = ask(
        "SELECT count(*) FROM runs EVERY 1d TIMEZONE 'Europe/Berlin' BETWEEN '2026-10-23T22' AND '2026-10-26T23'"
    )
    assert [row[1] for row in answer["rows"]] == [24, 25, 24]
    answer = ask(
        "SELECT count(*) FROM runs EVERY 1d TIMEZONE 'Europe/Berlin' COMPARE WITH 1d AGO "
        "BETWEEN '2026-10-24T22' AND '2026-10-26T23'"
    )
    assert [row[1:] for row in answer["rows"]] == [[25, 24], [24, 25]]


def test_an_earlier_day_with_two_midnights_begins_at_the_first(ask: Ask, write: Any) -> None:
    """In Havana, the clocks go back from 01:00 to 00:00 on the first of November."""
    at = 1_793_507_400_000  # 2026-11-01T04:30Z, between the two
    write(
        lambda db: db.execute("INSERT INTO runs (job_id, status, started_at, heartbeat_at) VALUES (1, 1, ?, 0)", (at,))
    )
    window = "COMPARE WITH 6d AGO BETWEEN '2026-11-07T05:00Z' AND '2026-11-08T05:00Z'"
    assert ask(f"SELECT count(*) FROM runs TIMEZONE 'America/Havana' {window}")["rows"] == [[0, 1]]


def test_clocks_that_change_twice_within_a_week(ask: Ask, write: Any) -> None:
    """Recife had summer time from the 8th to the 14th of October 2000."""
    at = 971_179_200_000  # 2000-10-10T12:00Z
    write(
        lambda db: db.execute("INSERT INTO runs (job_id, status, started_at, heartbeat_at) VALUES (1, 1, ?, 0)", (at,))
    )
    window = "BETWEEN '2000-10-08T02:30Z' AND '2000-10-20'"
    assert ask(f"SELECT hour(time) FROM runs TIMEZONE 'America/Recife' {window}")["rows"] == [[10]]


def test_a_window_at_the_end_of_the_calendar(ask: Ask) -> None:
    last_days = "BETWEEN '9999-12-30' AND '9999-12-31T23:59:59Z'"
    assert len(ask(f"SELECT count(*) FROM runs EVERY 1d {last_days}")["rows"]) == 2
    assert ask(f"SELECT count(*) FROM runs EVERY 1d {last_days} TIMEZONE 'Asia/Tokyo'", 400)["error"] == "oql_bad_time"


def test_every_auto_takes_the_shortest_interval_that_is_not_too_short(ask: Ask) -> None:
    for window, buckets in (("5m", 300), ("301s", 61), ("1h", 120), ("1d", 288), ("90d", 181)):
        assert len(ask(f"SELECT count(*) FROM runs EVERY AUTO LAST {window}")["rows"]) == buckets
