"""The lives of jobs in stories.py, a few of each: how often the learner is wrong, and what it costs."""

import random
import time
from collections.abc import Iterable
from itertools import accumulate, pairwise

import pytest
from hypothesis import given, strategies as st

from obs.heartbeat.schedule import Memory, deadline, describe, learn
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from tests.heartbeat.schedule.jobs import at, cron
from tests.heartbeat.schedule.stories import STORIES, lives, runs

SEEDS = 2
LONG = ("hourly-debug-25", "hourly-debug-200", "retries", "laptop")  # several seconds each
JOBS = {
    expression: cron(expression, since="2025-03-03 00:00", count=count)
    for expression, count in (("*/5 * * * *", 600), ("0 * * * *", 300), ("0 2 * * *", 40), ("0 9 * * 1-5", 30))
}
FITS = {expression: learn(times) for expression, times in JOBS.items()}


@pytest.mark.parametrize("name", [pytest.param(one, marks=pytest.mark.slow) if one in LONG else one for one in STORIES])
def test_the_mean_number_of_false_alarms(name: str) -> None:
    """The accepted means are for hundreds of lives; two may have one alarm more in all."""
    results = list(lives(name, SEEDS))
    assert sum(result.false_alarms for result in results) <= SEEDS * STORIES[name][1] + 1


@pytest.mark.parametrize("years", [3, 6])
def test_a_yearly_job_is_flagged_within_two_weeks_from_its_third_year(years: int) -> None:
    times = runs("0 3 10 2 *", random.Random(1), 366 * years, "2025-01-01 00:00")
    limit = learn(times).overdue_at
    assert limit is not None
    assert at(f"{2025 + years}-02-10 03:00") < limit < at(f"{2025 + years}-02-24 03:00")


@pytest.mark.parametrize(
    ("expression", "due"),
    [("0 3 5 * *", "2031-01-05 03:00"), ("0 3 1 1,4,7,10 *", "2031-01-01 03:00"), ("0 6 * * 1#1", "2031-01-06 06:00")],
)
def test_a_monthly_job_that_ran_for_six_years_is_missed_within_minutes(expression: str, due: str) -> None:
    times = [time for time in cron(expression, since="2025-01-01 00:00", count=80) if time < at("2030-12-31 00:00")]
    limit = deadline([time / SECOND_MS for time in reversed(times)])
    assert limit is not None
    assert at(due) < limit * SECOND_MS < at(due) + 5 * MINUTE_MS


@pytest.mark.parametrize("days", ["1-19", "3-30", "8-28"])
def test_a_long_range_of_days_of_the_month_is_learned(days: str) -> None:
    times = [t for t in cron(f"0 3 {days} * *", since="2025-01-01 00:00", count=200) if t < at("2025-06-15 00:00")]
    limit = learn(times).overdue_at
    assert limit is not None
    assert 0 < limit - at("2025-06-15 03:00") < 5 * MINUTE_MS
    assert len(times) > 28


@pytest.mark.parametrize("count", [10, 12, 20, 30])
def test_a_slot_in_an_unknown_time_is_neither_missed_nor_waited_for(count: int) -> None:
    times = cron("0 2 * * *", since="2025-03-03 00:00", count=count)
    next_day, pause = times[-1] + DAY_MS, (times[-1] + 22 * HOUR_MS, times[-1] + 30 * HOUR_MS)
    assert (learn(times).overdue_at or 0) < next_day + 5 * MINUTE_MS
    fit = learn(times, unknown=[pause])
    assert fit.expected_at is not None
    assert fit.overdue_at is not None
    assert abs(fit.expected_at - (next_day + DAY_MS)) < MINUTE_MS
    assert fit.expected_at < fit.overdue_at < next_day + DAY_MS + 5 * MINUTE_MS
    assert learn(times, previous=learn(times), unknown=[pause]) == fit


def test_a_slot_at_the_end_of_an_unknown_time_is_waited_for() -> None:
    times = cron("0 * * * *", since="2025-03-03 00:00", count=300)
    expected = learn(times).expected_at
    assert expected is not None
    fit = learn(times, unknown=[(expected - MINUTE_MS, expected + 3 * HOUR_MS)])
    assert fit.expected_at == expected + 3 * HOUR_MS
    assert fit.overdue_at is not None
    assert fit.expected_at < fit.overdue_at < fit.expected_at + 30 * MINUTE_MS


