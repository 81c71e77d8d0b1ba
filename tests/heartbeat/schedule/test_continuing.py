"""Updating a fit after each heartbeat gives the same result as learning from all heartbeats at once."""

import random

import pytest

from obs.heartbeat.schedule import describe, learn
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from tests.heartbeat.schedule.jobs import cron, keeping_a_gap


@pytest.mark.parametrize(
    "times",
    [
        cron("0 2 * * *", count=120),
        cron("30 7 * * 1-5", "Europe/Berlin", "2025-02-01 00:00", 90),
        cron("0 9 * * 1", count=60),
        cron("*/15 * * * *", count=200),
        keeping_a_gap(45 * MINUTE_MS, 120),
        [t for n, t in enumerate(cron("0 2 * * *", count=90)) if n not in (40, 41, 60)],
    ],
    ids=["daily", "weekdays over a clock change", "weekly", "quarters", "gap", "missed runs"],
)
def test_the_overdue_time_is_the_same_within_a_twentieth_of_the_interval(times: list[int]) -> None:
    fit = None
    for count in range(3, len(times) + 1):
        fit = learn(times[:count], previous=fit)
        if count > 30 and count % 7 == 0:
            fresh = learn(times[:count])
            assert fresh.overdue_at is not None
            assert fit.overdue_at == pytest.approx(fresh.overdue_at, abs=0.05 * (fresh.interval_ms or 0))


def test_a_run_that_came_as_expected_updates_the_fit() -> None:
    times = cron("0 2 * * *", count=100)
    fit = learn(times, previous=learn(times[:-1]))
    assert fit.updates == 1
    assert fit.seen == 100


def test_after_a_run_that_disagrees_all_hypotheses_are_weighed_again() -> None:
    times = cron("0 2 * * *", count=100)
    fit = learn([*times, times[-1] + 9 * HOUR_MS], previous=learn(times))
    assert fit.updates == 0


def test_what_came_before_a_change_stays_forgotten() -> None:
    old = cron("0 2 * * *", since="2025-01-10 00:00", count=60)
    new = cron("30 14 * * *", since="2025-03-11 12:00", count=30)
    fit = learn(old + new[:20])
    for count in range(21, 31):
        fit = learn(old + new[:count], previous=fit)
    assert fit.first_at == new[0]
    assert fit.seen == 30


def test_the_same_heartbeats_again_change_nothing() -> None:
    times = cron("0 2 * * *", count=40)
    fit = learn(times)
    assert learn(times, previous=fit) == fit


def test_a_day_of_manual_runs_does_not_make_a_weekly_job_irregular() -> None:
    """They are most of the runs that are remembered. A job without a schedule would be overdue without any grace."""
    times = cron("0 9 * * 1", count=30)
    manual = [times[-1] + 2 * DAY_MS + random.Random(n).randrange(5 * HOUR_MS) for n in range(200)]
    fit = learn([*times, *manual])
    for week in range(1, 5):
        assert fit.expected_at == pytest.approx(times[-1] + week * 7 * DAY_MS, abs=15 * SECOND_MS)
        assert fit.overdue_at is not None
        assert fit.overdue_at > times[-1] + week * 7 * DAY_MS + 20 * SECOND_MS
        assert describe(fit).evidence == f"Learned from {29 + week} runs (all match)"
        manual.append(times[-1] + week * 7 * DAY_MS)
        fit = learn([*times, *manual], previous=fit)


def test_a_stored_fit_is_small() -> None:
    assert len(learn(cron("*/15 8-17 * * 1-5", count=256)).encode()) < 5_000


def test_the_fit_of_a_daily_job() -> None:
    times = cron("0 2 * * *", count=40)
    fit = learn(times)
    assert (fit.seen, fit.needed, fit.fitted) == (40, 3, 40)
    assert fit.interval_ms == pytest.approx(DAY_MS, abs=10 * SECOND_MS)
    assert fit.expected_at == pytest.approx(times[-1] + DAY_MS, abs=15 * SECOND_MS)
    assert fit.grace_ms is not None
    assert fit.overdue_at is not None
    assert 25 * SECOND_MS <= fit.grace_ms < 60 * SECOND_MS
    assert fit.confidence > 0.9
