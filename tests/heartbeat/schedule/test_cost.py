"""The cost of a history, in bits."""

from collections.abc import Sequence

import pytest

from obs.heartbeat.schedule.cost import OUTLIER_BITS, Account, account, fill, residual_bits
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

ON_TIME = [SECOND_MS] * 10


def test_residuals_below_a_second_cost_the_same_as_none() -> None:
    assert residual_bits((0,) * 5, 1, DAY_MS) == [1.0] * 5
    assert residual_bits((10, -10, 10, -10), 0, DAY_MS) == pytest.approx([1.0] * 4, abs=0.02)


def test_a_residual_costs_more_the_less_usual_it_is_and_at_most_sixteen_bits() -> None:
    bits = residual_bits((*ON_TIME, 4 * SECOND_MS, 8 * SECOND_MS, DAY_MS), 0, DAY_MS)
    assert bits is not None
    assert bits[0] < bits[10] < bits[11] < bits[12] == OUTLIER_BITS


@pytest.mark.parametrize(("spacing_ms", "fits"), [(DAY_MS, True), (14 * HOUR_MS, False)])
def test_delays_drawn_from_half_a_day_cost_the_same_if_the_window_is_much_shorter_than_the_spacing(
    spacing_ms: int, *, fits: bool
) -> None:
    """Otherwise they say nothing about the schedule, because they leave hardly any time out."""
    bits = residual_bits(tuple(minute * MINUTE_MS for minute in range(-360, 361, 10)), 1, spacing_ms)
    assert bits is not None
    assert (len(set(bits)) == 1 and bits[0] < OUTLIER_BITS) == fits


def test_a_hypothesis_with_as_many_positions_as_heartbeats_explains_nothing() -> None:
    assert residual_bits((0, 0, 0), 3, DAY_MS) is None


def account_of(ranks: Sequence[int | None], residuals: list[int] | None = None) -> Account:
    """The account of a history with a run in each slot, whose heartbeats cost one bit each."""
    filling = fill(range(len(ranks)), residuals or [0] * len(ranks), [1.0] * len(ranks))
    found = account(filling, ranks)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("ranks", "more"),
    [
        ([0, 1, 2, 3, 4], 0),
        ([0, 1, 3, 4, 5], 10),
        ([0, 1, 6, 7, 8], 12),  # four missed slots in a row
        ([0, 1, None, 2, 3], OUTLIER_BITS - 1),
        ([0, 1, None, 3, 4], OUTLIER_BITS - 1 + 10),
    ],
    ids=["none missed", "one missed", "four missed", "on a closed day", "on a closed day, and one missed"],
)
def test_what_does_not_fit_the_slots_costs_more(ranks: list[int | None], more: float) -> None:
    found = account_of(ranks)
    assert found.bits == sum(found.each) == pytest.approx(5 + more)


def test_missing_often_costs_less_than_each_miss_on_its_own() -> None:
    every_other = account_of(range(0, 60, 2))
    assert every_other.misses_often
    assert every_other.bits < 30 + 29 * 10 / 2


def test_of_two_heartbeats_in_a_slot_the_nearer_one_is_its_run() -> None:
    filling = fill([0, 1, 1, 2], [0, 2 * HOUR_MS, 5, 0], [1.0, 9.0, 1.0, 1.0])
    assert (filling.slots, filling.firsts, filling.residuals) == ([0, 1, 2], [0, 1, 3], (0, 5, 0))
    assert sum(filling.each) == pytest.approx(3 + OUTLIER_BITS)


def test_the_first_of_two_heartbeats_in_a_slot_is_its_run_if_it_is_nearer() -> None:
    filling = fill([0, 1, 1, 2], [0, 5, 2 * HOUR_MS, 0], [1.0, 1.0, 9.0, 1.0])
    assert filling.residuals == (0, 5, 0)
    assert filling.each == [1.0, 1.0, OUTLIER_BITS, 1.0]


def test_all_heartbeats_of_a_closed_day_fill_no_slot() -> None:
    found = account(fill([0, 1, 1, 2], [0, 0, 5, 0], [1.0, 1.0, 2.0, 1.0]), [0, None, 1])
    assert found is not None
    assert found.bits == sum(found.each) == 2 + 2 * OUTLIER_BITS


def test_a_heartbeat_long_before_its_slot_is_not_its_run() -> None:
    filling = fill([0, 1, 1, 2], [0, -HOUR_MS, 5, 0], [1.0, OUTLIER_BITS, 1.0, 1.0])
    assert (filling.slots, filling.firsts, filling.residuals) == ([0, 1, 2], [0, 2, 3], (0, 5, 0))
    assert filling.each == [1.0, OUTLIER_BITS, 1.0, 1.0]


def test_no_slot_counts_as_missed_before_an_excused_heartbeat() -> None:
    filling = fill([0, 1, 5, 9], [0] * 4, [1.0] * 4)
    found = account(filling, filling.slots, excused={2})
    assert found is not None
    assert found.skips == [0, 0, 3]
