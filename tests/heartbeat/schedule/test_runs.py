"""Runs that take too long, and jobs that run too often."""

import pytest

from obs.heartbeat.schedule import duration_bound, learn, too_often
from tests.heartbeat.schedule.jobs import cron, keeping_a_gap


def test_a_run_is_overrunning_a_while_after_the_longest_it_ever_took() -> None:
    bound = duration_bound([300 + 7 * (n % 5) for n in range(40)])
    assert bound is not None
    assert 328 < bound < 480


def test_the_more_runs_take_different_times_the_longer_the_wait() -> None:
    steady, varied = duration_bound([600.0] * 20), duration_bound([300.0, 600.0, 900.0, 1500.0] * 5)
    assert steady is not None
    assert varied is not None
    assert varied > steady + 900


def test_two_durations_say_nothing() -> None:
    assert duration_bound([10.0, 11.0]) is None


@pytest.mark.parametrize("times", [cron("0 * * * *", count=60), keeping_a_gap(2700, 60)], ids=["hourly", "gap"])
def test_two_runs_in_each_of_several_slots_are_too_often(times: list[float]) -> None:
    fit = learn(times[:50])
    doubled = sorted([*times, *(time + 40 for time in times[-4:])])
    assert not too_often(times, fit)
    assert too_often(doubled, fit)


def test_one_manual_run_is_not_too_often() -> None:
    times = cron("0 2 * * *", count=40)
    assert not too_often([*times, times[-1] + 600], learn(times))


def test_nothing_is_too_often_before_anything_is_known() -> None:
    assert not too_often([1.0, 5.0], learn([1.0, 5.0]))
