"""A job that runs at other times on some days of the week, as by two lines of cron: it does as it did a week ago."""

import random
from bisect import bisect_left
from itertools import pairwise

import pytest

from obs.heartbeat.schedule import Fit, describe, learn
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, WEEK_MS
from tests.heartbeat.schedule.jobs import at, cron, slots

SINCE = "2025-01-06 00:00"  # a Monday
WEEKDAYS_AND_WEEKENDS = ("0 8 * * 1-5", "0 10 * * 6,0")
OFTEN_ON_WEEKDAYS = ("0 * * * 1-5", "0 */4 * * 6,0")


def heartbeats(expressions: tuple[str, ...], zone: str = "UTC", weeks: int = 5) -> list[int]:
    """Heartbeats of a job that runs by several cron expressions."""
    end = at(SINCE, zone) + weeks * WEEK_MS
    return sorted(time for one in expressions for time in cron(one, zone, SINCE, 24 * 7 * weeks) if time < end)


@pytest.mark.parametrize(
    ("expressions", "zone"),
    [
        (WEEKDAYS_AND_WEEKENDS, "UTC"),
        (WEEKDAYS_AND_WEEKENDS, "Asia/Tokyo"),
        (OFTEN_ON_WEEKDAYS, "UTC"),
        (("0 2 * * 1-6", "0 4 * * 0"), "UTC"),
        (("0 8,12,16,20 * * 1-5", "0 12 * * 6,0"), "UTC"),
        (("0 6 * * 1-5", "0 9 * * 6", "0 15 * * 0"), "UTC"),
        (("0 3 * * *", "0 15 * * 0"), "UTC"),
        (("*/30 8-17 * * 1-5", "0 9 * * 6,0"), "UTC"),
    ],
)
def test_a_missing_run_is_overdue_within_minutes_on_each_day_of_the_week(
    expressions: tuple[str, ...], zone: str
) -> None:
    times = heartbeats(expressions, zone)
    fit = None
    for index in range(next(i for i, time in enumerate(times) if time > times[-1] - WEEK_MS), len(times)):
        fit = learn(times[:index], (zone,), fit)
        assert times[index] < (fit.overdue_at or 0) < times[index] + 5 * MINUTE_MS
        assert abs((fit.expected_at or 0) - times[index]) < 2 * MINUTE_MS


@pytest.mark.parametrize(
    ("expressions", "most"),
    [
        (WEEKDAYS_AND_WEEKENDS, 0),
        (("0 9,17 * * 1-5", "0 9 * * 6"), 2),
        (("0 8,12,16,20 * * 1-5", "0 12 * * 6,0"), 5),
        (OFTEN_ON_WEEKDAYS, 4),
    ],
)
def test_false_alarms_end_with_the_second_week(expressions: tuple[str, ...], most: int) -> None:
    times, fit, alarms = heartbeats(expressions), None, []
    for count, (time, following) in enumerate(pairwise(times), 1):
        fit = learn(times[:count], previous=fit)
        if (fit.overdue_at or following) < following:
            alarms.append(time)
    assert len(alarms) <= most
    assert not [time for time in alarms if time > at(SINCE) + 2 * WEEK_MS]


def test_the_clocks_of_its_zone_are_followed() -> None:
    zone = "Europe/Berlin"
    times = [time for time in heartbeats(WEEKDAYS_AND_WEEKENDS, zone, 20) if time < at("2025-05-10 09:00", zone)]
    due = at("2025-05-10 10:00", zone)  # a Saturday
    assert due < (learn(times).overdue_at or 0) < due + 5 * MINUTE_MS


def test_an_outage_a_week_ago_is_not_waited_for() -> None:
    times = heartbeats(("0 * * * *",))
    died = times[-1] - 2 * DAY_MS
    outage = (died - WEEK_MS, died - WEEK_MS + 4 * HOUR_MS)
    seen = [time for time in times if time <= died and not outage[0] < time < outage[1]]
    assert (learn(seen).overdue_at or 0) < died + HOUR_MS + 5 * MINUTE_MS


def test_a_day_of_manual_runs_a_week_ago_is_not_waited_for() -> None:
    times = heartbeats(("0 2 * * *",))
    manual = [times[-7] + hours * HOUR_MS + 11 * MINUTE_MS for hours in (3, 4, 6, 7, 11)]
    due = times[-1] + DAY_MS
    assert due < (learn(sorted([*times, *manual])).overdue_at or 0) < due + 5 * MINUTE_MS


def test_a_slot_in_a_maintenance_window_is_not_awaited() -> None:
    times = heartbeats(WEEKDAYS_AND_WEEKENDS)[:-2]  # the last one is of a Friday
    saturday = times[-1] + DAY_MS + 2 * HOUR_MS
    fit = learn(times, unknown=[(saturday - HOUR_MS, saturday + HOUR_MS)])
    assert (fit.overdue_at or 0) > saturday + 4 * HOUR_MS


def test_that_a_job_ran_in_both_last_weeks_does_not_matter_if_it_misses_runs_by_chance() -> None:
    rng = random.Random(1)
    times = [time for time in heartbeats(("0 2 * * *",), weeks=30) if rng.random() > 0.3]
    for count in range(100, len(times)):
        assert (learn(times[:count]).overdue_at or 0) > times[count - 1] + 2 * DAY_MS - HOUR_MS


