"""Exact percentiles of many values."""

import random

import pytest

from obs.query.language.functions import percentile


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
            assert percentile([values], fraction) == pytest.approx(expected)
            blocks = [sorted(values[: size // 3]), sorted(values[size // 3 : size // 2]), values[size // 2 :]]
            assert percentile(blocks, fraction) == pytest.approx(expected)
