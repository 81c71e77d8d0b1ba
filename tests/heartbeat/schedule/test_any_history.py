"""Whatever heartbeats a job sends, learning from them gives an answer, and the answer makes sense."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from obs.heartbeat.schedule import Fit, deadline, describe, duration_bound, learn, too_often
from obs.heartbeat.schedule.heartbeats import history

anything = st.lists(
    st.one_of(
        st.floats(allow_nan=True, allow_infinity=True),
        st.floats(min_value=-1e11, max_value=1e12),
        st.integers(min_value=-(10**12), max_value=10**12).map(float),
        st.floats(min_value=1.7e9, max_value=1.7e9 + 10),
    ),
    max_size=40,
)
gaps = st.sampled_from([0.0, 0.4, 1.9, 2.5, 15.0, 60.0, 600.0, 3600.0, 7200.0, 86400.0, 90000.0, 604800.0, 2678400.0])
plausible = st.tuples(
    st.floats(min_value=0, max_value=4e9), st.lists(st.tuples(gaps, st.floats(0, 30)), max_size=60)
).map(lambda drawn: [drawn[0] + sum(g + j for g, j in drawn[1][:n]) for n in range(len(drawn[1]) + 1)])


@settings(max_examples=80)
@given(st.one_of(anything, plausible))
def test_no_history_raises_and_no_deadline_is_before_the_last_heartbeat(times: list[float]) -> None:
    limit = deadline(times)
    seen = history(times)
    if limit is not None:
        assert math.isfinite(limit)
        assert limit >= seen[-1]
    fit = learn(times)
    assert (fit.deadline_at is None) == (limit is None)
    described = describe(fit)
    assert described.summary
    assert 0 <= described.confidence <= 1
    assert too_often(times, fit) in (True, False)


@settings(max_examples=40)
@given(plausible)
def test_a_fit_survives_its_json(times: list[float]) -> None:
    fit = learn(times)
    assert Fit.from_json(fit.to_json()) == fit


@settings(max_examples=40)
@given(plausible, st.randoms(use_true_random=False))
def test_the_order_in_which_heartbeats_are_given_does_not_matter(times: list[float], rng) -> None:  # type: ignore[no-untyped-def]
    shuffled = list(times)
    rng.shuffle(shuffled)
    assert learn(shuffled) == learn(times)


@settings(max_examples=40)
@given(plausible, st.integers(min_value=-500, max_value=500))
def test_learning_on_from_any_earlier_fit_gives_an_answer(times: list[float], cut: int) -> None:
    previous = learn(times[:cut])
    fit = learn(times, previous=previous)
    seen = history(times)
    assert fit.last == (seen[-1] if seen else None)
    assert fit.deadline_at is None or fit.deadline_at >= seen[-1]


@given(st.lists(st.floats(min_value=0, max_value=1e6), max_size=100))
def test_a_duration_bound_is_above_the_median(durations: list[float]) -> None:
    bound = duration_bound(durations)
    assert (bound is None) == (len(durations) < 3)
    if bound is not None:
        assert bound > sorted(durations[-80:])[len(durations[-80:]) // 2]
