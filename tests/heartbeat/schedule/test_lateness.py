"""How late a run may be, from how late the runs were: shapes that are weighed, not assumed."""

import math
from statistics import NormalDist

import pytest

from obs.heartbeat.schedule.lateness import upper_bound

COUNT = 80
SHARES = [(n + 0.5) / COUNT for n in range(COUNT)]
UNIFORM = [600 * share for share in SHARES]
NORMAL = [NormalDist(0, 60).inv_cdf(share) for share in SHARES]
LONG_TAIL = [60 * math.exp(NormalDist(0, 0.8).inv_cdf(share)) for share in SHARES]


@pytest.mark.parametrize(
    ("residuals", "least", "most"),
    [(UNIFORM, 600, 720), (NORMAL, 3.5 * 60, 10 * 60), (LONG_TAIL, 60 * math.exp(3.5 * 0.7), 60 * math.exp(3.5 * 1.2))],
    ids=["uniform", "normal", "long tail"],
)
def test_the_bound_is_that_of_the_shape_which_the_delays_have(
    residuals: list[float], least: float, most: float
) -> None:
    assert least < upper_bound(residuals) < most


def test_residuals_that_fill_the_way_to_the_next_slot_have_no_largest_delay() -> None:
    assert upper_bound(UNIFORM, spacing=800) > 1.5 * upper_bound(UNIFORM, spacing=86_400)


@pytest.mark.parametrize("residuals", [UNIFORM, NORMAL, LONG_TAIL], ids=["uniform", "normal", "long tail"])
def test_the_fewer_runs_were_seen_the_longer_the_wait(residuals: list[float]) -> None:
    few = residuals[:: COUNT // 5]
    assert upper_bound(few) > 1.1 * upper_bound(residuals)


def test_one_late_run_makes_the_wait_longer() -> None:
    assert upper_bound([*NORMAL[1:], 600.0]) > 1.1 * upper_bound(NORMAL)


def test_where_all_runs_were_the_same_the_wait_is_seconds() -> None:
    assert 0 < upper_bound([0.0] * COUNT) < 10
