"""A job that stops is overdue soon after its next slot, and one that runs on schedule never is."""

import pytest

from obs.heartbeat.schedule import deadline, learn
from tests.heartbeat.schedule.jobs import (
    DAY,
    HOUR,
    MINUTE,
    at,
    cron,
    delayed,
    every_days,
    keeping_a_gap,
    slots,
)

SOON = 5 * MINUTE


def false_alarms(times: list[float], after: int) -> list[int]:
    """Which heartbeats came when the job had been overdue already, from the given one on."""
    return [n for n in range(after, len(times)) if (limit := deadline(times[:n])) and limit < times[n]]


@pytest.mark.parametrize(
    ("line", "zone"),
    [
        ("0 2 * * *", "UTC"),
        ("30 7 * * 1-5", "Europe/Berlin"),
        ("0 9 * * 1", "America/New_York"),
        ("15 3 * * 1,4", "UTC"),
        ("0 6,18 * * 6,0", "UTC"),
        ("5 4 1 * *", "UTC"),
        ("0 3 1,15 * *", "UTC"),
        ("0 5 L * *", "UTC"),
        ("0 3 * * 2#3", "UTC"),
        ("0 22 * * 5L", "UTC"),
        ("0 4 */3 * *", "UTC"),
        ("0 8,12,18 * * *", "UTC"),
        ("*/10 * * * *", "UTC"),
        ("*/7 * * * *", "UTC"),
        ("10,40 * * * *", "UTC"),
        ("*/15 8-17 * * 1-5", "UTC"),
        ("0 9-19 * * *", "Europe/Berlin"),
        ("* * * * *", "UTC"),
    ],
)
def test_a_job_that_stops_is_overdue_minutes_after_its_next_slot(line: str, zone: str) -> None:
    moments = slots(line, zone, "2025-01-10 00:00", 151)
    limit = deadline(delayed(moments[:150]))
    assert limit is not None
    assert moments[150] < limit < moments[150] + SOON


@pytest.mark.parametrize(
    ("line", "zone", "count"),
    [
        ("30 7 * * 1-5", "UTC", 260),  # a year
        ("0 2 * * *", "Europe/Berlin", 400),  # both clock changes
        ("30 2 * * *", "America/New_York", 400),  # a time that is skipped in March
        ("0 2 * * 0", "America/New_York", 110),
        ("0 0 1 1,4,7,10 *", "UTC", 16),
        ("0 4 31 * *", "UTC", 24),  # seven months have one
        ("0 4 29 * *", "UTC", 30),  # February 29 comes in 2028
        ("0 3 * * 1#1", "UTC", 30),
        ("*/20 * * * *", "UTC", 160),
    ],
)
def test_a_job_that_keeps_its_schedule_is_not_called_overdue(line: str, zone: str, count: int) -> None:
    assert false_alarms(cron(line, zone, "2025-01-10 00:00", count), after=12) == []


def test_weekly_after_three_heartbeats_is_not_daily() -> None:
    mondays = cron("0 9 * * 1", count=3)
    limit = deadline(mondays)
    assert limit is not None
    assert mondays[-1] + 6 * DAY < limit < mondays[-1] + 8 * DAY


def test_three_days_of_a_working_week_are_no_proof_of_a_job_on_saturday() -> None:
    wednesday_to_friday = cron("0 9 * * 1-5", since="2025-01-14 12:00", count=3)
    limit = deadline(wednesday_to_friday)
    assert limit is not None
    assert limit > at("2025-01-20 09:00")


def test_a_daily_job_of_a_month_is_overdue_on_the_saturday_it_misses() -> None:
    times = cron("0 9 * * *", since="2025-01-01 00:00", count=31)  # the last is a Friday
    limit = deadline(times)
    assert limit is not None
    assert at("2025-02-01 09:00") < limit < at("2025-02-01 09:05")


@pytest.mark.parametrize(
    ("zone", "before", "due"),
    [
        ("Europe/Berlin", "2025-03-29 12:00", "2025-03-30 06:00"),
        ("Europe/Berlin", "2025-10-25 12:00", "2025-10-26 06:00"),
        ("America/New_York", "2025-03-08 12:00", "2025-03-09 06:00"),
        ("America/New_York", "2025-11-01 12:00", "2025-11-02 06:00"),
    ],
)
def test_a_zone_that_was_seen_to_change_its_clock_is_followed_the_next_time(zone: str, before: str, due: str) -> None:
    times = [t for t in cron("0 6 * * *", zone, "2024-01-10 00:00", 800) if t < at(before, zone)]
    limit = deadline(times)
    assert limit is not None
    assert at(due, zone) < limit < at(due, zone) + SOON


