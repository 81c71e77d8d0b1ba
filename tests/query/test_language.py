"""The rest of the language, with results worked out by hand from tests/query/conftest.py."""

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
    ("hour(time) = 8", [2, 4]),
    ("weekday(time) = 6", [6]),
    ("hour(time - 36500d) = hour(time) AND weekday(time - 36498d) = weekday(time)", [1, 2, 3, 4, 5, 6]),
    ("date(time) = '2026-06-20'", [6]),
    ("upper(job) = 'MAIL' AND length(host) = 4", [4, 5]),
    ("coalesce(duration_ms, 0) = 0", [4, 5, 6]),
    ("if(status = 'failed', 1, 0) = 1", [2]),
    ("CASE WHEN duration_ms > 5s THEN 'slow' WHEN duration_ms > 2s THEN 'usual' ELSE 'quick' END = 'usual'", [3]),
    ("abs(-id) = 2 AND round(1.5) = 2 AND floor(-0.5) = -1 AND ceil(0.2) = 1 AND round(0.125, 2) = 0.13", [2]),
    ("1 / 0 IS NULL AND id = 1", [1]),
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


def t(clock: str) -> str:
    return f"2026-06-21T{clock}:00.000Z"


ANSWERS: list[tuple[str, str, list[str], list[list[Any]]]] = [
    (
        "SELECT count(*), avg(duration_ms) FROM runs BY job HAVING count(*) > 1 LAST 1d",
        "table",
        ["job", "count", "avg_duration_ms"],
        [["backup", 3, pytest.approx(11_333.3, abs=0.1)], ["mail", 2, None]],
    ),
    ("SELECT count(*) FROM runs BY job TOP 2 LAST 1d", "bar", ["job", "count"], [["backup", 3], ["mail", 2]]),
    ("SELECT count(*) FROM runs BY job TOP 2 LIMIT 1 LAST 1d", "bar", ["job", "count"], [["backup", 3]]),
    (  # TOP ranks by the rate over the whole window, not over the last bucket, which is 1 ms long
        "SELECT rate(count(*), 1h) FROM runs BY job TOP 1 EVERY 15m FILL NONE "
        "BETWEEN '2026-06-21T08:45:00Z' AND '2026-06-21T09:45:00.001Z'",
        "timeseries",
        ["t", "job", "rate_count"],
        [[t("09:00"), "backup", 4.0]],
    ),
    (
        "SELECT count(*) FROM runs BY job TOP 1 EVERY 1h LAST 2h",
        "timeseries",
        ["t", "job", "count"],
        [[t("08:00"), "backup", 1], [t("09:00"), "backup", 1]],
    ),
    (
        "SELECT count(*) FROM runs EVERY 1h HAVING count = 0 LAST 5h",
        "timeseries",
        ["t", "count"],
        [[t("05:00"), 0], [t("06:00"), 0]],
    ),
    (
        "SELECT count(*) FROM runs EVERY 1h ORDER BY count DESC LIMIT 2 LAST 5h",
        "timeseries",
        ["t", "count"],
        [[t("08:00"), 2], [t("09:00"), 2]],
    ),
    (
        "SELECT count(*) FROM runs EVERY 1h ORDER BY t DESC LIMIT 1 LAST 5h",
        "timeseries",
        ["t", "count"],
        [[t("09:00"), 2]],
    ),
    (
        "SELECT count(*), job FROM runs BY job ORDER BY job DESC LIMIT 1 LAST 1d",
        "bar",
        ["count", "job"],
        [[1, "report/weekly"]],
    ),
    ("SELECT hour(time) AS h, count(*) FROM runs BY h LAST 3h", "bar", ["h", "count"], [[7, 1], [8, 2], [9, 2]]),
    (
        "SELECT count(*) FROM runs BY hour(time) TIMEZONE 'Asia/Kolkata' LAST 3h",
        "bar",
        ["hour_time", "count"],
        [[12, 1], [13, 1], [14, 2], [15, 1]],
    ),
    (
        "SELECT max(duration_ms) AS m FROM runs EVERY 1h FILL PREVIOUS SINCE '2026-06-21T07' UNTIL '2026-06-21T11'",
        "timeseries",
        ["t", "m"],
        [[t("07:00"), 1_000], [t("08:00"), 30_000], [t("09:00"), 3_000], [t("10:00"), 3_000]],
    ),
    (
        "SELECT count(*), max(late_ms) AS m FROM runs EVERY 1h FILL -1 LAST 4h LIMIT 2",
        "timeseries",
        ["t", "count", "m"],
        [[t("06:00"), -1, -1], [t("07:00"), 1, None]],
    ),
    (
        "SELECT count(*) FROM runs EVERY 1h FILL NULL LAST 4h LIMIT 2",
        "timeseries",
        ["t", "count"],
        [[t("06:00"), None], [t("07:00"), 1]],
    ),
    (
        "SELECT count(*) FROM runs EVERY 15m FILL NONE LAST 1h",
        "timeseries",
        ["t", "count"],
        [[t("09:00"), 1], [t("09:45"), 1]],
    ),
    (
        "SELECT count(*), avg(duration_ms) FROM runs BY job COMPARE WITH 1h AGO LAST 1h",
        "table",
        ["job", "count", "count_previous", "avg_duration_ms", "avg_duration_ms_previous"],
        [["backup", 1, 1, 3_000.0, 30_000.0], ["mail", 1, 1, None, None]],
    ),
    (
        "SELECT count(*) FROM runs WHERE job = 'backup' EVERY 1h COMPARE WITH 1h AGO LAST 3h",
        "timeseries",
        ["t", "count", "count_previous"],
        [[t("07:00"), 1, 0], [t("08:00"), 1, 1], [t("09:00"), 1, 1]],
    ),
    ("SELECT count(*) FROM runs COMPARE WITH 1d AGO LAST 1d", "table", ["count", "count_previous"], [[6, 0]]),
    (
        "SELECT count(*), avg(duration_ms) FROM runs AROUND 'deploy/' WITHIN 30m LAST 1d",
        "table",
        [
            *("time", "name", "title", "count_before", "count_after", "count_change_pct"),
            *("avg_duration_ms_before", "avg_duration_ms_after", "avg_duration_ms_change_pct"),
        ],
        [
            [t("07:30"), "deploy/web", "v1", 1, 0, -100.0, 1_000.0, None, None],
            [t("08:45"), "deploy/web", "v2", 1, 1, 0.0, None, 3_000.0, None],
        ],
    ),
    (
        "SELECT coalesce(avg(duration_ms) * 1e304, 1) AS c FROM runs AROUND 'deploy/' WITHIN 30m LAST 1d",
        "table",
        ["time", "name", "title", "c_before", "c_after", "c_change_pct"],
        [
            [t("07:30"), "deploy/web", "v1", 1e307, 1, -100.0],
            [t("08:45"), "deploy/web", "v2", 1, 3e307, None],  # more percent than a number holds
        ],
    ),
    (
        "SELECT count(*) FROM runs AROUND 'no%' WITHIN 30m LAST 1d LIMIT 5",
        "table",
        ["time", "name", "title", "count_before", "count_after", "count_change_pct"],
        [],
    ),
    (
        "SELECT count(*) FROM runs WHERE (status = 'failed') BETWEEN '2026-06-21' AND NOW",
        "single_value",
        ["count"],
        [[1]],
    ),
    (
        "SELECT count(*) FROM runs WHERE (duration_ms IS NULL) BETWEEN '2026-06-21' AND NOW",
        "single_value",
        ["count"],
        [[2]],
    ),
    (
        "SELECT count(*) FROM runs BY job HAVING max(time) < NOW - 45m COMPARE WITH 1h AGO LAST 2h",
        "table",
        ["job", "count", "count_previous"],
        [["backup", 2, 2]],
    ),
    ("SELECT job FROM runs BY job LAST 1d", "table", ["job"], [["backup"], ["mail"], ["report/weekly"]]),
]


