"""Durations, intervals, schedules, bars and calendars in words."""

import re
from collections.abc import Mapping
from datetime import date
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest
from flask import Flask

from obs.dashboard import drawings, schedules, wording
from obs.dashboard.drawings import Bar
from obs.heartbeat.pins import Cron, Interval, Pin
from obs.heartbeat.runs import PROBLEMS
from obs.heartbeat.store.jobs import Job
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, interval_words, parse_iso

NOW_MS = 20_000 * DAY_MS


@pytest.mark.parametrize(
    ("length_ms", "words"),
    [
        (0, "0 ms"),
        (340, "340 ms"),
        (4_240, "4.2 s"),
        (5_000, "5 s"),
        (59_600, "1 min"),
        (252_000, "4 min 12 s"),
        (59 * MINUTE_MS + 59_800, "1 h"),
        (3 * HOUR_MS + 5 * MINUTE_MS, "3 h 5 min"),
        (2 * DAY_MS + 4 * HOUR_MS, "2 d 4 h"),
    ],
)
def test_durations(length_ms: int, words: str) -> None:
    assert wording.duration(length_ms) == words


@pytest.mark.parametrize(
    ("length_ms", "words"),
    [
        (MINUTE_MS, "every minute"),
        (HOUR_MS + 20 * SECOND_MS, "hourly"),
        (DAY_MS, "daily"),
        (7 * DAY_MS, "weekly"),
        (14 * DAY_MS, "every 2 weeks"),
        (3 * DAY_MS, "every 3 days"),
        (15 * MINUTE_MS + 400, "every 15 min"),
        (90 * MINUTE_MS, "every 90 min"),
    ],
)
def test_intervals(length_ms: int, words: str) -> None:
    assert interval_words(length_ms) == words


@pytest.mark.parametrize(
    ("moment_ms", "words"),
    [
        (NOW_MS, "just now"),
        (NOW_MS - MINUTE_MS, "1 min ago"),
        (NOW_MS + 5 * HOUR_MS, "in 5 h"),
        (NOW_MS - 12 * SECOND_MS, "12 s ago"),
        (NOW_MS - 47 * HOUR_MS - 59 * MINUTE_MS, "1 d 23 h ago"),
        (NOW_MS - 48 * HOUR_MS, "2 d ago"),
    ],
)
def test_moments(moment_ms: int, words: str) -> None:
    assert wording.ago(moment_ms, NOW_MS).striptags() == words


def test_bars_are_as_high_as_runs_were_long_and_failures_have_a_foot() -> None:
    runs = (Bar(0, "success", 1000), Bar(DAY_MS, "failed", 2000), Bar(2 * DAY_MS, "lost", None))
    drawn = str(drawings.draw_bars(runs))
    assert 'class="bar-success" d="M27 9V5h1V9"' in drawn
    assert 'class="bar-failed" d="M28 11V0h1V11"' in drawn
    assert 'class="bar-lost" d="M29 11V5h1V11"' in drawn
    assert "Last 3 runs: 1 succeeded, 1 failed, 1 lost" in drawn


def test_runs_of_one_length_are_one_step_and_gaps_are_drawn_before_the_run_that_came() -> None:
    runs = tuple(Bar(day * DAY_MS, "success", 1000) for day in range(4))
    drawn = str(drawings.draw_bars(runs, (0, 0, 1, 0, 2)))
    assert 'class="bar-success" d="M23 9V0h1h1V9M26 9V0h1h1V9"' in drawn
    assert 'class="bar-gap" d="M25 9V8h1V9M28 9V8h1h1V9"' in drawn
    assert "Last 4 runs: 4 succeeded, 3 missed" in drawn


WEEKDAYS = schedules.Due("0 2 * * 1-5", "UTC", DAY_MS)


def at_two(*days: int) -> tuple[int, ...]:
    """Moments a little after 02:00 on days since a Monday."""
    return tuple((20_003 + day) * DAY_MS + 2 * HOUR_MS + 5 * SECOND_MS for day in days)


@pytest.mark.parametrize(
    ("starts", "due", "counts"),
    [
        (at_two(0, 1, 2, 3, 4, 7, 8), WEEKDAYS, (0, 0, 0, 0, 0, 0, 0)),
        (at_two(0, 1, 3, 4, 8), WEEKDAYS, (0, 0, 1, 0, 1)),
        (at_two(0, 4), WEEKDAYS, (0, 3)),
        (at_two(0, 1, 2, 5), schedules.Due("", "UTC", DAY_MS), (0, 0, 0, 2)),
        ((), WEEKDAYS, ()),
        (at_two(0), WEEKDAYS, (0,)),
        # It ran once a week before it ran each weekday: nothing was missed then.
        (at_two(-63, -56, -49, -42, -35, -28, -21, -14, -7, 0), WEEKDAYS, (0,) * 10),
    ],
)
def test_missed_runs_are_counted_by_the_schedule(
    starts: tuple[int, ...], due: schedules.Due, counts: tuple[int, ...]
) -> None:
    assert schedules.missed_before_each(starts, due) == counts


