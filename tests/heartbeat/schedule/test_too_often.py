"""Jobs that run more often than expected."""

import random
from itertools import accumulate

import pytest

from obs.heartbeat.schedule import learn, too_often
from obs.times import HOUR_MS, MINUTE_MS, SECOND_MS
from tests.heartbeat.schedule.jobs import at, cron, keeping_a_gap


@pytest.mark.parametrize(
    "times", [cron("0 * * * *", count=60), keeping_a_gap(45 * MINUTE_MS, 60)], ids=["hourly", "gap"]
)
def test_two_runs_in_each_of_several_slots_are_too_often(times: list[int]) -> None:
    fit = learn(times[:50])
    doubled = sorted([*times, *(time + 40 * SECOND_MS for time in times[-4:])])
    assert not too_often(times, fit)
    assert too_often(doubled, fit)


@pytest.mark.parametrize("seed", range(3))
def test_hours_of_manual_runs_are_not_too_often(seed: int) -> None:
    rng, times = random.Random(seed), cron("0 * * * *", count=200)
    manual = [times[100] + rng.randrange(6 * HOUR_MS) for _ in range(25)]
    seen, fit = times[:100], learn(times[:100])
    for time in sorted([*times[100:], *manual]):
        seen.append(time)
        assert not too_often(seen, fit)
        fit = learn(seen, previous=fit)


@pytest.mark.parametrize("expression", ["0 */6 * * *", "0 2 * * *"])
def test_a_manual_run_now_and_then_is_not_too_often(expression: str) -> None:
    times = cron(expression, count=120)
    doubled = sorted([*times, *(time + 45 * MINUTE_MS for time in times[20::3])])
    fit = learn(doubled[:40])
    for count in range(41, len(doubled)):
        assert not too_often(doubled[:count], fit)
        fit = learn(doubled[:count], previous=fit)


def test_one_manual_run_is_not_too_often() -> None:
    times = cron("0 2 * * *", count=40)
    assert not too_often([*times, times[-1] + 10 * MINUTE_MS], learn(times))


def test_a_job_without_a_regular_schedule_never_runs_too_often() -> None:
    rng = random.Random(1)
    times = list(accumulate((round(rng.expovariate(1 / 15) * MINUTE_MS) for _ in range(300)), initial=at("2025-01-10")))
    fit = learn(times[:100])
    for count in range(101, len(times)):
        assert not too_often(times[:count], fit)
        fit = learn(times[:count], previous=fit)


def test_while_learning_nothing_is_too_often() -> None:
    assert not too_often([1000, 5000], learn([1000, 5000]))
