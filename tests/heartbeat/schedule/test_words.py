"""What was learned, in words and as a cron expression."""

import random
import re

import pytest

from obs.heartbeat.schedule import describe, learn
from obs.heartbeat.schedule.bases import Lattice
from obs.heartbeat.schedule.clock import local_time
from obs.heartbeat.schedule.gates import WORKDAYS, Gate
from obs.heartbeat.schedule.hypotheses import Hypothesis
from obs.heartbeat.schedule.words import cron_expression, schedule_words
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, duration_words
from tests.heartbeat.schedule.jobs import at, cron, delayed, every_days, keeping_a_gap, slots
from tests.heartbeat.schedule.stories import STORIES


@pytest.mark.parametrize(
    ("expression", "zone", "summary"),
    [
        ("0 2 * * *", "UTC", "Every day at 02:00, UTC"),
        ("0 2 * * 1-5", "Europe/Berlin", "Weekdays at 02:00, Europe/Berlin"),
        ("30 9 * * 1", "UTC", "Mondays at 09:30, UTC"),
        ("0 6,18 * * 0,6", "UTC", "Weekends at 06:00 and 18:00, UTC"),
        ("0 3 * * 2,4", "UTC", "Tuesdays and Thursdays at 03:00, UTC"),
        ("20 */2 * * *", "UTC", "12 times a day, 00:20-22:20, UTC"),
        ("0 8-18/2 * * 1-5", "UTC", "6 times a day, 08:00-18:00 on weekdays, UTC"),
        ("0 1 1 * *", "UTC", "Monthly on the 1st at 01:00, UTC"),
        ("5 4 1,15 * *", "UTC", "Monthly on the 1st and 15th at 04:05, UTC"),
        ("5 4 10 1,4,7,10 *", "UTC", "On the 10th of Jan, Apr, Jul and Oct at 04:05, UTC"),
        ("0 5 L * *", "UTC", "Monthly on the last day at 05:00, UTC"),
        ("0 4 L 3,6,9,12 *", "UTC", "On the last day of Mar, Jun, Sep and Dec at 04:00, UTC"),
        ("0 5 LW * *", "UTC", "Monthly on the last working day at 05:00, UTC"),
        ("0 3 * * 2#3", "UTC", "Monthly on the third Tuesday at 03:00, UTC"),
        ("0 22 * * 5L", "UTC", "Monthly on the last Friday at 22:00, UTC"),
        ("0 4 1-31/3 * *", "UTC", "Every 3rd day of the month from the 1st at 04:00, UTC"),
        ("17 * * * *", "UTC", "Hourly at :17, UTC"),
        ("*/10 * * * *", "UTC", "Every 10 min, UTC"),
        ("5-59/10 * * * *", "UTC", "Every 10 min, UTC"),
        ("*/7 * * * *", "UTC", "Every 7 min of each hour from :00, UTC"),
        ("3-59/25 * * * *", "UTC", "Hourly at :03, :28 and :53, UTC"),
        ("* * * * *", "UTC", "Every minute, UTC"),
        ("5,25 * * * *", "UTC", "Hourly at :05 and :25, UTC"),
        ("5 7-17 * * 1-5", "UTC", "Hourly at :05, 07:00-17:59 on weekdays, UTC"),
        ("0,30 8-17 * * 1-5", "UTC", "Every 30 min, 08:00-17:59 on weekdays, UTC"),
        ("0 0-8,10-23 * * *", "UTC", "Hourly at :00 except 09:00-09:59, UTC"),
        ("*/10 8-11,13-17 * * 1-5", "UTC", "Every 10 min, 08:00-11:59 and 13:00-17:59 on weekdays, UTC"),
        ("*/20 1-3,9-11,22,23 * * *", "UTC", "Every 20 min, 01:00-03:59, 09:00-11:59 and 22:00-23:59, UTC"),
    ],
)
def test_a_cron_expression_is_learned_back(expression: str, zone: str, summary: str) -> None:
    is_quarterly = expression.endswith((" 1,4,7,10 *", " 3,6,9,12 *"))
    count = 24 if is_quarterly else 200 if zone != "UTC" or "-" in expression else 80
    described = describe(learn(cron(expression, zone, count=count)))
    assert described.summary == summary
    assert described.cron == expression
    assert described.zone == zone
    assert described.state == "regular"
    assert described.evidence == f"Learned from {count} runs (all match)"
    assert described.confidence > 0.75