@pytest.mark.parametrize(
    ("statement", "output_type", "columns", "rows"), ANSWERS, ids=[answer[0] for answer in ANSWERS]
)
def test_an_answer(ask: Ask, statement: str, output_type: str, columns: list[str], rows: list[list[Any]]) -> None:
    assert ask(statement) == {"output_type": output_type, "columns": columns, "rows": rows}


def test_show_sources(ask: Ask) -> None:
    answer = ask("SHOW SOURCES")
    assert (answer["output_type"], answer["columns"]) == ("table", ["source", "row", "time"])
    assert [row[0] for row in answer["rows"]] == [
        "runs",
        "events",
        "logs",
        "jobs",
        "incidents",
        "deliveries",
        "annotations",
        "audit",
    ]


def test_show_columns(ask: Ask) -> None:
    answer = ask("SHOW COLUMNS FROM runs")
    assert answer["columns"] == ["column", "type", "description"]
    assert answer["rows"][0] == ["time", "time", "its start"]
    assert ["duration_ms", "duration", "How long it took."] in answer["rows"]


@pytest.mark.parametrize(
    ("window", "starts"),
    [
        # clocks go forward on 2026-03-29 and back on 2026-10-25: days of 23 and 25 hours
        ("EVERY 1d BETWEEN '2026-03-28T23:00Z' AND '2026-03-30T22:00Z'", ["2026-03-28T23", "2026-03-29T22"]),
        ("EVERY 1d BETWEEN '2026-10-24T22:00Z' AND '2026-10-26T23:00Z'", ["2026-10-24T22", "2026-10-25T23"]),
        # an hour that the clocks skip is no bucket, one that they show twice is two
        (
            "EVERY 1h BETWEEN '2026-03-29T00:00Z' AND '2026-03-29T03:00Z'",
            ["2026-03-29T00", "2026-03-29T01", "2026-03-29T02"],
        ),
        (
            "EVERY 1h BETWEEN '2026-10-25T00:00Z' AND '2026-10-25T03:00Z'",
            ["2026-10-25T00", "2026-10-25T01", "2026-10-25T02"],
        ),
        (
            "EVERY 6h BETWEEN '2026-10-24T22:00Z' AND '2026-10-25T12:00Z'",
            ["2026-10-24T22", "2026-10-25T05", "2026-10-25T11"],
        ),
    ],
)
def test_buckets_follow_the_clocks_of_a_time_zone(ask: Ask, write: Any, window: str, starts: list[str]) -> None:
    """A run at every half hour of the window: none is lost, each is in the bucket that it belongs to."""
    answer = ask(f"SELECT count(*) FROM runs {window} TIMEZONE 'Europe/Berlin'")
    assert [row[0] for row in answer["rows"]] == [f"{start}:00:00.000Z" for start in starts]