def test_the_first_clock_change_is_waited_out_while_the_zone_is_open() -> None:
    times = [t for t in cron("0 6 * * *", "UTC", "2025-07-10 00:00", 200) if t < at("2025-10-25 12:00")]
    limit = deadline(times)
    assert limit is not None
    assert limit > at("2025-10-26 07:00")  # 06:00 UTC was 08:00 in Berlin, and is now 07:00 UTC


def test_a_drifting_job_is_due_its_gap_after_the_last_run() -> None:
    times = keeping_a_gap(45 * MINUTE, 100)
    limit = deadline(times)
    assert limit is not None
    assert times[-1] + 45 * MINUTE < limit < times[-1] + 45 * MINUTE + SOON


@pytest.mark.parametrize("step", [2, 5, 10, 14])
def test_every_so_many_days(step: int) -> None:
    times = every_days(step, 3, 40)
    limit = deadline(times)
    assert limit is not None
    assert 0 < limit - (times[-1] + step * DAY) < SOON


def test_extra_manual_runs_do_not_change_what_is_expected() -> None:
    times = cron("0 2 * * *", since="2025-01-10 00:00", count=40)
    limit = deadline(sorted([*times, times[10] + 5 * HOUR, times[22] + 9 * HOUR, times[-1] + 3 * HOUR]))
    assert limit is not None
    assert 0 < limit - (times[-1] + DAY) < SOON


def test_an_outage_of_three_days_is_not_taken_for_the_schedule() -> None:
    times = cron("0 * * * *", count=200)
    limit = deadline([t for t in times if not times[100] < t < times[100] + 3 * DAY])
    assert limit is not None
    assert 0 < limit - (times[-1] + HOUR) < SOON


def test_after_a_change_of_schedule_the_old_one_is_forgotten() -> None:
    old = cron("0 2 * * *", since="2025-01-10 00:00", count=60)
    new = cron("30 14 * * *", since="2025-03-11 12:00", count=12)
    limit = deadline(old + new)
    assert limit is not None
    assert 0 < limit - (new[-1] + DAY) < SOON
    assert learn(old + new).first == new[0]


def test_a_few_days_of_being_later_and_later_are_no_new_schedule() -> None:
    """As on a hosted scheduler that is busy: had the past been forgotten, the next run would be called overdue."""
    usual = delayed(slots("0 1 * * *", "UTC", "2025-01-10 00:00", 71), typical=240.0)
    late = [usual[-1] + n * (DAY + 12.6 * MINUTE) + (0, 40, -30, 20, -50)[n - 1] for n in range(1, 6)]
    assert learn(usual + late).first == usual[0]


def test_a_run_later_than_twice_the_longest_gap_was_missed() -> None:
    """Four or five weeks between the first Mondays of months are no reason to wait for years."""
    times = cron("0 9 * * 1#1", since="2025-01-01 12:00", count=9)
    limit = deadline(times)
    assert limit is not None
    assert limit < times[-1] + 5 * 7 * DAY + 2 * 5 * 7 * DAY + HOUR


def test_a_job_made_weekly_is_not_overdue_every_day() -> None:
    old = cron("0 2 * * *", since="2025-01-10 00:00", count=60)
    new = cron("0 2 * * 3", since="2025-03-11 12:00", count=10)
    limit = deadline(old + new)
    assert limit is not None
    assert 0 < limit - (new[-1] + 7 * DAY) < SOON


def test_a_scheduler_that_often_skips_is_given_the_time_it_usually_takes() -> None:
    times = [t for n, t in enumerate(cron("0 * * * *", count=240)) if n % 7 not in (2, 3) or n > 236]
    limit = deadline(times)
    assert limit is not None
    assert 2 * HOUR < limit - times[-1] < 5 * HOUR


@pytest.mark.parametrize(("gap", "needed"), [(DAY, 3), (10 * MINUTE, 3), (60, 8), (15, 8)])
def test_the_first_answer_comes_after_three_heartbeats_or_eight_of_a_frequent_job(gap: float, needed: int) -> None:
    times = [at("2025-01-10 03:00") + n * gap for n in range(needed)]
    assert deadline(times[:-1]) is None
    assert deadline(times) is not None


def test_only_the_last_256_heartbeats_count() -> None:
    times = cron("0 * * * *", count=400)
    assert learn(times).seen == 256
    assert deadline(times) == deadline(times[-256:])


def test_heartbeats_within_two_seconds_are_one() -> None:
    times = cron("0 2 * * *", count=10)
    echoed = sorted([*times, *(t + 1.5 for t in times)])
    assert learn(echoed) == learn(times)
