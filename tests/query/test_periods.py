"""covered(start, end): how long at least one of some periods lasts."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from obs.query.language.functions import FUNCTIONS
from tests.conftest import START

Ask = Callable[..., dict[str, Any]]
MINUTE = 60_000


@pytest.fixture
def noted(write: Any, shop: None) -> Callable[[list[tuple[int, int | None]]], None]:
    """Replaces the annotations by some that last from one minute to another, counted from now."""

    def fill(periods: list[tuple[int, int | None]]) -> None:
        add = "INSERT INTO annotations (name, title, created_at, updated_at, start_time, end_time)"
        times = [(START + start * MINUTE, None if end is None else START + end * MINUTE) for start, end in periods]
        write(lambda db: db.execute("DELETE FROM annotations"))
        write(lambda db: db.executemany(f"{add} VALUES ('a', '', 0, 0, ?, ?)", times))

    return fill


@pytest.mark.parametrize(
    ("periods", "minutes"),
    [
        ([], None),
        ([(-9, None)], None),
        ([(-9, -7)], 2),
        ([(-9, -9)], 0),
        ([(-9, -7), (-8, -5), (-9, -6)], 4),
        ([(-9, -7), (-7, -5)], 4),
        ([(-9, -8), (-3, -1), (-9, None)], 3),
        ([(-9, -1), (-8, -7)], 8),
    ],
)
def test_what_periods_have_in_common_counts_once(
    ask: Ask, noted: Any, periods: list[tuple[int, int | None]], minutes: int | None
) -> None:
    noted(periods)
    answer = ask("SELECT covered(time, end_time) AS length FROM annotations LAST 1h")
    assert answer["rows"] == [[None if minutes is None else minutes * MINUTE]]
    answer = ask("SELECT covered(end_time, time) AS length FROM annotations WHERE end_time IS NOT NULL LAST 1h")
    assert answer["rows"] == [[None if minutes is None else 0]]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1))
def test_any_periods(periods: list[tuple[int, int]]) -> None:
    sqlite = FUNCTIONS["covered"].sqlite
    assert sqlite is not None
    found: Any = sqlite.python()
    for start, end in periods:
        found.step(start, end)
    assert found.finalize() == len({moment for start, end in periods for moment in range(start, end)})