def test_a_day_of_25_hours_holds_25_runs(ask: Ask, write: Any) -> None:
    first = 1_792_879_200_000  # 2026-10-24T22:00Z, midnight in Berlin
    write(
        lambda db: db.executemany(
            "INSERT INTO runs (job_id, status, started_at, heartbeat_at) VALUES (1, 1, ?, 0)",
            [(first + hour * 3_600_000,) for hour in range(-24, 49)],
        )
    )
    answer = ask(
        "SELECT count(*) FROM runs EVERY 1d TIMEZONE 'Europe/Berlin' BETWEEN '2026-10-23T22' AND '2026-10-26T23'"
    )
    assert [row[1] for row in answer["rows"]] == [24, 25, 24]
    answer = ask(
        "SELECT count(*) FROM runs EVERY 1d TIMEZONE 'Europe/Berlin' COMPARE WITH 1d AGO "
        "BETWEEN '2026-10-24T22' AND '2026-10-26T23'"
    )
    assert [row[1:] for row in answer["rows"]] == [[25, 24], [24, 25]]


def test_a_window_at_the_end_of_the_calendar(ask: Ask) -> None:
    last_days = "BETWEEN '9999-12-30' AND '9999-12-31T23:59:59Z'"
    assert len(ask(f"SELECT count(*) FROM runs EVERY 1d {last_days}")["rows"]) == 2
    assert ask(f"SELECT count(*) FROM runs EVERY 1d {last_days} TIMEZONE 'Asia/Tokyo'", 400)["error"] == "oql_bad_time"


