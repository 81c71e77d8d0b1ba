"""What was learned is said as a person would say it, with the cron line it amounts to."""

import re

import pytest

from obs.heartbeat.schedule import describe, learn
from obs.heartbeat.schedule.words import span
from tests.heartbeat.schedule.jobs import DAY, at, cron, delayed, every_days, keeping_a_gap


@pytest.mark.parametrize(
    ("line", "zone", "summary"),
    [
        ("0 2 * * *", "UTC", "Every day at 02:00, UTC"),
        ("0 2 * * 1-5", "Europe/Berlin", "Weekdays at 02:00, Europe/Berlin"),
        ("30 9 * * 1", "UTC", "Mondays at 09:30, UTC"),
        ("0 6,18 * * 0,6", "UTC", "Weekends at 06:00 and 18:00, UTC"),
        ("0 3 * * 2,4", "UTC", "Tuesdays and Thursdays at 03:00, UTC"),
        ("5 4 1,15 * *", "UTC", "Day 1 and 15 of the month at 04:05, UTC"),
        ("5 4 10 1,4,7,10 *", "UTC", "Day 10 of Jan, Apr, Jul and Oct at 04:05, UTC"),
        ("0 5 L * *", "UTC", "The last day of the month at 05:00, UTC"),
        ("0 3 * * 2#3", "UTC", "The third Tuesday of the month at 03:00, UTC"),
        ("0 22 * * 5L", "UTC", "The last Friday of the month at 22:00, UTC"),
        ("0 4 1-31/3 * *", "UTC", "Every 3 days of the month from day 1 at 04:00, UTC"),
        ("17 * * * *", "UTC", "Every hour at :17, UTC"),
        ("*/10 * * * *", "UTC", "Every 10 min, UTC"),
        ("* * * * *", "UTC", "Every minute, UTC"),
        ("5,25 * * * *", "UTC", "Every hour at :05 and :25, UTC"),
        ("0,30 8-17 * * 1-5", "UTC", "Every 30 min from 08:00 to 17:59, weekdays, UTC"),
    ],
)
def test_a_cron_line_is_learned_back(line: str, zone: str, summary: str) -> None:
    count = 24 if " 1,4,7,10 " in line else 200 if zone != "UTC" or "0,30" in line else 80
    told = describe(learn(cron(line, zone, count=count)))
    assert told.summary == summary
    assert told.cron == line
    assert told.zone == zone
    assert told.state == "regular"
    assert told.evidence == f"{count} of {count} runs fit"
    assert told.confidence > 0.75


def test_what_is_expected_is_said_with_the_reason() -> None:
    fridays = cron("0 2 * * 1-5", since="2025-01-10 00:00", count=81)  # the last is Friday, 2 May
    told = describe(learn(fridays))
    assert re.fullmatch(
        r"expected Mon 02:00, overdue at 02:01 because starts have been up to \d+ s late", told.expected
    )


def test_an_overdue_moment_of_another_day_is_said_with_its_day() -> None:
    wednesday_to_friday = cron("0 9 * * 1-5", since="2025-01-14 12:00", count=3)
    told = describe(learn(wednesday_to_friday))
    assert re.fullmatch(r"expected Sat 09:00, overdue at Mon 09:0\d because it may be due only then", told.expected)


def test_two_runs_of_three() -> None:
    told = describe(learn(cron("0 2 * * *", count=2)))
    assert (told.state, told.summary) == ("learning", "learning, 2 of 3 runs seen")
    assert (told.cron, told.expected, told.confidence) == (None, "", 0.0)


def test_nothing_yet() -> None:
    assert describe(learn([])).summary == "learning, 0 of 3 runs seen"


def test_a_gap_is_no_cron_line() -> None:
    told = describe(learn(keeping_a_gap(2700, 60)))
    assert re.fullmatch(r"45 min \d+ s after the run before", told.summary)
    assert told.cron is None


def test_every_five_days_is_no_cron_line() -> None:
    told = describe(learn(every_days(5, 3, 40)))
    assert told.summary == "Every 5 days at 03:00, UTC"
    assert told.cron is None


def test_no_regular_schedule() -> None:
    told = describe(learn(delayed([at("2025-01-10 00:00")] * 60, typical=20 * DAY)))
    assert (told.state, told.summary, told.cron) == ("irregular", "no regular schedule", None)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "0 s"), (59.6, "1 min"), (252, "4 min 12 s"), (10800, "3 h"), (190800, "2 d 5 h"), (86430, "1 d")],
)
def test_spans(seconds: float, words: str) -> None:
    assert span(seconds) == words
