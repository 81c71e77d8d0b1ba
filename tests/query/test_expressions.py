"""Conditions, aggregates and functions, with results worked out by hand from tests/query/conftest.py."""

from collections.abc import Callable
from typing import Any

import pytest

from obs.query.language.functions import FUNCTIONS, Family

Ask = Callable[..., dict[str, Any]]
pytestmark = pytest.mark.usefixtures("shop")
# a condition on runs of the last day, and the ids of the runs that it selects
CONDITIONS = [
    ("status IN ('failed', 'lost')", [2, 6]),
    ("status NOT IN ('failed', 'lost')", [1, 3, 4, 5]),
    ("id IN (1, 3, 99)", [1, 3]),
    ("job LIKE 'b%p'", [1, 2, 3]),
    ("job LIKE 'B%'", []),
    ("job ILIKE 'B%'", [1, 2, 3]),
    ("job NOT LIKE '%a__'", [1, 2, 3, 6]),
    ("job LIKE 'mai_'", [4, 5]),
    ("job CONTAINS '/'", [6]),
    ("job STARTS WITH 'report/'", [6]),
    ("job STARTS WITH ('report/') AND coalesce (id, 1) = if (TRUE, id, 0)", [6]),
    ("job NOT CONTAINS host", [1, 2, 3, 4, 5]),
    ("job NOT STARTS WITH 'report/'", [1, 2, 3, 4, 5]),
    ("job =~ '^(mail|report)'", [4, 5, 6]),
    ("job !~ 'a'", [6]),
    ("duration_ms BETWEEN 1s AND 3s", [1, 3]),
    ("duration_ms NOT BETWEEN 1s AND 3s", [2]),
    ("duration_ms IS NULL", [4, 5, 6]),
    ("NOT duration_ms IS NULL AND NOT status = 'failed'", [1, 3]),
    ("host IS NOT NULL AND service IS NULL", [4, 5]),
    ("exit_code = 3 OR exit_code = 0 AND duration_ms > 2s", [2, 3]),
    ("(exit_code = 3 OR exit_code = 0) AND duration_ms > 2s", [2, 3]),
    ("duration_ms / 1000 + 1 = 4", [3]),
    ("duration_ms % 7000 = 2000", [2]),
    ("-duration_ms < -1s * 20", [2]),
    ("ended_at - time > 5s", [2]),
    ("time + 1h > '2026-06-21T09:45:00Z'", [3, 5]),
    ("time > NOW - 61m", [3, 5]),
    ("time - '2026-06-21T08:00' = 30m AND '2026-06-21T09:00' - time = 30m", [4]),
    ("time - '1h' > '2026-06-21T08:30' - 1m", [5]),
    ("'31s' - duration_ms = 1s AND ended_at - '30s' = time", [2]),
    ("hour(time) = 8", [2, 4]),
    ("weekday(time) = 6", [6]),
    ("hour(time - 36500d) = hour(time) AND weekday(time - 36498d) = weekday(time)", [1, 2, 3, 4, 5, 6]),
    ("date(time) = '2026-06-20'", [6]),
    ("date(ended_at) = date(time) AND date(time) <= date(ended_at)", [1, 2, 3]),
    ("date(ended_at) != date(time) OR date(ended_at) > '2026-06-20'", [1, 2, 3]),
    ("date(time) IN (date(ended_at), date(NOW - 1d))", [1, 2, 3, 6]),
    ("upper(job) = 'MAIL' AND length(host) = 4", [4, 5]),
    ("coalesce(duration_ms, 0) = 0", [4, 5, 6]),
    ("if(status = 'failed', 1, 0) = 1", [2]),
    ("CASE WHEN duration_ms > 5s THEN 'slow' WHEN duration_ms > 2s THEN 'usual' ELSE 'quick' END = 'usual'", [3]),
    ("abs(-id) = 2 AND round(1.5) = 2 AND floor(-0.5) = -1 AND ceil(0.2) = 1 AND round(0.125, 2) = 0.13", [2]),
    ("round(4503599627370497.0) = 4503599627370497 AND round(-45035996273704.97, 2) < 0 AND id = 1", [1]),
    ("1 / 0 IS NULL AND id = 1", [1]),
    ("histogram(duration_ms / 1000, 0.1) = duration_ms / 1000", [1, 2, 3]),
    ("histogram(0.3 - id, 0.1) = 0.3 - id AND histogram(-0.05, 0.1) = -0.1", [1, 2, 3, 4, 5, 6]),
    ("duration_ms > '5s' AND duration_ms + '1s' < '1 minute'", [2]),
    ("date(NOW - 20625d - 10h) = '1970-01-01' AND date(NOW - 20625d - 10h - 1ms) = '1969-12-31' AND id = 1", [1]),
    ("json('{\"a\": 1, \"b\": NaN}', '$.a') IS NULL AND json('{\"a\": 1, \"b\": null}', '$.a') = '1' AND id = 1", [1]),
    ("id = 2e+0 AND 2e-5 < 0.1", [2]),
    ("if(id = 1, 'a', if(id = 2, 'b', CASE WHEN id = 3 THEN 'c' END)) IN ('a', 'c')", [1, 3]),
    ("7 / 2 = 3.5 AND id = 1", [1]),
    ("7 - 2 - (3 - 1) + id = 4 AND 2 * 7 / 4 * 2 / 7 = 1 AND 12 / (2 * 3) = 2 AND 7 / (1 / 2) = 14", [1]),
    ("(7 + 2) * 2 / 4 - 2 = 2.5 AND 1 + 2 * id - 6 / 4 = 1.5 AND - (1 - 3) - -1 = 3", [1]),
    ("\"status\" = 'failed' -- \"status\" = 'open'", [2]),
    ("(status = 'failed') = TRUE", [2]),
    ("lower('GRÖSSE''s') = 'größe''s' AND id = 1", []),
    ("lower('GRÖẞE') = 'größe' AND id = 1", [1]),
]