def test_a_job_that_runs_every_minute_has_its_interval_again_after_an_unknown_time() -> None:
    times = cron("* * * * *", since="2025-03-03 00:00", count=500)
    end = times[-1] + 6 * HOUR_MS
    limit = learn(times, unknown=[(times[-1] + MINUTE_MS, end)]).overdue_at
    assert limit is not None
    assert end < limit < end + 5 * MINUTE_MS


def test_slots_in_an_unknown_time_do_not_count_as_missed() -> None:
    """A job that was paused three times for a week does not miss its runs often."""
    times = cron("0 * * * *", since="2025-03-03 00:00", count=900)
    pauses = [(times[n] + MINUTE_MS, times[n + 100] - MINUTE_MS) for n in (660, 770)]
    seen = [time for time in times if not any(start < time < end for start, end in pauses)]
    known, unknown = learn(seen), learn(seen, unknown=pauses)
    assert unknown.candidates[0].bits < known.candidates[0].bits - 20


@given(
    st.sampled_from(sorted(JOBS)),
    st.lists(st.tuples(st.integers(0, 5 * DAY_MS), st.integers(1, 2 * DAY_MS)), max_size=4),
)
def test_no_job_becomes_overdue_in_an_unknown_time_or_before_its_grace_period_after_it(
    expression: str, spans: list[tuple[int, int]]
) -> None:
    times = JOBS[expression]
    unknown = sorted((times[-1] + start, times[-1] + start + length) for start, length in spans)
    fit = learn(times, previous=FITS[expression], unknown=unknown)
    assert fit.expected_at is not None
    assert fit.overdue_at is not None
    for start, end in unknown:
        assert not start <= fit.overdue_at < end + 25 * SECOND_MS, "an alarm"
        assert end - start <= 2 * MINUTE_MS or not start <= fit.expected_at < end


def test_silence_that_nobody_could_observe_is_not_a_habit() -> None:
    """An hourly job is in maintenance at the same time on two days. On the third day it dies at that time."""
    times = cron("0 * * * *", since="2025-03-03 00:00", count=24 * 20 + 12)
    windows = [(times[-1] - days * DAY_MS + MINUTE_MS, times[-1] - days * DAY_MS + 6 * HOUR_MS) for days in (2, 1)]
    seen = [time for time in times if not any(start < time < end for start, end in windows)]
    assert (learn(seen).overdue_at or 0) > times[-1] + 6 * HOUR_MS
    assert (learn(seen, unknown=windows).overdue_at or 0) < times[-1] + HOUR_MS + 10 * MINUTE_MS


@pytest.mark.parametrize("minutes", [5, 15, 20])
def test_a_job_that_ran_in_every_hour_for_four_days_is_not_taken_for_one_that_leaves_out_sundays(minutes: int) -> None:
    midnight = at("2025-03-09 00:00")  # a Sunday
    times = range(at("2025-03-05 09:30"), midnight, minutes * MINUTE_MS)
    assert midnight < (learn(times).overdue_at or 0) < midnight + minutes * MINUTE_MS


def test_a_job_that_ran_in_office_hours_for_three_days_may_be_off_at_the_weekend() -> None:
    times = cron("*/15 8-17 * * *", since="2025-03-05 00:00", count=120)
    assert (learn(times).overdue_at or 0) > at("2025-03-10 00:00")  # a Monday


def test_a_job_of_a_laptop_has_no_regular_schedule_and_is_waited_for_by_days() -> None:
    times = STORIES["laptop"][0](random.Random(2)).times
    fit = learn(times)
    assert describe(fit).state == "irregular"
    longest = max(later - earlier for earlier, later in pairwise(times[-256:]))
    assert longest < (fit.overdue_at or 0) - times[-1] <= 2 * longest


def _seconds(times: Iterable[int]) -> float:
    """The CPU time of learning from these heartbeats, the least of several attempts."""
    spent = []
    for _ in range(5):
        started = time.process_time()
        learn(times)
        spent.append(time.process_time() - started)
    return min(spent)


def test_a_job_with_random_intervals_costs_little_more_than_a_daily_one() -> None:
    rng = random.Random(1)
    gaps = (int(rng.expovariate(1 / (10 * MINUTE_MS))) for _ in range(1200))
    memory = Memory().add(accumulate(gaps, initial=at("2025-03-03 00:00")))
    assert _seconds(memory.times) < 10 * _seconds(cron("0 2 * * *", count=256))
