"""Exact percentiles of many values."""

import random
from array import array

import pytest

from obs.query.language.functions import percentile
from obs.storage.packed import pack, squares, total


@pytest.mark.parametrize("distinct", [1, 2, 10, 10**9])
def test_a_percentile_lies_between_its_neighbours(distinct: int) -> None:
    chance = random.Random(distinct)
    for size in [*range(1, 40), 5_000]:
        values = [chance.randrange(distinct) for _ in range(size)]
        for fraction in (0.0, 0.25, 0.5, 0.9, 0.95, 0.999, 1.0):
            ordered = sorted(values)
            position = fraction * (size - 1)
            below = int(position)
            above = min(below + 1, size - 1)
            expected = ordered[below] + (ordered[above] - ordered[below]) * (position - below)
            blobs = [pack(sorted(values[: size // 3])), pack(sorted(values[size // 3 : size // 2]))]
            for numbers in (array("q", values), values):
                assert percentile(numbers, [], fraction) == pytest.approx(expected)
                assert percentile(numbers[size // 2 :], blobs, fraction) == pytest.approx(expected)


def test_a_percentile_of_whole_numbers_is_exact() -> None:
    """Also of numbers that take 8 bytes, and of both kinds together."""
    large = [2**50 + number for number in range(1, 400, 2)]
    small = [*range(300)]
    assert percentile(array("q"), [pack(large)], 0.0) == 2**50 + 1
    assert percentile(array("q"), [pack(small), pack(large)], 1.0) == 2**50 + 399
    assert percentile(array("q", [-5]), [pack(small), pack(large)], 0.0) == -5
    assert percentile(array("q", [7] * 500), [], 0.5) == 7
    assert percentile(array("q"), [pack([])], 0.5) is None
    assert percentile(array("q"), [pack([1, 2])], "[0, 0.5, 1]") == "[1, 1.5, 2]"


def test_sums_of_many_numbers_and_of_their_squares_are_exact() -> None:
    for numbers in (
        array("I", [2**32 - 1] * 5_000),
        array("I", range(2**16 - 300, 2**16 + 300)),
        array("q", [2**40, -1] * 5_000),
        array("I", [3]),
    ):
        assert total(numbers) == sum(numbers)
        assert squares(numbers) == sum(number * number for number in numbers)
