"""Parsing and formatting of times."""

import pytest
from hypothesis import given, strategies as st

from obs.times import DAY_MS, HOUR_MS, MAX_MS, MINUTE_MS, WEEK_MS, format_ms, format_optional_ms, parse_iso, parse_time

NOON = 1_782_043_200_000  # 2026-06-21T12:00:00Z


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-06-21T12:00:00Z", NOON),
        ("2026-06-21T12:00:00.000Z", NOON),
        ("2026-06-21t12:00:00z", NOON),
        ("2026-06-21 12:00:00Z", NOON),
        ("2026-06-21T12:00:00", NOON),
        ("2026-06-21T12:00", NOON),
        ("2026-06-21T12", NOON),
        ("20260621T120000Z", NOON),
        ("  2026-06-21T12:00:00Z\n", NOON),
        ("2026-06-21", NOON - 12 * HOUR_MS),
        ("2026-06-21T14:00:00+02:00", NOON),
        ("2026-06-21T14:00:00+0200", NOON),
        ("2026-06-21T14:00:00+02", NOON),
        ("2026-06-21T06:30:00-05:30", NOON),
        ("2026-06-21T14:00:00 02:00", NOON),  # the plus of a query string, decoded to a space
        ("2026-06-21T12:00:00-00:00", NOON),
        ("2026-06-21T12:00:00.5Z", NOON + 500),
        ("2026-06-21T12:00:00,5Z", NOON + 500),
        ("2026-06-21T12:00:00.1239Z", NOON + 123),
        ("2026-06-21T12:00:00.123456789Z", NOON + 123),
        ("1970-01-01T00:00:00Z", 0),
        ("9999-12-31T23:59:59.999Z", MAX_MS),
        ("2024-02-29", 1_709_164_800_000),
    ],
)
def test_valid_times(text: str, expected: int) -> None:
    assert parse_iso(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "tomorrow",
        "1782043200",
        "2026",
        "2026-06",
        "2026-W25-7",
        "2026-06-21T",
        "2026-06-21T12:00:00+",
        "2026-06-21T12:00:00 UTC",
        "2026-06-21X12:00:00",
        "21.06.2026",
        "2026-13-01",
        "2026-02-30",
        "2026-06-21T25:00:00Z",
        "2026-06-21T12:60:00Z",
        "2026-06-21T23:59:60Z",
        "2026-06-21T12:00:00+25:00",
        "1969-12-31T23:59:59Z",
        "1970-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
        "10000-01-01",
        "٢٠٢٦-06-21",
        "2026-06-21T12:00:00Z; DROP TABLE runs",
    ],
)
def test_invalid_times_have_a_message(text: str) -> None:
    with pytest.raises(ValueError, match=r"^(Not an? .+|No such time: .+|The year must .+)\.$"):
        parse_iso(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", NOON),
        (" NOW ", NOON),
        ("-90s", NOON - 90_000),
        ("-5m", NOON - 5 * MINUTE_MS),
        ("-24h", NOON - DAY_MS),
        ("+1d", NOON + DAY_MS),
        ("-2w", NOON - 2 * WEEK_MS),
        ("+250ms", NOON + 250),
        ("2026-06-21", NOON - 12 * HOUR_MS),
    ],
)
def test_relative_times(text: str, expected: int) -> None:
    assert parse_time(text, NOON) == expected


@pytest.mark.parametrize(
    "text", ["24h", "-24", "-1y", "--1h", "-1.5h", "- 1h", "-٣h", "-999999999w", "+999999999w", "-h"]
)
def test_invalid_relative_times(text: str) -> None:
    with pytest.raises(ValueError, match=r"\.$"):
        parse_time(text, NOON)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1, "1970-01-01T00:00:00.001Z"),
        (NOON, "2026-06-21T12:00:00.000Z"),
        (MAX_MS, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_formatted_times(milliseconds: int, text: str) -> None:
    assert format_ms(milliseconds) == format_optional_ms(milliseconds) == text


def test_none_is_formatted_as_none() -> None:
    assert format_optional_ms(None) is None


@given(st.integers(0, MAX_MS))
def test_a_formatted_time_is_parsed_to_the_same_value(milliseconds: int) -> None:
    assert parse_iso(format_ms(milliseconds)) == milliseconds


@given(st.text(max_size=40))
def test_any_text_is_a_valid_time_or_an_error(text: str) -> None:
    try:
        assert 0 <= parse_time(text, NOON) <= MAX_MS
    except ValueError as error:
        assert str(error).endswith(".")  # noqa: PT017 - most texts are not a time
