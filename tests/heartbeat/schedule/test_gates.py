"""Gates: the days on which they are open, in what order, and which gates are candidates for a history."""

from datetime import date

import pytest

from obs.heartbeat.schedule.gates import ANY_DAY, WORKDAY, Gate, candidates

EPOCH = date(1970, 1, 1).toordinal()


def day(text: str) -> int:
    return date.fromisoformat(text).toordinal() - EPOCH


@pytest.mark.parametrize(
    ("gate", "after", "following"),
    [
        (Gate(), "2024-02-28", "2024-02-29"),
        (Gate("weekdays", (0, 1, 2, 3, 4)), "2025-01-10", "2025-01-13"),
        (Gate("monthdays", (31,)), "2025-01-31", "2025-03-31"),
        (Gate("monthdays", (29,)), "2025-01-29", "2025-03-29"),
        (Gate("monthdays", (29,), (2,)), "2024-02-29", "2028-02-29"),
        (Gate("monthdays", (1,), (1, 4, 7, 10)), "2025-10-01", "2026-01-01"),
        (Gate("monthstep", (1, 10)), "2025-01-31", "2025-02-01"),
        (Gate("nth", (ANY_DAY, -1)), "2024-02-01", "2024-02-29"),
        (Gate("nth", (ANY_DAY, -1)), "2025-02-28", "2025-03-31"),
        (Gate("nth", (ANY_DAY, -1), (3, 6, 9, 12)), "2025-06-30", "2025-09-30"),
        (Gate("nth", (WORKDAY, -1)), "2025-04-30", "2025-05-30"),
        (Gate("nth", (WORKDAY, 1)), "2025-02-03", "2025-03-03"),
        (Gate("nth", (1, 3)), "2025-01-21", "2025-02-18"),
        (Gate("nth", (0, 5)), "2025-01-01", "2025-03-31"),
        (Gate("nth", (4, -1)), "2025-01-31", "2025-02-28"),
        (Gate("interval", (5, 2)), "1970-01-03", "1970-01-08"),
    ],
)
def test_the_next_day_on_which_a_gate_is_open(gate: Gate, after: str, following: str) -> None:
    assert gate.following(day(after)) == day(following)


@pytest.mark.parametrize(
    "gate",
    [
        Gate(),
        Gate("weekdays", (1, 4)),
        Gate("monthdays", (1, 31)),
        Gate("weekdays", (1, 4), (3, 4)),
        Gate("nth", (ANY_DAY, -1)),
        Gate("nth", (WORKDAY, -1)),
        Gate("nth", (1, 1, 3)),
        Gate("interval", (9, 4)),
    ],
)
def test_consecutive_days_of_a_gate_are_one_rank_apart_and_other_days_have_none(gate: Gate) -> None:
    open_days = [gate.following(day("2023-12-20"))]
    while len(open_days) < 40:
        open_days.append(gate.following(open_days[-1]))
    ranks = gate.ranks(open_days)
    assert ranks[0] is not None
    assert ranks == list(range(ranks[0], ranks[0] + 40))
    others = sorted(set(range(open_days[0], open_days[-1])) - set(open_days))
    assert not others or set(gate.ranks(others)) == {None}


@pytest.mark.parametrize(
    ("days", "gate"),
    [
        (["2025-01-21", "2025-02-18", "2025-03-18"], Gate("nth", (1, 3))),
        (["2025-01-31", "2025-02-28", "2025-03-31"], Gate("nth", (ANY_DAY, -1))),
        (["2025-03-31", "2025-04-30", "2025-05-30"], Gate("nth", (WORKDAY, -1))),
        (["2025-01-01", "2025-02-03", "2025-03-03"], Gate("nth", (WORKDAY, 1))),
        (["2025-01-29", "2025-01-31", "2025-02-01", "2025-02-03"], Gate("monthstep", (1, 2))),
        (["2025-01-10", "2025-04-10", "2025-07-10"], Gate("monthdays", (10,), (1, 4, 7, 10))),
        (["2025-01-10", "2025-01-19", "2025-02-06"], Gate("interval", (9, day("2025-01-10") % 9))),
        ([f"2025-0{n % 2 + 1}-0{n}" for n in (1, 3, 5, 2, 4)], Gate("monthdays", (1, 2, 3, 4, 5))),
    ],
)
def test_a_gate_that_is_open_on_every_day_seen_is_a_candidate(days: list[str], gate: Gate) -> None:
    seen = tuple(sorted(day(text) for text in days))
    found = candidates(seen, seen[-1] - seen[0])
    assert gate in found
    assert all(None not in candidate.ranks(seen) for candidate in found)
    assert found[gate] > found[Gate()]


def test_the_days_of_a_single_month_are_no_range() -> None:
    """A job that is three weeks old has run on all days since it was created."""
    days = tuple(day(f"2025-01-{n:02}") for n in range(3, 25))
    assert {gate.kind for gate in candidates(days, 21)} == {"every"}
