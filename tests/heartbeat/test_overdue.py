"""What is expected of a job: from its heartbeats, its durations and its pin, and after planned silence."""

import pytest

from obs.heartbeat.overdue import LONGEST_RUN_MS, Expectation, expect
from obs.heartbeat.pins import Cron, Interval, Never
from obs.heartbeat.schedule import ZONES, describe, learn
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS
from tests.heartbeat.schedule.jobs import at, cron

DAILY = cron("0 2 * * *", count=40)
LAST = DAILY[-1]


def of_daily_job(**changes: object) -> Expectation:
    """What is expected of a job that runs every day, with other arguments of `expect`."""
    return expect(**{"heartbeats": DAILY, "durations_ms": [], "zones": ZONES, **changes})  # type: ignore[arg-type]


def test_without_a_pin_the_learned_schedule_applies() -> None:
    expected = of_daily_job()
    fit = learn(DAILY)
    assert expected.fit == fit
    assert (expected.fit.interval_ms, expected.expected_at) == (fit.interval_ms, fit.expected_at)
    assert (expected.overdue_at, expected.grace_ms) == (fit.overdue_at, fit.grace_ms)
    assert describe(expected.fit).cron == "0 2 * * *"


def test_a_pin_overrides_the_learned_schedule_but_not_the_interval() -> None:
    expected = of_daily_job(pin=Cron("0 6 * * *", "UTC", 10 * MINUTE_MS))
    due = at("2025-02-18 06:00")
    assert (expected.expected_at, expected.overdue_at) == (due, due + 10 * MINUTE_MS)
    assert expected.grace_ms == 10 * MINUTE_MS
    assert expected.fit.interval_ms == learn(DAILY).interval_ms
    assert describe(expected.fit).cron == "0 2 * * *"


def test_a_job_that_is_pinned_as_never_overdue_is_not_expected() -> None:
    expected = of_daily_job(pin=Never())
    assert (expected.expected_at, expected.overdue_at, expected.grace_ms) == (None, None, None)


def test_a_pinned_job_without_heartbeats_is_not_expected_yet() -> None:
    expected = of_daily_job(heartbeats=[], pin=Interval(HOUR_MS))
    assert (expected.expected_at, expected.overdue_at, expected.grace_ms) == (None, None, None)


def test_an_event_that_is_not_a_heartbeat_leaves_the_fit_as_it_is() -> None:
    fit = learn(DAILY)
    assert of_daily_job(previous=fit).fit == fit
    assert of_daily_job(heartbeats=[*DAILY, LAST + DAY_MS], previous=fit).fit.last_at == LAST + DAY_MS


def test_too_often_is_judged_by_the_previous_fit_and_never_for_a_pin() -> None:
    fit = learn(DAILY)
    doubled = sorted([*DAILY, *(time + HOUR_MS for time in DAILY[-4:])])
    assert of_daily_job(heartbeats=doubled).too_often is None
    assert of_daily_job(heartbeats=doubled, previous=fit).too_often is True
    assert of_daily_job(previous=fit).too_often is False
    assert of_daily_job(heartbeats=doubled, previous=fit, pin=Interval(DAY_MS)).too_often is False


@pytest.mark.parametrize(
    ("durations_ms", "lost_after_ms"),
    [([MINUTE_MS] * 2, LONGEST_RUN_MS), ([3 * HOUR_MS] * 20, 12 * HOUR_MS), ([2 * DAY_MS] * 20, LONGEST_RUN_MS)],
    ids=["too few durations", "four times the longest", "at most seven days"],
)
def test_when_an_open_run_counts_as_lost(durations_ms: list[int], lost_after_ms: int) -> None:
    assert of_daily_job(durations_ms=durations_ms).lost_after_ms == lost_after_ms


def test_an_open_run_is_lost_at_least_an_hour_after_it_is_overrunning() -> None:
    expected = of_daily_job(durations_ms=[MINUTE_MS] * 20)
    assert expected.overrun_after_ms is not None
    assert MINUTE_MS < expected.overrun_after_ms < 3 * MINUTE_MS
    assert expected.lost_after_ms == expected.overrun_after_ms + HOUR_MS