@pytest.mark.parametrize(("condition", "ids"), CONDITIONS, ids=[condition for condition, _ in CONDITIONS])
def test_a_condition(ask: Ask, condition: str, ids: list[int]) -> None:
    answer = ask(f"SELECT id FROM runs WHERE {condition}\nLAST 1d ORDER BY id")
    assert [row[0] for row in answer["rows"]] == ids


# aggregates of backup's runs: 1 s success, 30 s failed, 3 s success, at 7, 8 and 9 o'clock
AGGREGATES: list[tuple[str, str | None, Any]] = [
    ("count(DISTINCT status)", "count_distinct_status", 2),
    ("any(host)", "any_host", "db1"),
    ("first(status)", "first_status", "success"),
    ("last(duration_ms)", "last_duration_ms", 3_000),
    ("min(status)", "min_status", "failed"),
    ("max(ended_at)", "max_ended_at", "2026-06-21T09:00:03.000Z"),
    ("median(duration_ms)", "median_duration_ms", 3_000),
    ("p50(duration_ms)", "p50_duration_ms", 3_000),
    ("p75(duration_ms)", "p75_duration_ms", 16_500.0),
    ("percentile(duration_ms, 99.9)", "p99_9_duration_ms", pytest.approx(29_946.0)),
    ("approx_p95(duration_ms)", "approx_p95_duration_ms", pytest.approx(27_300.0)),
    ("approx_p99(-duration_ms)", "approx_p99_duration_ms", pytest.approx(-1_040.0)),
    ("approx_p50(duration_ms - 3000)", "approx_p50_duration_ms_3000", 0),
    ("stddev(duration_ms)", "stddev_duration_ms", pytest.approx(16196.7, abs=0.1)),
    ("rate(count(*), 1h)", "rate_count", 0.125),
    ("rate(sum(duration_ms), 1d)", "rate_sum_duration_ms", 34_000.0),
    ("count(*) FILTER (WHERE status = 'failed')", "count", 1),
    ("avg(duration_ms) FILTER (WHERE exit_code = 0)", "avg_duration_ms", 2_000.0),
    ("sum(duration_ms / 1000)", "sum_duration_ms_1000", 34.0),
    ("max(concat(job, '/', status))", "max_concat_job_status", "backup/success"),
    ("100 * count(*) FILTER (WHERE status = 'failed') / count(*)", None, pytest.approx(33.333, abs=0.001)),
]