@pytest.mark.parametrize(
    ("pin", "expected_after_ms", "silent_ms", "count"),
    [
        (Cron(WEEKDAYS.cron, WEEKDAYS.zone), 3 * DAY_MS, 4 * DAY_MS, 2),
        # A run is missed when it was due, not a moment before.
        (Cron(WEEKDAYS.cron, WEEKDAYS.zone), 3 * DAY_MS, 4 * DAY_MS - 30 * SECOND_MS, 1),
        (Interval(HOUR_MS), HOUR_MS, 3 * DAY_MS, 72),
        (Interval(HOUR_MS), HOUR_MS, HOUR_MS + MINUTE_MS, 1),
        (Interval(HOUR_MS), HOUR_MS, 2 * HOUR_MS - MINUTE_MS, 1),
    ],
)
def test_missed_runs_since_the_last_run_are_counted(
    pin: Pin, expected_after_ms: int, silent_ms: int, count: int
) -> None:
    (friday,) = at_two(4)
    job = SimpleNamespace(pin=pin, interval_ms=DAY_MS, overdue=True, expected_at=friday + expected_after_ms)
    assert schedules.missed_until_now(cast("Job", job), friday + silent_ms) == count


UTC = ZoneInfo("UTC")
FRIDAY = date(2024, 10, 4).toordinal()


def drawn_days(app: Flask, results: schedules.Results, missed: Mapping[int, int], today: int) -> str:
    macros: Any = app.jinja_env.get_template("job/calendar.html").module
    return str(macros.draw_calendar(drawings.calendar(results, missed, FRIDAY - 10, today), PROBLEMS))


def test_a_day_of_the_calendar_shows_its_worst_result(app: Flask) -> None:
    drawn = drawn_days(app, {FRIDAY: {"success": 3, "failed": 1}}, {}, FRIDAY + 1)
    assert "<title>Fri 04 Oct 2024: 1 failed, 3 succeeded</title>" in drawn
    assert "runs on 1 day, failed or lost runs on 1 day" in drawn


def test_the_calendar_distinguishes_missed_days_from_days_without_a_scheduled_run(app: Flask) -> None:
    now_ms = 20_000 * DAY_MS + 12 * HOUR_MS  # the same Friday
    days = drawings.days(now_ms, UTC)
    weekdays = (day for day in days if date.fromordinal(day).weekday() < 5)
    came = {day: {"success": 1} for day in weekdays if day != FRIDAY - 2}
    due = schedules.Due("0 2 * * 1-5", "Europe/Berlin", DAY_MS)
    missed = schedules.missed_by_day(due, came, days, 0, now_ms)
    assert {day: count for day, count in missed.items() if count} == {FRIDAY - 2: 1}
    drawn = drawn_days(app, came, missed, FRIDAY)
    assert "<title>Wed 02 Oct 2024: 1 missed</title>" in drawn
    assert drawn.count("day-missed") == 1
    assert "missed on 1 day" in drawn


def by_day(runs: dict[int, int]) -> dict[int, dict[str, int]]:
    return {FRIDAY - ago: {"success": count} for ago, count in runs.items() if count}


NIGHT = schedules.Due("*/10 * * * *", "UTC", 10 * MINUTE_MS)
GAP = schedules.Due("", "UTC", 10 * MINUTE_MS)


@pytest.mark.parametrize(
    ("due", "runs", "hour", "expected"),
    [
        (NIGHT, {3: 144, 2: 102, 1: 144, 0: 73}, 12, {2: 42}),  # seven hours of silence
        (NIGHT, {2: 144, 1: 144, 0: 30}, 12, {0: 43}),  # today: the slot of this moment counts
        (GAP, {3: 144, 2: 102, 1: 144, 0: 72}, 12, {2: 26}),  # a tenth less: an interval is not exact
        (GAP, {3: 140, 2: 136, 1: 144, 0: 70}, 12, {}),
        (schedules.Due("* * * * *", "UTC", MINUTE_MS), {1: 1440, 0: 300}, 10, {0: 239}),
        (NIGHT, {9: 1, 8: 1, 7: 1, 6: 1, 5: 1, 4: 1, 3: 144, 2: 144, 1: 144, 0: 73}, 12, {}),  # once a day before
        (NIGHT, {3: 144, 0: 73}, 12, {2: 144, 1: 144}),  # silent for two days
        (schedules.Due("0 * * * *", "UTC", HOUR_MS), {3: 10, 0: 13}, 12, {2: 24, 1: 24}),  # purged before day 3
        (NIGHT, {}, 12, {}),
        (None, {2: 1, 0: 1}, 12, {}),
    ],
)
def test_missed_runs_are_counted_by_day(
    due: schedules.Due | None, runs: dict[int, int], hour: int, expected: dict[int, int]
) -> None:
    now_ms = 20_000 * DAY_MS + hour * HOUR_MS
    missed = schedules.missed_by_day(due, by_day(runs), drawings.days(now_ms, UTC), 0, now_ms)
    assert {FRIDAY - day: count for day, count in missed.items() if count} == expected