def test_manual_runs_soon_after_a_run_are_not_waited_for_a_week_later() -> None:
    """They are near a run of the week before, too, but that one has a nearer one."""
    times = heartbeats(("15 * * * *",), weeks=4)
    manual = [time + 5 * MINUTE_MS for time in times[-9 * 24 : -9 * 24 + 6]]
    fit = None
    for count in range(len(times) - 8 * 24, len(times)):
        fit = learn(sorted([*times[:count], *manual]), previous=fit)
        assert (fit.overdue_at or 0) > times[count]


@pytest.mark.parametrize(
    ("expressions", "summary"),
    [
        (WEEKDAYS_AND_WEEKENDS, "Every day at 08:00, with exceptions each week, UTC"),
        (OFTEN_ON_WEEKDAYS, "Hourly at :00, with exceptions each week, UTC"),
        (("0 8,12,16,20 * * 1-5", "0 12 * * 6,0"), "4 times a day, 08:00-20:00, with exceptions each week, UTC"),
        (("0 3 * * *", "0 15 * * 0"), "Every day at 03:00, with exceptions each week, UTC"),
    ],
)
def test_on_each_day_the_words_say_that_some_differ(expressions: tuple[str, ...], summary: str) -> None:
    times, fit = heartbeats(expressions, weeks=4), None
    for count in range(3, len(times) + 1):
        fit = learn(times[:count], ("UTC",), fit)
        if times[count - 1] > at(SINCE) + 3 * WEEK_MS:
            assert (describe(fit).summary, describe(fit).cron) == (summary, None)
            assert (fit.changed_at or 0) < at(SINCE) + 3 * WEEK_MS


@pytest.mark.parametrize("expression", ["0 8 * * *", "0 8 * * 1-5", "17 * * * *", "0 8,20 * * 0,6", "0 8-18 * * 1-5"])
def test_one_expression_has_no_exceptions(expression: str) -> None:
    times = heartbeats((expression,))
    del times[-9]  # nor has a missed run
    for count in range(bisect_left(times, times[-1] - WEEK_MS), len(times) + 1):
        assert describe(learn(times[:count], ("UTC",))).cron == expression


def test_the_page_says_why_it_is_expected_then() -> None:
    fit = learn(heartbeats(WEEKDAYS_AND_WEEKENDS)[:-2])
    assert describe(fit).expected == "expected Sat 10:00, overdue at 10:01 because it ran then in the last two weeks"
    assert Fit.decode(fit.encode()) == fit


@pytest.mark.parametrize(("usual", "longer"), [(5, 90), (10, 180), (10, 300)])
def test_a_nightly_job_that_takes_longer_on_sundays_and_reports_its_end_is_missed_soon(usual: int, longer: int) -> None:
    noise = random.Random(1)
    times = [
        start + round((longer if start // DAY_MS % 7 == 3 else usual) * MINUTE_MS * noise.uniform(0.9, 1.1))
        for start in slots("0 2 * * *", "UTC", "2025-03-03 00:00", 7 * 9)
    ]
    for count in range(7 * 6, len(times)):
        assert times[count] < (learn(times[:count]).overdue_at or 0) < times[count] + 2 * longer * MINUTE_MS


@pytest.mark.parametrize("day", [7, 8, 9, 10])
def test_hours_that_begin_and_end_within_an_hour_are_known_after_three_weeks(day: int) -> None:
    zone = "America/New_York"
    quarters = cron("*/15 9-16 * * 1-5", zone, "2025-03-10 00:00", 900)  # the clocks do not change
    times = [time for time in quarters if (at("2025-03-10 16:05", zone) - time) % DAY_MS < 6.6 * HOUR_MS]
    seen = [time for time in times if time < at(f"2025-04-{day:02} 16:05", zone)]
    assert (learn(seen).overdue_at or 0) > at(f"2025-04-{day + 1:02} 09:30", zone)


@pytest.mark.parametrize("ends", [(4, 5), (3, 6)])
def test_mornings_that_begin_later_on_some_days_are_waited_for(ends: tuple[int, int]) -> None:
    rng = random.Random(1)
    times = [
        at("2026-03-02") + day * DAY_MS + hour * HOUR_MS + round(rng.uniform(1, 9) * SECOND_MS)
        for day in range(30)
        for end in [rng.choice(ends)]
        for hour in (0, *range(end, 24))
    ]
    last = [place for place in range(len(times) // 2, len(times) - 1) if times[place + 1] - times[place] > 2 * HOUR_MS]
    assert sum((learn(times[: place + 1]).overdue_at or 0) < times[place + 1] for place in last) <= 1
    at_noon = next(place for place in reversed(range(len(times))) if times[place] // HOUR_MS % 24 == 12)
    assert (learn(times[: at_noon + 1]).overdue_at or 0) - times[at_noon] < HOUR_MS + 2 * MINUTE_MS


def test_two_outages_at_the_same_hour_are_not_waited_for() -> None:
    last = at("2026-04-01 12:00")
    outages = [(last - days * DAY_MS, last - days * DAY_MS + 9 * HOUR_MS) for days in (8, 9)]
    times = [last - hours * HOUR_MS + hours * 7919 % (5 * SECOND_MS) for hours in reversed(range(30 * 24))]
    times = [time for time in times if not any(start + MINUTE_MS < time < end for start, end in outages)]
    assert (learn(times).overdue_at or 0) - times[-1] < HOUR_MS + 2 * MINUTE_MS