@pytest.mark.parametrize(("aggregate", "name", "value"), AGGREGATES, ids=[aggregate for aggregate, *_ in AGGREGATES])
def test_an_aggregate(ask: Ask, aggregate: str, name: str | None, value: Any) -> None:
    answer = ask(f"SELECT {aggregate} FROM runs WHERE job = 'backup' LAST 1d")
    assert answer["columns"] == [name or aggregate]
    assert answer["rows"] == [[value]]
    assert answer["output_type"] == "single_value"


def test_several_percentiles_are_those_of_their_own_values(ask: Ask) -> None:
    """They are computed at once: of other values or rows than the first one, they must not be mixed up."""
    chosen = "p50(duration_ms), p75(duration_ms), p75(duration_ms) FILTER (WHERE status = 'success') AS good"
    having = "HAVING p95(duration_ms) > 20000 ORDER BY p99(duration_ms)"
    answer = ask(f"SELECT {chosen}, p50(id), p75(late_ms) FROM runs WHERE job = 'backup' BY host LAST 1d {having}")
    [[host, *found]] = answer["rows"]
    assert (host, found) == ("db1", [3_000, 16_500.0, 2_500.0, 2, None])
    many = ", ".join(f"percentile(id, {number / 2}) AS p{number}" for number in range(2, 201))
    [found] = ask(f"SELECT {many} FROM runs WHERE job = 'backup' LAST 1d")["rows"]
    assert found == [pytest.approx(1 + number / 100) for number in range(2, 201)]


# an argument of each family
ARGUMENTS = {
    Family.ANY: "duration_ms",
    Family.NUMBER: "duration_ms",
    Family.ORDERED: "ended_at",
    Family.TEXT: "job",
    Family.TIME: "time",
    Family.CONDITION: "status = 'failed'",
    Family.DIGITS: "1",
    Family.PERCENT: "99.9",
    Family.AGGREGATE: "count(*)",
    Family.LENGTH: "1h",
    Family.WIDTH: "5s",
    Family.REGEX: "'a+'",
    Family.PATH: "'$.a[0]'",
}


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_every_function_can_be_called(ask: Ask, name: str) -> None:
    """Its SQL can run: the functions that it calls are there, and permitted."""
    function = FUNCTIONS[name]
    arguments = [ARGUMENTS[family] for family in function.parameters]
    calls = [f"{name}({', '.join(arguments)})"]
    if function.optional:
        calls.append(f"{name}({', '.join(arguments[: -function.optional])})")
    if function.aggregate and Family.AGGREGATE not in function.parameters:
        calls.append(f"{calls[0]} FILTER (WHERE status = 'failed')")
    if function.repeats:
        calls.append(f"{name}({', '.join([*arguments, arguments[-1], arguments[-1]])})")
    for call in calls:
        for zone in ("", "TIMEZONE 'Asia/Tokyo'"):
            assert ask(f"SELECT {call} AS x FROM runs LAST 1d {zone}")["rows"]


def test_a_backtracking_regular_expression_does_not_hang(ask: Ask, write: Any) -> None:
    write(lambda db: db.execute("UPDATE events SET message = ? WHERE kind = 1", ("a" * 10_000 + "!",)))
    assert ask("SELECT count(*) FROM logs WHERE message =~ '^(a+)+$' LAST 1d")["rows"] == [[0]]
    assert ask("SELECT count(*) FROM logs WHERE message LIKE '%a%a%a%a%a%a%a%a%a%b' LAST 1d")["rows"] == [[0]]


def test_a_sum_beyond_64_bits_is_an_error(ask: Ask) -> None:
    answer = ask("SELECT sum(id + 9223372036854775000) FROM runs LAST 1d", 400)
    assert answer["error"] == "oql_type_mismatch"
    assert ask("SELECT sum((id + 9223372036854775000) * 1.0) AS s FROM runs LAST 1d")["rows"][0][0] > 9e18


def test_infinity_becomes_null(ask: Ask) -> None:
    assert ask("SELECT 1e308 * 10 AS x FROM runs LAST 1d LIMIT 1")["rows"] == [[None]]