def test_nothing_is_missed_before_the_first_heartbeat() -> None:
    noon = 20_000 * DAY_MS + 12 * HOUR_MS
    missed = schedules.missed_by_day(NIGHT, by_day({0: 7}), drawings.days(noon, UTC), noon - HOUR_MS, noon)
    assert sum(missed.values()) == 0


@pytest.mark.parametrize(
    ("due", "runs", "expected"),
    [
        (schedules.Due("0 2 * * *", "UTC", DAY_MS), {3: 1, 1: 1, 0: 1}, {2: 1}),
        (schedules.Due("0 */2 * * *", "UTC", 2 * HOUR_MS), {3: 11, 2: 11, 1: 12, 0: 7}, {2: 1}),
        (schedules.Due("0 */2 * * *", "UTC", 2 * HOUR_MS), {3: 10, 2: 12, 1: 12, 0: 7}, {3: 1}),
    ],
)
def test_a_missed_run_of_the_second_day_counts_although_the_first_run_was_a_little_late(
    due: schedules.Due, runs: dict[int, int], expected: dict[int, int]
) -> None:
    noon = 20_000 * DAY_MS + 12 * HOUR_MS
    first_ms = 19_997 * DAY_MS + 2 * HOUR_MS + 5_000
    missed = schedules.missed_by_day(due, by_day(runs), drawings.days(noon, UTC), first_ms, noon)
    assert {FRIDAY - day: count for day, count in missed.items() if count} == expected


@pytest.mark.parametrize(
    ("counts", "missed", "parts"),
    [
        ({"success": 48}, 0, [("success", 13)]),
        ({"success": 46, "failed": 2}, 0, [("success", 13), ("failed", 3)]),
        ({"success": 102}, 42, [("success", 13), ("missed", 4)]),
        ({"success": 1, "failed": 3}, 0, [("success", 13), ("failed", 10)]),
        ({"failed": 2, "lost": 3}, 1, [("lost", 13), ("lost", 13)]),
        ({}, 5, [("none", 13), ("missed", 13)]),
    ],
)
def test_a_day_is_filled_by_its_share_of_problems(
    app: Flask, counts: dict[str, int], missed: int, parts: list[tuple[str, int]]
) -> None:
    drawn = drawn_days(app, {FRIDAY: counts} if counts else {}, {FRIDAY: missed}, FRIDAY)
    cell = drawn[drawn.index("Fri 04 Oct 2024") :]
    assert [(name, int(height)) for name, height in re.findall(r'day-(\w+)"[^>]*height="(\d+)"', cell)] == parts
    assert ("mark-" in cell) == (parts[-1][0] != "success" and parts[-1][1] >= 10)


def test_a_run_at_midnight_that_arrives_a_moment_later_is_not_missed() -> None:
    now_ms = 20_000 * DAY_MS + 12 * HOUR_MS
    arrived = by_day({10: 2, **dict.fromkeys((9, 8, 7, 6, 4, 3, 2, 1), 1)})
    due = schedules.Due("0 0 * * *", "UTC", DAY_MS)
    missed = schedules.missed_by_day(due, arrived, drawings.days(now_ms, UTC), 0, now_ms)
    assert [FRIDAY - day for day, count in missed.items() if count] == [0, 5]


def test_the_days_of_a_zone_follow_its_clock_changes() -> None:
    now_ms = parse_iso("2026-10-26T12:00:00Z")
    days = list(drawings.days(now_ms, ZoneInfo("Europe/Berlin")).values())
    assert len(days) == drawings.DAYS
    assert [earlier[1] == later[0] for earlier, later in pairwise(days)] == [True] * (drawings.DAYS - 1)
    assert days[-2] == (parse_iso("2026-10-24T22:00:00Z"), parse_iso("2026-10-25T23:00:00Z"))  # 25 hours
