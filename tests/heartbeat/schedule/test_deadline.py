"""A job that stops is overdue soon after its next slot. A job that runs on schedule is never overdue."""

import random
from itertools import pairwise
from operator import add
from statistics import median

import pytest

from obs.heartbeat.schedule import ZONES, deadline, describe, learn
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, WEEK_MS
from tests.heartbeat.schedule.jobs import at, cron, delayed, every_days, keeping_a_gap, slots

SOON_MS = 5 * MINUTE_MS


def overdue_at(times: list[int]) -> int:
    """The time from which silence after these heartbeats means overdue."""
    found = learn(times).overdue_at
    assert found is not None
    return found


def false_alarms(times: list[int], after: int) -> list[int]:
    """The indexes, from `after` on, of heartbeats that came when the job was already overdue."""
    found, fit = [], None
    for index in range(after, len(times)):
        fit = learn(times[:index], previous=fit)
        if fit.overdue_at is not None and fit.overdue_at < times[index]:
            found.append(index)
    return found


@pytest.mark.parametrize(
    ("expression", "zone"),
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
def test_a_job_that_stops_is_overdue_minutes_after_its_next_slot(expression: str, zone: str) -> None:
    due = slots(expression, zone, "2025-01-10 00:00", 151)
    assert due[150] < overdue_at(delayed(due[:150])) < due[150] + SOON_MS


@pytest.mark.parametrize(
    ("expression", "zone", "count"),
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
def test_a_job_that_keeps_its_schedule_is_never_overdue(expression: str, zone: str, count: int) -> None:
    assert false_alarms(cron(expression, zone, "2025-01-10 00:00", count), after=12) == []


def test_a_weekly_job_is_not_taken_for_a_daily_one_after_three_heartbeats() -> None:
    mondays = cron("0 9 * * 1", count=3)
    limit = overdue_at(mondays)
    assert mondays[-1] + 6 * DAY_MS < limit < mondays[-1] + 8 * DAY_MS


def test_three_working_days_do_not_prove_that_a_job_runs_on_saturday() -> None:
    wednesday_to_friday = cron("0 9 * * 1-5", since="2025-01-14 12:00", count=3)
    limit = overdue_at(wednesday_to_friday)
    assert limit > at("2025-01-20 09:00")


@pytest.mark.parametrize(
    "expression",
    ["*/10 8-11,13-17 * * 1-5", "*/5 10-11,13-15 * * 1-5", "* 8-11,13-17 * * *"],
    ids=["every 10 min", "a stock exchange", "every minute"],
)
def test_a_break_in_the_day_is_learned_and_a_death_beside_it_is_reported_in_minutes(expression: str) -> None:
    due = [time for time in slots(expression, "UTC", "2025-01-06 00:00", 20_000) if time < at("2025-01-30 15:00")]
    times = delayed(due)
    last_days = next(index for index, time in enumerate(times) if time > at("2025-01-28 09:00"))
    assert false_alarms(times, after=last_days) == []
    for died in ("2025-01-30 11:30", "2025-01-30 14:35"):
        before = [time for time in times if time < at(died)]
        assert overdue_at(before) < before[-1] + 15 * MINUTE_MS


def test_heartbeats_in_pairs_are_learned_like_single_ones() -> None:
    """A second apart, they may be on either side of a border of the grid by which the memory is thinned."""
    rng = random.Random(1)
    firsts = [at("2025-01-06 00:00") + slot * 5 * MINUTE_MS + rng.randrange(500, 2_000) for slot in range(1_200)]
    times = [time for first in firsts for time in (first, first + 1_500)]
    assert overdue_at(times) < times[-1] + 6 * MINUTE_MS


@pytest.mark.parametrize("jitter_ms", [10 * MINUTE_MS, HOUR_MS])
def test_three_working_days_with_random_delays_do_not_either(jitter_ms: int) -> None:
    """As by RandomizedDelaySec of systemd."""
    due, monday = slots("0 9 * * 1-5", "UTC", "2025-01-14 12:00", 3), at("2025-01-20 09:00")
    delays = [[random.Random(seed * 3 + n).randrange(jitter_ms) for n in range(3)] for seed in range(100)]
    alarms = [overdue_at(list(map(add, due, some))) < monday for some in delays]
    assert sum(alarms) <= 4


def test_a_job_that_ran_daily_for_a_month_is_overdue_on_the_saturday_it_misses() -> None:
    times = cron("0 9 * * *", since="2025-01-01 00:00", count=31)  # the last is a Friday
    limit = overdue_at(times)
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
def test_a_zone_whose_clock_change_was_in_the_history_is_followed_at_the_next_one(
    zone: str, before: str, due: str
) -> None:
    times = [t for t in cron("0 6 * * *", zone, "2024-01-10 00:00", 800) if t < at(before, zone)]
    limit = overdue_at(times)
    assert at(due, zone) < limit < at(due, zone) + SOON_MS


@pytest.mark.parametrize("zones", [ZONES, ("Europe/Berlin", "UTC")])
@pytest.mark.parametrize(
    "expression", ["0 7-18 * * *", "30 9-17 * * 1-5", "*/30 9-16 * * 1-5", "0 */4 * * *", "0 8,12,16 * * *"]
)
@pytest.mark.parametrize("changed", ["2025-03-30", "2025-10-26"])
def test_a_job_that_runs_several_times_a_day_is_not_overdue_on_the_day_when_clocks_change(
    zones: tuple[str, ...], expression: str, changed: str
) -> None:
    end = at(changed) + 2 * DAY_MS
    for zone in ("Europe/Berlin", "UTC"):
        times = [time for time in cron(expression, zone, "2025-01-20 00:00", 10_000) if time < end][-600:]
        first = next(index for index, time in enumerate(times) if time > at(changed) - 3 * HOUR_MS)
        for count in range(first, len(times)):
            assert (learn(times[:count], zones).overdue_at or 0) > times[count]


def test_at_the_first_clock_change_the_learner_waits_for_all_plausible_zones() -> None:
    times = [t for t in cron("0 6 * * *", "UTC", "2025-07-10 00:00", 200) if t < at("2025-10-25 12:00")]
    limit = overdue_at(times)
    assert limit > at("2025-10-26 07:00")  # 06:00 UTC was 08:00 in Berlin, and is now 07:00 UTC


def test_a_drifting_job_is_due_its_gap_after_the_last_run() -> None:
    times = keeping_a_gap(45 * MINUTE_MS, 100)
    limit = overdue_at(times)
    assert times[-1] + 45 * MINUTE_MS < limit < times[-1] + 45 * MINUTE_MS + SOON_MS


@pytest.mark.parametrize("step", [2, 5, 10, 14])
def test_a_job_that_runs_every_few_days_is_due_by_its_step(step: int) -> None:
    times = every_days(step, 3, 40)
    limit = overdue_at(times)
    assert 0 < limit - (times[-1] + step * DAY_MS) < SOON_MS


def drifting(days: str, count: int) -> list[int]:
    """Heartbeats at the end of a backup at 20:00 that takes 15 seconds longer on each day."""
    due = slots(f"0 20 * * {days}", "UTC", "2025-03-03 00:00", count)
    return delayed([time + (time - due[0]) // DAY_MS * 15 * SECOND_MS for time in due])


@pytest.mark.parametrize(("days", "first"), [("1-5", "2025-07-07"), ("1-6", "2025-06-16")])
def test_a_job_on_some_days_of_the_week_whose_time_drifts_is_overdue_soon_on_each_of_them(
    days: str, first: str
) -> None:
    times = [time for time in drifting(days, 100) if time < at(first)]
    week = [time for time in drifting(days, 120) if at(first) <= time < at(first) + WEEK_MS]
    for due in week:
        assert due < overdue_at(times) < due + SOON_MS
        times.append(due)


def test_a_job_whose_time_drifts_and_that_often_misses_runs_by_chance_may_miss_one_on_each_day() -> None:
    rng = random.Random(3)
    times = [time for time in drifting("*", 160) if rng.random() > 0.2]
    for count in range(100, 120):
        assert overdue_at(times[:count]) > times[count - 1] + 2 * DAY_MS


def test_an_outage_of_three_days_is_not_learned_as_part_of_the_schedule() -> None:
    times = cron("0 * * * *", count=200)
    limit = overdue_at([t for t in times if not times[100] < t < times[100] + 3 * DAY_MS])
    assert 0 < limit - (times[-1] + HOUR_MS) < SOON_MS


def test_after_a_change_of_schedule_the_old_one_is_forgotten() -> None:
    old = cron("0 2 * * *", since="2025-01-10 00:00", count=60)
    new = cron("30 14 * * *", since="2025-03-11 12:00", count=12)
    limit = overdue_at(old + new)
    assert 0 < limit - (new[-1] + DAY_MS) < SOON_MS
    assert learn(old + new).first_at == new[0]


@pytest.mark.parametrize("since_change", [6, 10, 17, 26, 40, 58])
def test_what_is_from_after_a_change_of_schedule_is_found_exactly(since_change: int) -> None:
    """A few heartbeats of the old schedule would forbid the new days, and widen the grace period."""
    old = cron("0 2 * * *", since="2025-01-10 00:00", count=60)
    new = cron("30 14 * * 1-5", since="2025-03-11 12:00", count=since_change)
    assert learn(old + new).first_at == new[0]


@pytest.mark.parametrize("expression", ["*/20 8-14 * * 5", "*/15 20-22 * * 0", "*/20 8-14 1,15 * *"])
def test_a_job_that_runs_often_on_few_days_is_overdue_wrongly_once(expression: str) -> None:
    """At the end of its first day. Later, the days without it are no reason to give up the likeliest schedule."""
    times = cron(expression, count=120)
    fit, alarms = None, []
    for count in range(8, len(times)):
        fit = learn(times[:count], previous=fit)
        if fit.overdue_at is not None and fit.overdue_at < times[count]:
            alarms.append(count)
    assert len(alarms) <= 1


def test_a_run_that_is_later_than_twice_the_longest_gap_was_missed() -> None:
    """There are four or five weeks between the first Mondays of two months, which is no reason to wait for years."""
    times = cron("0 9 * * 1#1", since="2025-01-01 12:00", count=9)
    assert overdue_at(times) < times[-1] + 5 * 7 * DAY_MS + 2 * 5 * 7 * DAY_MS + HOUR_MS


def test_after_a_few_irregular_runs_the_grace_period_is_at_most_twice_the_longest_gap() -> None:
    start = at("2025-01-10 03:00")
    fit = learn([start, start + DAY_MS, start + 2 * DAY_MS, start + 82 * HOUR_MS])
    assert fit.grace_ms == 2 * 34 * HOUR_MS + 30 * SECOND_MS


def test_a_daily_job_that_becomes_weekly_is_not_overdue_every_day() -> None:
    old = cron("0 2 * * *", since="2025-01-10 00:00", count=60)
    new = cron("0 2 * * 3", since="2025-03-11 12:00", count=10)
    limit = overdue_at(old + new)
    assert 0 < limit - (new[-1] + 7 * DAY_MS) < SOON_MS


@pytest.mark.parametrize(
    ("before", "after"), [("0 */6 * * *", "0 0 * * *"), ("0 */12 * * *", "0 0 * * *"), ("0 */6 * * *", "0 */12 * * *")]
)
def test_a_job_that_ran_several_times_a_day_and_runs_less_often_is_overdue_wrongly_three_times(
    before: str, after: str
) -> None:
    old = [time for time in cron(before, since="2025-01-10 00:00") if time < at("2025-01-25 06:00")]
    new = cron(after, since="2025-01-25 06:00", count=12)
    assert len(false_alarms(old + new, after=len(old))) <= 3


def test_a_job_that_runs_twice_on_working_days_is_waited_for_after_its_only_run_on_saturdays() -> None:
    weeks = [("0 9,17 * * 1-5", 80), ("0 9 * * 6", 8)]
    times = sorted(time for days, count in weeks for time in cron(days, since="2025-03-03 00:00", count=count))
    assert false_alarms(times, after=55) == []


@pytest.mark.parametrize(
    ("expression", "period", "hours"),
    [
        ("0 * * * *", WEEK_MS, (2, 6)),
        ("*/20 * * * *", WEEK_MS, (2, 3)),
        ("*/5 * * * *", WEEK_MS, (2, 6)),
        ("*/5 * * * *", DAY_MS, (2.5, 3.75)),
        ("* * * * *", DAY_MS, (1.25, 4.1)),
    ],
)
def test_a_pause_of_each_week_or_night_is_waited_for_although_256_heartbeats_do_not_show_it(
    expression: str, period: int, hours: tuple[float, float]
) -> None:
    pauses = [
        tuple(at("2025-03-09") + days * period + round(hour * HOUR_MS) for hour in hours)
        for days in range(4 * WEEK_MS // period)
    ]
    running = [time for time in cron(expression, since="2025-03-03 00:00", count=60 * 24 * 35) if time < pauses[-1][0]]
    before = [time for time in running if not any(start <= time < end for start, end in pauses)]
    fit = learn(before)
    end = pauses[-1][1]
    assert end < (fit.overdue_at or 0) < end + 2 * HOUR_MS
    assert learn(before, previous=learn(before[:-1])).overdue_at == fit.overdue_at
    assert learn(before, previous=fit) == fit
    yesterday = [time for time in before if time < before[-1] - 12 * HOUR_MS]
    assert overdue_at(yesterday) < yesterday[-1] + HOUR_MS + SOON_MS


def test_a_job_that_often_misses_slots_is_overdue_only_after_more_than_usual() -> None:
    times = [t for n, t in enumerate(cron("0 * * * *", count=240)) if n % 7 not in (2, 3) or n > 236]
    limit = overdue_at(times)
    assert 2 * HOUR_MS < limit - times[-1] < 5 * HOUR_MS


@pytest.mark.parametrize(
    ("interval_ms", "needed"), [(DAY_MS, 3), (10 * MINUTE_MS, 3), (MINUTE_MS, 8), (15 * SECOND_MS, 8)]
)
def test_the_first_answer_takes_three_heartbeats_or_eight_of_a_frequent_job(interval_ms: int, needed: int) -> None:
    times = [at("2025-01-10 03:00") + n * interval_ms for n in range(needed)]
    assert learn(times[:-1]).overdue_at is None
    assert learn(times).overdue_at is not None


def test_only_the_last_256_heartbeats_show_when_a_job_runs() -> None:
    times = cron("0 * * * *", count=400)
    assert learn(times).seen == 256
    assert learn(times).overdue_at == learn(times[-256:]).overdue_at


def test_heartbeats_within_two_seconds_count_as_one() -> None:
    times = cron("0 2 * * *", count=10)
    echoed = sorted([*times, *(time + 1500 for time in times)])
    assert learn(echoed) == learn(times)


def test_the_deadline_is_in_seconds() -> None:
    times = cron("0 2 * * *", count=40)
    assert deadline([time / SECOND_MS for time in times]) == overdue_at(times) / SECOND_MS
    assert deadline([time / SECOND_MS for time in times[:2]]) is None


def test_the_deadline_after_each_heartbeat_is_that_of_the_updated_fit() -> None:
    times = cron("30 7 * * 1-5", "Europe/Berlin", "2025-02-01 00:00", 60)
    fit = None
    for count in range(1, len(times) + 1):
        fit = learn(times[:count], previous=fit)
        expected = None if fit.overdue_at is None else fit.overdue_at / SECOND_MS
        assert deadline([time / SECOND_MS for time in times[:count]]) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("period_ms", "delay_ms", "most"),
    [(12 * HOUR_MS, 12 * HOUR_MS, 0), (DAY_MS, 20 * HOUR_MS, 0), (7 * DAY_MS, DAY_MS, 0), (7 * DAY_MS, 3 * DAY_MS, 1)],
)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_job_at_random_times_is_judged_by_its_longest_silence(
    period_ms: int, delay_ms: int, most: int, seed: int
) -> None:
    rng, start = random.Random(seed), at("2026-01-05 00:00")
    times = [start + run * period_ms + rng.randrange(delay_ms) for run in range(100)]
    assert len(false_alarms(times, 30)) <= most  # of 70; a silence may be longer than all before
    for count in (30, 60, 100):
        longest = max(later - earlier for earlier, later in pairwise(times[:count]))
        fit = learn(times[:count])
        waits = overdue_at(times[:count]) - times[count - 1]
        assert longest <= waits <= 2.2 * longest, describe(fit)


@pytest.mark.parametrize("period_ms", [DAY_MS, 7 * DAY_MS])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_start_spread_over_half_a_day_is_missed_soon_after_the_end_of_its_window(period_ms: int, seed: int) -> None:
    """As with RandomizedDelaySec=12h: although no time of day stands out, the window does."""
    rng, start, window_ms = random.Random(seed), at("2025-03-03 06:00"), 12 * HOUR_MS
    times = [start + run * period_ms + rng.randrange(window_ms) for run in range(100)]
    assert false_alarms(times, 40) == []
    late = [overdue_at(times[:count]) - (start + count * period_ms + window_ms) for count in range(40, 100, 3)]
    assert 0 < median(late) < DAY_MS


def test_a_job_at_random_times_of_two_days_is_missed_before_twice_its_longest_silence() -> None:
    """Each of its silences is about a week, which says more than the longest one alone."""
    rng, start = random.Random(1), at("2025-03-03 06:00")
    times = [start + run * WEEK_MS + rng.randrange(2 * DAY_MS) for run in range(60)]
    longest = max(later - earlier for earlier, later in pairwise(times))
    assert longest <= overdue_at(times) - times[-1] < 1.5 * longest