@pytest.mark.parametrize("count", [8, 10, 12])
@pytest.mark.parametrize(
    ("expression", "summary"), [("30 5 * * 0", "Sundays at 05:30, UTC"), ("0 3 */2 * *", "Every 2 days at 03:00, UTC")]
)
def test_a_job_that_starts_to_the_second_is_not_said_to_run_roughly(expression: str, summary: str, count: int) -> None:
    """A gap explains such runs as well, and need not state a day or a zone. But few jobs count days from a run."""
    times = slots(expression, "UTC", "2026-01-05 00:00", count)
    assert describe(learn(delayed(times, typical_ms=300))).summary == summary


def test_the_first_working_day_of_the_month_is_learned() -> None:
    working_days = cron("0 6 * * 1-5", "UTC", count=800)
    first = {local_time("UTC", time).strftime("%Y-%m"): time for time in reversed(working_days)}
    described = describe(learn(sorted(first.values())[1:]))
    assert described.summary == "Monthly on the first working day at 06:00, UTC"
    assert described.cron is None
    assert described.state == "regular"


@pytest.mark.parametrize(
    ("lattice", "gate", "summary", "expression"),
    [
        (
            Lattice(HOUR_MS, (5 * MINUTE_MS,), (0, 1, 2, 3, 4, 5, 22, 23), 0.0),
            Gate(),
            "Hourly at :05, 22:00-05:59",
            "5 0-5,22,23 * * *",
        ),
        (
            Lattice(DAY_MS, tuple(n * HOUR_MS for n in (1, 5, 9, 13)), (0,), 0.0),
            Gate("monthdays", (1, 2, 3, 22)),
            "4 times a day, 01:00-13:00, monthly on the 1st, 2nd, 3rd and 22nd",
            "0 1-13/4 1-3,22 * *",
        ),
        (
            Lattice(DAY_MS, (HOUR_MS,), (0,), 0.0),
            Gate("monthdays", (11, 12, 13)),
            "Monthly on the 11th, 12th and 13th at 01:00",
            "0 1 11-13 * *",
        ),
        (
            Lattice(DAY_MS, tuple(n * HOUR_MS for n in (1, 2, 9, 13)), (0,), 0.0),
            Gate("weekdays", (0, 3)),
            "Mondays and Thursdays at 01:00, 02:00, 09:00 and 13:00",
            "0 1,2,9,13 * * 1,4",
        ),
        (
            Lattice(HOUR_MS, (0, 20 * MINUTE_MS, 40 * MINUTE_MS), tuple(range(24)), 0.0),
            Gate("weekdays", WORKDAYS),
            "Every 20 min on weekdays",
            "*/20 * * * 1-5",
        ),
    ],
    ids=["past midnight", "monthly", "the 11th to the 13th", "uneven", "by the hour on weekdays"],
)
def test_a_schedule_in_words(lattice: Lattice, gate: Gate, summary: str, expression: str) -> None:
    hypothesis = Hypothesis("UTC", lattice, gate, 0, 0.0)
    assert schedule_words(hypothesis, [0] * 20) == summary
    assert cron_expression(hypothesis, [0] * 20) == expression


def test_of_more_runs_than_are_looked_at_the_last_ones_count() -> None:
    assert describe(learn(cron("17 * * * *", count=300))).evidence == "Learned from the last 256 runs (all match)"


def test_runs_that_do_not_match_are_counted() -> None:
    times = cron("0 2 * * *", count=40)
    described = describe(learn(sorted([*times, times[10] + 5 * HOUR_MS])))
    assert described.evidence == "Learned from 41 runs (40 match)"


