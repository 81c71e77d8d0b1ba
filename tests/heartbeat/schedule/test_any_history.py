"""Any heartbeats that a job may send give an answer, and the answer makes sense."""

import math
import random

from hypothesis import given, settings, strategies as st

from obs.heartbeat.schedule import Fit, deadline, describe, learn, too_often
from obs.heartbeat.schedule.grace import duration_bound
from obs.heartbeat.schedule.history import Memory
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, WEEK_MS

JITTER_MS = 30_000

anything = st.lists(
    st.one_of(
        st.integers(min_value=-(10**20), max_value=10**20),
        st.integers(min_value=-(10**14), max_value=10**15),
        st.integers(min_value=1_700_000_000_000, max_value=1_700_000_010_000),
    ),
    max_size=40,
)
seconds = st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=40)
gaps = st.sampled_from(
    [
        *(0, 400, 1_900, 2_500, 15_000, MINUTE_MS, 10 * MINUTE_MS, HOUR_MS, 2 * HOUR_MS),
        *(DAY_MS, 25 * HOUR_MS, WEEK_MS, 31 * DAY_MS),
    ]
)
plausible = st.tuples(
    st.integers(min_value=0, max_value=4 * 10**12), st.lists(st.tuples(gaps, st.integers(0, JITTER_MS)), max_size=60)
).map(lambda drawn: [drawn[0] + sum(g + j for g, j in drawn[1][:n]) for n in range(len(drawn[1]) + 1)])


@settings(max_examples=80)
@given(st.one_of(anything, plausible))
def test_no_history_raises_and_no_job_is_overdue_before_its_last_heartbeat_or_before_it_is_expected(
    times: list[int],
) -> None:
    fit = learn(times)
    seen = Memory().add(times).history()[0]
    if fit.overdue_at is not None:
        assert fit.overdue_at >= seen[-1]
        assert fit.expected_at is not None
        assert fit.overdue_at >= fit.expected_at
    described = describe(fit)
    assert described.summary
    assert 0 <= described.confidence <= 1
    assert too_often(times, fit) in (True, False)


@settings(max_examples=80)
@given(plausible)
def test_all_times_of_a_fit_are_whole_milliseconds(times: list[int]) -> None:
    fit = learn(times)
    moments = [fit.first_at, fit.last_at, fit.interval_ms, fit.expected_at, fit.overdue_at, fit.grace_ms]
    residuals = [residual for candidate in fit.candidates for residual in candidate.residuals]
    gaps_ms = [candidate.hypothesis.gap_ms for candidate in fit.candidates]
    slots = [slot for c in fit.candidates if c.hypothesis.lattice is not None for slot in c.hypothesis.lattice.slots]
    assert {type(value) for value in [*moments, *residuals, *gaps_ms, *slots] if value is not None} == {int}


@settings(max_examples=80)
@given(seconds)
def test_a_deadline_of_any_numbers_is_finite(times: list[float]) -> None:
    limit = deadline(times)
    assert limit is None or math.isfinite(limit)


@settings(max_examples=40)
@given(plausible)
def test_a_fit_survives_its_json(times: list[int]) -> None:
    fit = learn(times)
    assert Fit.decode(fit.encode()) == fit


@settings(max_examples=40)
@given(plausible, st.randoms(use_true_random=False))
def test_the_order_in_which_heartbeats_arrive_does_not_matter(times: list[int], rng: random.Random) -> None:
    shuffled = list(times)
    rng.shuffle(shuffled)
    assert learn(shuffled) == learn(times)


@settings(max_examples=40)
@given(plausible, st.integers(min_value=-500, max_value=500))
def test_learning_with_any_earlier_fit_gives_an_answer(times: list[int], cut: int) -> None:
    fit = learn(times, previous=learn(times[:cut]))
    seen = Memory().add(times).history()[0]
    assert fit.last_at == (seen[-1] if seen else None)
    assert fit.overdue_at is None or fit.overdue_at >= seen[-1]


@given(st.lists(st.integers(min_value=0, max_value=10**9), max_size=100))
def test_a_duration_bound_is_above_the_median(durations_ms: list[int]) -> None:
    bound = duration_bound(durations_ms)
    assert (bound is None) == (len(durations_ms) < 3)
    if bound is not None:
        assert bound > sorted(durations_ms[-80:])[len(durations_ms[-80:]) // 2]
