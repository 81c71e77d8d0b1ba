"""Manual runs, long runs and growing delays are neither a part of the schedule nor a change of it."""

import random

import pytest

from obs.heartbeat.schedule import describe, learn
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from tests.heartbeat.schedule.jobs import cron, delayed, slots
from tests.heartbeat.schedule.test_deadline import SOON_MS, overdue_at


def test_longer_runs_at_night_are_no_change_of_the_schedule() -> None:
    """Of a job that reports when it has ended. A death is noticed also at the hours in which the duration changes."""
    rng, fit = random.Random(1), None
    starts = slots("*/15 * * * *", "UTC", "2025-01-10 00:00", 21 * 96)
    lengths = (4 * MINUTE_MS if 2 <= start % DAY_MS // HOUR_MS < 4 else 30 * SECOND_MS for start in starts)
    times = [start + round(length * rng.lognormvariate(0, 0.1)) for start, length in zip(starts, lengths, strict=True)]
    for count in range(15 * 96, len(times)):
        fit = learn(times[:count], previous=fit)
        assert fit.changed_at is None
        assert (fit.overdue_at or 0) < times[count - 1] + HOUR_MS


def test_a_job_that_is_often_run_by_hand_has_the_schedule_of_its_other_runs() -> None:
    rng, times = random.Random(2), cron("0 7 * * 1-5", count=150)
    manual = [time + rng.randrange(1, 9) * HOUR_MS + rng.randrange(HOUR_MS) for time in times if rng.random() < 0.4]
    fit = learn(sorted([*times, *manual]))
    assert fit.is_regular
    assert fit.overdue_at is not None
    assert fit.overdue_at < slots("0 7 * * 1-5", "UTC", "2025-01-10 00:00", 151)[-1] + HOUR_MS


@pytest.mark.parametrize("again_ms", [3 * SECOND_MS, MINUTE_MS, 10 * MINUTE_MS])
@pytest.mark.parametrize("interval_ms", [DAY_MS, 7 * DAY_MS, 30 * DAY_MS])
def test_a_young_job_that_is_run_again_soon_is_not_expected_again_as_soon(again_ms: int, interval_ms: int) -> None:
    first = slots("0 2 * * *", "UTC", "2025-01-10 00:00", 1)[0]
    second = first + interval_ms
    assert overdue_at([first, second, second + again_ms]) > second + DAY_MS - HOUR_MS


def test_a_job_that_pings_at_its_start_and_at_its_end_is_expected_on_the_next_day() -> None:
    """A short run puts both pings into the first of the two slots, but the second one is not awaited after them."""
    rng, fit, times = random.Random(4), None, list[int]()
    for start in slots("0 3 * * *", "UTC", "2025-01-10 00:00", 40):
        began = start + round(8 * SECOND_MS * rng.lognormvariate(0, 0.5))
        for ping in (began, began + round(MINUTE_MS * rng.lognormvariate(0, 0.3))):
            times.append(ping)
            fit = learn(times, previous=fit)
        assert fit is not None
        assert len(times) < 20 or (fit.overdue_at or 0) > start + DAY_MS


@pytest.mark.parametrize("days", range(1, 7))
def test_a_weekly_job_that_was_tried_out_before_is_not_overdue_between_its_runs(days: int) -> None:
    rng = random.Random(days)
    weekly = slots("0 3 * * 1", "UTC", "2025-03-09 20:00", 10)
    tried = [weekly[0] - days * DAY_MS + 11 * HOUR_MS + at * SECOND_MS for at in (0, 40, 120)]
    times = [*tried, *(slot + round(8 * SECOND_MS * rng.lognormvariate(0, 0.5)) for slot in weekly)]
    fit = None
    for count in range(1, len(times)):
        fit = learn(times[:count], previous=fit)
        assert count < 5 or (fit.overdue_at or times[count]) >= times[count]


def test_a_young_job_that_is_run_again_during_maintenance_keeps_its_schedule() -> None:
    times = slots("0 * * * *", "UTC", "2025-01-10 00:00", 3)
    times[2:] = [times[2] - 5 * SECOND_MS, times[2]]
    fit = learn(times, unknown=[(times[0], times[2] - 10 * MINUTE_MS)])
    assert describe(fit).cron == "0 * * * *"


def test_extra_manual_runs_do_not_change_what_is_expected() -> None:
    times = cron("0 2 * * *", since="2025-01-10 00:00", count=40)
    limit = overdue_at(sorted([*times, times[10] + 5 * HOUR_MS, times[22] + 9 * HOUR_MS, times[-1] + 3 * HOUR_MS]))
    assert 0 < limit - (times[-1] + DAY_MS) < SOON_MS


def test_a_single_manual_run_is_not_a_time_of_the_schedule() -> None:
    times = cron("0 8,12,16 * * *", count=12)
    assert describe(learn(sorted([*times, times[4] + 2 * HOUR_MS]))).cron == "0 8-16/4 * * *"


def test_a_few_days_of_growing_delays_are_not_a_new_schedule() -> None:
    """As on a busy hosted scheduler. If the learner forgot the history, the next run would be overdue."""
    usual = delayed(slots("0 1 * * *", "UTC", "2025-01-10 00:00", 71), typical_ms=240 * SECOND_MS)
    step_ms = DAY_MS + 12 * MINUTE_MS + 36 * SECOND_MS
    late = [usual[-1] + n * step_ms + (0, 40, -30, 20, -50)[n - 1] * SECOND_MS for n in range(1, 6)]
    assert learn(usual + late).first_at == usual[0]
