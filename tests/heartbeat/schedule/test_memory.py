"""What the learner remembers of a job: enough to know in which hours and on which days it runs."""

import random

import pytest
from hypothesis import given, settings, strategies as st

from obs.heartbeat.schedule import Memory, deadline, learn
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from tests.heartbeat.schedule.blind_spots import INTERVALS, heartbeats, wait
from tests.heartbeat.schedule.jobs import at, cron

MOST_LATE_MS = 30 * MINUTE_MS
ENCODED_BYTES = 2_500

steps = st.sampled_from([0, 700, 2_500, MINUTE_MS, 20 * MINUTE_MS, 50 * MINUTE_MS, HOUR_MS, 9 * HOUR_MS, 3 * DAY_MS])
histories = st.lists(st.tuples(steps, st.integers(0, 900)), max_size=700).map(
    lambda drawn: [at("2025-01-10 03:00") + sum(a + b for a, b in drawn[:n]) for n in range(len(drawn))]
)


@settings(max_examples=25, deadline=None)
@given(histories, st.randoms(use_true_random=False))
def test_heartbeats_one_at_a_time_in_any_order_are_remembered_as_all_at_once(
    times: list[int], rng: random.Random
) -> None:
    at_once = Memory().add(times)
    shuffled = list(times)
    rng.shuffle(shuffled)
    one_by_one = Memory()
    for time in shuffled:
        one_by_one = one_by_one.add([time])
    assert one_by_one == at_once == at_once.add(times)
    assert Memory.decode(at_once.encode()) == at_once


@pytest.mark.parametrize("minutes", INTERVALS)
def test_a_job_that_ran_round_the_clock_for_two_weeks_is_overdue_soon_after_its_end(minutes: int) -> None:
    """Those at night, at the turn of the week and at the turn of the month are the hardest."""
    times = heartbeats(minutes, 28)  # from Monday, June 2
    rng = random.Random(minutes)
    worst = [at(text) for text in ("2025-06-22 23:59", "2025-06-17 00:59", "2025-06-20 17:59")]
    for end in (*worst, *rng.sample(times[len(times) // 2 :], 3)):
        seen = [time for time in times if time < end]
        fit = learn(seen)
        assert wait(fit, seen[-1], minutes) < MOST_LATE_MS
        rng.shuffle(seen)
        assert deadline([time / SECOND_MS for time in seen]) == (fit.overdue_at or 0) / SECOND_MS


def test_a_memory_is_small_however_long_the_job_has_run() -> None:
    rng = random.Random(3)
    times = [at("2025-01-10 03:00") + n * MINUTE_MS + rng.randrange(40 * SECOND_MS) for n in range(200_000)]
    memory = Memory().add(times)
    assert len(memory.times) < 800
    assert len(memory.encode()) < ENCODED_BYTES
    assert memory.times[0] < times[-1] - 125 * DAY_MS


def test_a_job_in_office_hours_is_not_waited_for_at_night_only_because_it_ran_once_on_a_sunday() -> None:
    """A manual run does not make Sunday a working day."""
    times = cron("*/10 8-17 * * 1-5", since="2025-03-03 00:00", count=60 * 15 + 20)  # until a Monday
    stray = at("2025-03-16 11:03")
    fit = learn([*times, stray])
    friday = [time for time in times if time < at("2025-03-21 20:00")]
    assert fit.expected_at is not None
    limit = learn([*friday, stray]).overdue_at
    assert limit is not None
    assert at("2025-03-24 08:00") < limit < at("2025-03-24 08:10")


def test_hours_that_were_added_are_judged_at_once() -> None:
    """A job in office hours that has run round the clock for three days is missed in the night."""
    office = cron("*/5 8-17 * * *", since="2025-03-03 00:00", count=120 * 12)
    always = cron("*/5 * * * *", since="2025-03-15 00:00", count=288 * 4 + 24)
    limit = learn([*office, *always]).overdue_at
    assert limit is not None
    assert limit < always[-1] + MOST_LATE_MS


def test_hours_that_were_closed_are_learned_after_three_nights() -> None:
    always = cron("*/5 * * * *", since="2025-03-03 00:00", count=288 * 12)
    office = cron("*/5 8-17 * * *", since="2025-03-15 08:00", count=120 * 4)
    limit = learn([*always, *office]).overdue_at
    assert limit is not None
    assert at("2025-03-19 08:00") < limit < at("2025-03-19 08:10")


def test_a_day_off_and_an_ordinary_night_are_not_the_same_silence_twice() -> None:
    """The memory knows the first run of each hour only, so older nights seem to be up to an hour longer."""
    times = [
        time
        for time in cron("*/15 8-18 * * 1-5", since="2024-09-02 00:00", count=44 * 30)
        if not at("2024-10-04 00:00") < time < at("2024-10-05 00:00") and time < at("2024-10-10 18:50")
    ]
    limit = learn(times).overdue_at
    assert limit is not None
    assert at("2024-10-11 08:00") < limit < at("2024-10-11 08:05")