def test_every_auto_takes_the_shortest_interval_that_is_not_too_short(ask: Ask) -> None:
    for window, buckets in (("5m", 300), ("301s", 61), ("1h", 120), ("1d", 288), ("90d", 181)):
        assert len(ask(f"SELECT count(*) FROM runs EVERY AUTO LAST {window}")["rows"]) == buckets


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


def test_explain_describes_the_query(ask: Ask) -> None:
    answer = ask("EXPLAIN SELECT count(*) FROM runs WHERE job = 'mail' EVERY 1h LAST 3h")
    assert (answer["output_type"], answer["columns"]) == ("table", ["what", "text"])
    said = dict(answer["rows"])
    assert said["window"] == "2026-06-21T07:00:00.000Z/2026-06-21T10:00:00.000Z"
    assert "mail" not in said["sql"]
    assert '"mail"' in said["parameters"]
    assert "runs_job" in " ".join(text for what, text in answer["rows"] if what == "plan")


@pytest.mark.parametrize(
    "clauses",
    [
        "BY job HAVING n_change_pct > 0 COMPARE WITH 1h AGO",
        "BY job ORDER BY n_previous DESC LIMIT 1 COMPARE WITH 1h AGO",
        "HAVING n_after > n_before AROUND 'deploy/' WITHIN 1h",
        "BY job EVERY 1h ORDER BY t DESC LIMIT 1 OFFSET 1",
    ],
)
def test_explain_shows_the_sql_that_runs_before_the_rows_are_put_together(ask: Ask, clauses: str) -> None:
    said = dict(ask(f"EXPLAIN SELECT count(*) AS n FROM runs {clauses} LAST 3h")["rows"])
    assert "HAVING" not in said["sql"]
    assert "OFFSET" not in said["sql"]
    assert " DESC" not in said["sql"]


DEPLOYS = "SELECT count(*) FROM runs AROUND 'deploy/' WITHIN 1h {} LAST 7d"


@pytest.mark.parametrize(
    ("clauses", "titles"),
    [
        ("ORDER BY time DESC", ["v2", "v1"]),
        ("ORDER BY count_before DESC", ["v2", "v1"]),
        ("ORDER BY title", ["v1", "v2"]),
        ("ORDER BY count_change_pct LIMIT 1", ["v2"]),
        ("HAVING count_after < count_before", ["v2"]),
        ("HAVING count_after - count_before >= 0 OR title = 'v2'", ["v1", "v2"]),
        ("HAVING time < NOW - 2h", ["v1"]),
        ("ORDER BY NOW - time", ["v2", "v1"]),
    ],
)
def test_deploys_are_ordered_and_chosen_by_their_effect(ask: Ask, clauses: str, titles: list[str]) -> None:
    assert [row[2] for row in ask(DEPLOYS.format(clauses))["rows"]] == titles


@pytest.mark.parametrize("order", ["count", "count(*)", "sum(duration_ms)"])
def test_around_is_ordered_by_columns_of_the_result_only(ask: Ask, order: str) -> None:
    answer = ask(DEPLOYS.format(f"ORDER BY {order}"), 400)
    assert answer["error"] == "oql_unknown_column"
    assert "count_before" in answer["errors"]["query"][0]["expected"]
