"""Percentiles from a sketch are within 1 % of the value at their rank."""

from hypothesis import given
from hypothesis import strategies as st

from obs.query.language.functions.percentiles import ACCURACY, Sketch

values = st.lists(st.floats(-1e15, 1e15, allow_subnormal=False).filter(lambda value: abs(value) > 1e-6), min_size=1)


@given(values=values, fraction=st.sampled_from([0.0, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0]))
def test_a_percentile_is_near_the_value_at_its_rank(values: list[float], fraction: float) -> None:
    sketch = Sketch()
    for value in values:
        sketch.add(value)
    exact = sorted(values)[int(fraction * (len(values) - 1))]
    found = sketch.percentile(fraction)
    assert found is not None
    assert abs(found - exact) <= abs(exact) * ACCURACY * 1.0001


def test_without_values_there_is_none() -> None:
    assert Sketch().percentile(0.5) is None
