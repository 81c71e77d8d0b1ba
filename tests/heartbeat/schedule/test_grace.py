"""The grace period: distributions of delays are weighed against each other, not assumed."""

import math
from statistics import NormalDist

import pytest

from obs.heartbeat.schedule.grace import duration_bound, student_t_quantile, upper_bound
from obs.times import DAY_MS, MINUTE_MS, SECOND_MS

COUNT = 80
SHARES = [(n + 0.5) / COUNT for n in range(COUNT)]
UNIFORM = tuple(round(10 * MINUTE_MS * share) for share in SHARES)
NORMAL = tuple(round(NormalDist(0, MINUTE_MS).inv_cdf(share)) for share in SHARES)
LONG_TAIL = tuple(round(MINUTE_MS * math.exp(NormalDist(0, 0.8).inv_cdf(share))) for share in SHARES)


@pytest.mark.parametrize(
    ("residuals", "min_minutes", "max_minutes"),
    [(UNIFORM, 10, 12), (NORMAL, 3.5, 10), (LONG_TAIL, math.exp(3.5 * 0.7), math.exp(3.5 * 1.2))],
    ids=["uniform", "normal", "long tail"],
)
def test_the_bound_fits_the_distribution_of_the_delays(
    residuals: tuple[int, ...], min_minutes: float, max_minutes: float
) -> None:
    assert min_minutes * MINUTE_MS < upper_bound(residuals) < max_minutes * MINUTE_MS


def test_residuals_that_reach_the_next_slot_say_nothing_about_the_largest_delay() -> None:
    assert upper_bound(UNIFORM, spacing_ms=800 * SECOND_MS) > 1.5 * upper_bound(UNIFORM, spacing_ms=DAY_MS)


@pytest.mark.parametrize("residuals", [UNIFORM, NORMAL, LONG_TAIL], ids=["uniform", "normal", "long tail"])
def test_fewer_runs_mean_a_longer_wait(residuals: tuple[int, ...]) -> None:
    few = residuals[:: COUNT // 5]
    assert upper_bound(few) > 1.1 * upper_bound(residuals)


@pytest.mark.parametrize(("slower", "shift"), [(16, 90 * MINUTE_MS), (11, 360 * MINUTE_MS)])
def test_of_two_kinds_of_runs_the_slower_ones_set_the_bound(slower: int, shift: int) -> None:
    late = tuple(shift + residual for residual in NORMAL[:: COUNT // slower][:slower])
    assert max(late) < upper_bound((*NORMAL[slower:], *late)) < max(late) + 30 * MINUTE_MS


def test_a_delay_of_another_tick_is_not_ruled_out_because_the_slower_runs_were_equal() -> None:
    assert upper_bound((0,) * 50 + (MINUTE_MS,) * 22 + (2 * MINUTE_MS,) * 8) > 3 * MINUTE_MS


def test_one_late_run_means_a_longer_wait() -> None:
    assert upper_bound((*NORMAL[1:], 10 * MINUTE_MS)) > 1.1 * upper_bound(NORMAL)


def test_what_came_twice_is_waited_for() -> None:
    assert upper_bound((*NORMAL[2:], 110 * MINUTE_MS, 117 * MINUTE_MS)) > 117 * MINUTE_MS


def test_if_all_delays_were_the_same_the_wait_is_a_few_seconds() -> None:
    assert 0 < upper_bound((0,) * COUNT) < 10 * SECOND_MS


def test_a_run_is_overrunning_some_time_after_the_longest_duration() -> None:
    bound = duration_bound([(300 + 7 * (n % 5)) * SECOND_MS for n in range(40)])
    assert bound is not None
    assert 328 * SECOND_MS < bound < 480 * SECOND_MS


def test_the_more_the_durations_vary_the_longer_the_wait() -> None:
    steady = duration_bound([10 * MINUTE_MS] * 20)
    varied = duration_bound([5 * MINUTE_MS, 10 * MINUTE_MS, 15 * MINUTE_MS, 25 * MINUTE_MS] * 5)
    assert steady is not None
    assert varied is not None
    assert varied > steady + 15 * MINUTE_MS


def test_two_durations_are_not_enough() -> None:
    assert duration_bound([10_000, 11_000]) is None


@pytest.mark.parametrize(
    ("upper_tail", "df", "quantile"),  # from the usual tables of Student's t
    [
        (0.0005, 12, 4.318),
        (0.0005, 10, 4.587),
        (0.05, 10, 1.812),
        (0.005, 10, 3.169),
        (0.0005, 30, 3.646),
        (0.25, 60, 0.679),
    ],
)
def test_the_quantile_of_student_t_is_that_of_the_tables(upper_tail: float, df: int, quantile: float) -> None:
    assert student_t_quantile(upper_tail, df) == pytest.approx(quantile, abs=0.002)
