"""Clauses that group, order, fill and compare, with results worked out by hand from tests/query/conftest.py."""

from collections.abc import Callable
from typing import Any

import pytest

Ask = Callable[..., dict[str, Any]]
pytestmark = pytest.mark.usefixtures("shop")


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
    (  # one end of BETWEEN is no bound of the window
        "SELECT id FROM runs WHERE time BETWEEN '2026-06-21' AND '2026-06-21' + 8h",
        "table",
        ["id"],
        [[1], [2]],
    ),
    ("SELECT id FROM runs WHERE time BETWEEN NOW - 1d AND ended_at ORDER BY id", "table", ["id"], [[1], [2], [3]]),
    (
        "SELECT id FROM runs WHERE job IN ('backup', 'mail') ORDER BY status LAST 1d",
        "table",
        ["id"],
        [[2], [5], [1], [4], [3]],
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
        "SELECT count(*) FROM runs WHERE (time >= '2026-06-21' AND time < '2026-06-22') AND job = 'mail'",
        "single_value",
        ["count"],
        [[2]],
    ),
    ("SELECT d, count(*) FROM runs BY date(time) AS d LAST 9h", "bar", ["d", "count"], [["2026-06-21", 5]]),
    (
        "SELECT date(time) AS day, count(*) FROM runs BY date(time) AS d LAST 9h",
        "table",
        ["d", "day", "count"],
        [["2026-06-21", "2026-06-21", 5]],
    ),
    (
        "SELECT duration_ms / 1000 AS s, sum(s) AS n, count(*) FILTER (WHERE s > 2) AS slow FROM runs"
        " WHERE s IS NOT NULL BY s LAST 1d",
        "table",
        ["s", "n", "slow"],
        [[1.0, 1.0, 0], [3.0, 3.0, 1], [30.0, 30.0, 1]],
    ),
    (
        "SELECT max(duration_ms) AS duration_ms, job FROM runs BY job HAVING max(duration_ms) > 1s LAST 1d",
        "bar",
        ["duration_ms", "job"],
        [[30_000, "backup"]],
    ),
    (
        "SELECT sum(duration_ms) AS s, count(*) AS s_change_pct FROM runs BY job HAVING s_change_pct > 2"
        " COMPARE WITH 1d AGO LAST 1d",
        "table",
        ["job", "s", "s_previous", "s_change_pct", "s_change_pct_previous"],
        [["backup", 34_000, None, 3, 0]],
    ),
    ("SELECT count(*) FROM runs WHERE TRUE BETWEEN '2026-06-21' AND NOW", "single_value", ["count"], [[5]]),
    (
        "SELECT count(*) FROM runs SINCE '2026-06-22' - 1d UNTIL '2026-06-28T09:00Z' - 1w",
        "single_value",
        ["count"],
        [[3]],
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


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT count(*) FROM runs BY job AS count_previous COMPARE WITH 1d AGO LAST 1d",
        "SELECT count(*) AS a_previous, max(duration_ms) AS a FROM runs COMPARE WITH 1d AGO LAST 1d",
        "SELECT upper(job) AS j, j FROM runs LAST 1d",
        "SELECT job AS d, count(*) FROM runs BY date(time) AS d LAST 1d",
    ],
)
def test_no_two_columns_have_the_same_name(ask: Ask, statement: str) -> None:
    assert ask(statement, 400)["error"] == "oql_duplicate_column"


def test_distinct_rows_of_all_columns(ask: Ask) -> None:
    whole, distinct = ask("SELECT * FROM runs LAST 1d"), ask("SELECT DISTINCT * FROM runs LAST 1d")
    assert distinct["columns"] == whole["columns"]
    assert distinct["rows"] == whole["rows"]  # their times differ
