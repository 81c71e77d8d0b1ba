"""A value that is null is neither equal nor unequal to anything, and no operator or function fails on it."""

from typing import Any

import pytest

from tests.query.conftest import Ask

CONDITIONS = [
    "host = 'db1'",
    "host != 'db1'",
    "host < 'm'",
    "host >= 'm'",
    "host LIKE 'd%'",
    "host NOT LIKE 'd%'",
    "host =~ '^d'",
    "host !~ '^d'",
    "host CONTAINS 'b'",
    "host STARTS WITH 'd'",
    "host IN ('db1', 'other')",
    "host NOT IN ('db1', 'other')",
    "lower(host) = 'db1'",
    "length(host) > 3",
    "host = service",
    "service CONTAINS host",
    "service STARTS WITH host",
]


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_on_null_is_neither_true_nor_false(ask: Ask, condition: str) -> None:
    """Run 6 has no host, and runs 4 to 6 no service."""
    both = [
        row[0]
        for way in (condition, f"NOT ({condition})")
        for row in ask(f"SELECT id FROM runs WHERE {way} LAST 1d")["rows"]
    ]
    assert 6 not in both
    assert sorted(both) == ([1, 2, 3] if "service" in condition else [1, 2, 3, 4, 5])


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("upper(host)", None),
        ("length(host)", None),
        ("exit_code + 1", None),
        ("-duration_ms", None),
        ("abs(duration_ms)", None),
        ("round(duration_ms / 7, 1)", None),
        ("round(1.25, NULL)", None),
        ("floor(duration_ms)", None),
        ("ceil(duration_ms)", None),
        ("coalesce(host, service)", None),
        ("coalesce(host, 'none')", "none"),
        ("CASE WHEN host = 'x' THEN 1 ELSE 2 END", 2),
        ("host IS NULL", True),
    ],
)
def test_an_expression_of_null(ask: Ask, expression: str, value: Any) -> None:
    assert ask(f"SELECT {expression} AS x FROM runs WHERE id = 6 LAST 1d")["rows"] == [[value]]


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("aggregate", ["sum", "avg", "min", "max", "p95", "median", "first", "last", "any"])
def test_an_aggregate_of_nothing_but_nulls_is_null(ask: Ask, aggregate: str) -> None:
    assert ask(f"SELECT {aggregate}(duration_ms) AS x, count(duration_ms) AS n FROM runs WHERE id = 6 LAST 1d")[
        "rows"
    ] == [[None, 0]]


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("rest", ["COMPARE WITH 1d AGO", "HAVING count(*) > 0 COMPARE WITH 1d AGO"])
def test_the_group_without_a_value_is_the_first(ask: Ask, rest: str) -> None:
    hosts = [row[0] for row in ask(f"SELECT count(*) FROM runs BY host LAST 1d {rest}")["rows"]]
    assert hosts[0] is None
    assert hosts[1:] == sorted(hosts[1:], key=str)
    assert len(hosts) > 2