def test_the_expected_time_has_a_reason() -> None:
    times = cron("0 2 * * 1-5", since="2025-01-10 00:00", count=81)  # the last is Friday, 2 May
    described = describe(learn(times))
    assert re.fullmatch(
        r"expected Mon 02:00, overdue at 02:01 because starts have been up to \d+ s late", described.expected
    )


def test_a_run_of_no_slot_is_not_the_reason() -> None:
    times = cron("*/30 * * * *", since="2025-03-03 00:00", count=200)
    described = describe(learn(sorted([*times, times[150] + 17 * MINUTE_MS])))
    assert re.search(r"starts have been up to \d+ s late$", described.expected)


def test_an_overdue_time_on_another_day_is_shown_with_its_day() -> None:
    wednesday_to_friday = cron("0 9 * * 1-5", since="2025-01-14 12:00", count=3)
    described = describe(learn(wednesday_to_friday))
    assert re.fullmatch(
        r'expected Sat 09:00, overdue at Mon 09:0\d because the schedule may also be "Weekdays at 09:00"',
        described.expected,
    )


@pytest.mark.parametrize("count", [0, 2])
def test_learning(count: int) -> None:
    described = describe(learn(cron("0 2 * * *", count=count)))
    assert (described.state, described.summary) == ("learning", f"Learning: {count} of 3 runs so far")
    assert (described.evidence, described.cron, described.expected, described.confidence) == ("", None, "", 0.0)


def test_learning_from_an_irregular_first_day() -> None:
    """Each run pings at its start and at its end."""
    rng, starts = random.Random(1), cron("*/5 * * * *", since="2025-01-14 09:00", count=40)
    ends = [start + round(40 * SECOND_MS * rng.lognormvariate(0, 0.3)) for start in starts]
    described = describe(learn(sorted([*starts, *ends])))
    assert (described.state, described.summary) == ("learning", "Learning: irregular runs on the first day")


@pytest.mark.parametrize(
    ("gap_ms", "summary"),
    [
        (45 * MINUTE_MS, "Roughly every 45 min"),
        (MINUTE_MS - 20 * SECOND_MS, "Every minute"),
        (HOUR_MS, "Roughly hourly"),
        (DAY_MS + 5 * MINUTE_MS, "Roughly daily"),
        (7 * DAY_MS + 31 * MINUTE_MS, "Roughly weekly"),
    ],
)
def test_a_gap_has_no_cron_expression(gap_ms: int, summary: str) -> None:
    described = describe(learn(keeping_a_gap(gap_ms, 60)))
    assert described.summary == summary
    assert described.cron is None


def test_every_five_days_has_no_cron_expression() -> None:
    described = describe(learn(every_days(5, 3, 40)))
    assert described.summary == "Every 5 days at 03:00, UTC"
    assert described.cron is None


def test_different_minutes_of_the_hour_have_no_cron_expression() -> None:
    times = sorted(cron("10 4 * * *", count=40) + cron("50 15 * * *", count=40))
    described = describe(learn(times))
    assert described.summary == "Every day at 04:10 and 15:50, UTC"
    assert described.cron is None


def test_without_a_regular_schedule_the_best_guess_is_shown() -> None:
    described = describe(learn(delayed([at("2025-01-10 00:00")] * 60, typical_ms=20 * DAY_MS)))
    assert (described.state, described.summary, described.cron) == ("irregular", "No regular schedule found", None)
    assert re.fullmatch(r"Best guess: .+ \(\d+ of 60 runs match\)", described.evidence)


def test_a_clock_that_is_a_few_seconds_fast_does_not_change_the_minute() -> None:
    times = [time - 6 * SECOND_MS for time in cron("0 2 * * *", count=40)]
    assert min(time % DAY_MS for time in times) < 2 * HOUR_MS
    assert describe(learn(times)).summary == "Every day at 02:00, UTC"


