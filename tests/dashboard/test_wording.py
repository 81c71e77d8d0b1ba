"""Durations, intervals and bars as a person reads them."""

import pytest

from obs.dashboard import bars, calendar, wording
from obs.dashboard.bars import Bar
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS


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
        (HOUR_MS + 20 * SECOND_MS, "every hour"),
        (DAY_MS, "every day"),
        (7 * DAY_MS, "every week"),
        (14 * DAY_MS, "every 2 weeks"),
        (3 * DAY_MS, "every 3 days"),
        (15 * MINUTE_MS + 400, "every 15 min"),
        (90 * MINUTE_MS, "every 90 min"),
    ],
)
def test_intervals(length_ms: int, words: str) -> None:
    assert wording.interval(length_ms) == words


@pytest.mark.parametrize(
    ("moment_ms", "words"),
    [(100_000, "just now"), (40_000, "1 min ago"), (100_000 + 5 * HOUR_MS, "in 5 h"), (88_000, "12 s ago")],
)
def test_moments(moment_ms: int, words: str) -> None:
    assert wording.relative(moment_ms, 100_000) == words


@pytest.mark.parametrize(
    ("count", "words"), [(812, "812 B"), (1536, "1.5 KB"), (16_781_312, "16 MB"), (1 << 30, "1.0 GB")]
)
def test_sizes(count: int, words: str) -> None:
    assert wording.size(count) == words


def test_bars_are_as_high_as_runs_were_long_and_failures_have_a_foot() -> None:
    runs = (Bar(0, "success", 1000), Bar(DAY_MS, "failed", 2000), Bar(2 * DAY_MS, "lost", None))
    drawn = str(bars.draw(runs, DAY_MS))
    assert 'class="bar-success" d="M165 24V13"' in drawn
    assert 'class="bar-failed" d="M171 24V2"' in drawn
    assert 'class="bar-foot" d="M171 26v3M177 26v3"' in drawn
    assert "Last 3 runs: 1 success, 1 failed, 1 lost" in drawn


def test_a_weekend_is_no_gap() -> None:
    weekdays = tuple(Bar(day * DAY_MS, "success", 1000) for day in range(30) if day % 7 < 5)
    assert "did not come" not in str(bars.draw(weekdays, DAY_MS))


def test_a_day_of_the_calendar_shows_its_loudest_outcome() -> None:
    drawn = str(calendar.draw({20_000: {"success": 3, "failed": 1}}, {}, 19_990 * DAY_MS, 20_001 * DAY_MS))
    assert "<title>Fri 04 Oct 2024: 1 failed, 3 success</title>" in drawn
    assert "runs on 1, failed or lost runs on 1" in drawn


def test_the_calendar_tells_a_day_whose_runs_did_not_come_from_one_without_any_due() -> None:
    now_ms = 20_000 * DAY_MS + 12 * HOUR_MS  # a Friday
    due = calendar.due_by_day("0 2 * * 1-5", "Europe/Berlin", now_ms - 14 * DAY_MS, now_ms)
    assert due == {day: 1 for day in range(19_987, 20_001) if day % 7 not in (2, 3)}
    came = {day: {"success": 1} for day in due if day != 19_998}
    drawn = str(calendar.draw(came, due, 19_990 * DAY_MS, now_ms))
    assert "<title>Wed 02 Oct 2024: no runs; 1 due</title>" in drawn
    assert drawn.count("day-missed") == 1
    assert "none although due on 1" in drawn


def test_a_run_at_midnight_that_comes_a_moment_later_is_not_missed() -> None:
    now_ms = 20_000 * DAY_MS + 12 * HOUR_MS
    due = dict.fromkeys(range(19990, 20000), 1)
    came = {day + 1: {"success": 1} for day in due}
    assert "day-missed" not in str(calendar.draw(came, due, 19_990 * DAY_MS, now_ms))