@pytest.mark.parametrize(
    ("expression", "later_ms", "summary", "cron_expression"),
    [
        ("0 0 * * 1", -2_000, "Sundays at 23:59", "59 23 * * 0"),
        ("0 0 1 * *", -2_000, "Monthly on the last day at 23:59", "59 23 L * *"),
        ("0 0 * * 1-5", -2_000, "Mondays, Tuesdays, Wednesdays, Thursdays and Sundays at 23:59", "59 23 * * 0-4"),
        ("0 9-17 * * *", -2_000, "Hourly at :59, 08:00-16:59", "59 8-16 * * *"),
        ("59 23 * * 0", 65_000, "Mondays at 00:00", "0 0 * * 1"),
        ("0 0 * * *", -2_000, "Every day at 00:00", "0 0 * * *"),
    ],
)
def test_words_name_the_day_and_the_hour_in_which_the_runs_are(
    expression: str, later_ms: int, summary: str, cron_expression: str
) -> None:
    times = [time + later_ms for time in slots(expression, "UTC", "2025-01-10 12:00", 60)]
    described = describe(learn(times, ("UTC",)))
    assert (described.summary, described.cron) == (f"{summary}, UTC", cron_expression)


@pytest.mark.parametrize(
    ("length_ms", "words"),
    [
        (200, "0 s"),
        (59_600, "1 min"),
        (252_000, "4 min 12 s"),
        (10_800_000, "3 h"),
        (190_800_000, "2 d 5 h"),
        (86_430_000, "1 d"),
    ],
)
def test_durations(length_ms: int, words: str) -> None:
    assert duration_words(length_ms) == words


@pytest.mark.parametrize(
    ("gap_ms", "expression"), [(60_000, "* * * * *"), (60_010, "* * * * *"), (60_900, None), (120_000, None)]
)
def test_a_job_that_runs_every_minute_has_a_cron_expression(gap_ms: int, expression: str | None) -> None:
    described = describe(learn([at("2026-06-21 10:00:17") + number * gap_ms for number in range(12)]))
    assert described.cron == expression
    assert (described.summary == "Every minute") == (gap_ms < 61_000)


def test_of_zones_that_fit_equally_well_the_first_is_named() -> None:
    """A job at 02:00 in Berlin, in winter."""
    times = cron("0 2 * * 1-5", zone="Europe/Berlin", since="2025-01-07 00:00", count=30)
    local = describe(learn(times, zones=("Europe/Berlin", "UTC", "Europe/London")))
    assert (local.summary, local.cron) == ("Weekdays at 02:00, Europe/Berlin", "0 2 * * 1-5")
    assert describe(learn(times, zones=("UTC", "Europe/Berlin"))).summary == "Weekdays at 01:00, UTC"


def test_a_long_range_of_days_is_named_by_its_ends() -> None:
    hypothesis = Hypothesis(
        "UTC", Lattice(DAY_MS, (3 * HOUR_MS,), (0,), 0.0), Gate("monthdays", tuple(range(3, 27))), 0, 0.0
    )
    assert schedule_words(hypothesis, [0] * 20) == "Monthly on the 3rd to the 26th at 03:00"
    assert cron_expression(hypothesis, [0] * 20) == "0 3 3-26 * *"


def test_a_job_that_is_often_switched_off_is_waited_for_because_of_its_silences() -> None:
    times = STORIES["laptop"][0](random.Random(2)).times
    assert describe(learn(times)).expected.endswith(" because it was silent for as long before")


def test_the_schedule_that_a_job_is_waited_for_is_named_with_its_zone_where_that_is_another() -> None:
    """After three runs at the beginning of a month in UTC, the job may run at the end of a month in New York."""
    times = [at(f"2026-{month:02}-01 01:00") for month in (9, 10, 11)]
    described = describe(learn(delayed(times)))
    assert described.expected.endswith(
        'because the schedule may also be "Monthly on the last day at 21:00, America/New_York"'
    )
