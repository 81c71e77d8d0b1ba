"""Statements and their results, worked out by hand from the rows in tests/query/conftest.py."""

import json
from collections.abc import Callable
from typing import Any

import pytest

Ask = Callable[..., dict[str, Any]]


pytestmark = pytest.mark.usefixtures("shop")

DAY = "2026-06-21T"


def t(clock: str) -> str:
    return f"{DAY}{clock}:00.000Z"


# statement, output_type, columns, rows
ANSWERS: list[tuple[str, str, list[str], list[list[Any]]]] = [
    (
        "SELECT job, gap_ms, time - gap_ms AS previous FROM runs WHERE job != 'backup' LAST 1d",
        "table",
        ["job", "gap_ms", "previous"],
        [["report/weekly", None, None], ["mail", None, None], ["mail", 4_500_000, t("08:30")]],
    ),
    (
        "SELECT max(gap_ms) FROM runs BY job LAST 1h",
        "bar",
        ["job", "max_gap_ms"],
        [["backup", 3_600_000], ["mail", 4_500_000]],
    ),
    (
        "SELECT last(gap_ms) AS latest, max(gap_ms) FILTER (WHERE host = 'db1') AS longest FROM runs BY status"
        " HAVING count(gap_ms) > 0 ORDER BY max(gap_ms) DESC, status LAST 1d",
        "table",
        ["status", "latest", "longest"],
        [["open", 4_500_000, None], ["failed", 3_600_000, 3_600_000], ["success", 3_600_000, 3_600_000]],
    ),
    (
        "SELECT first(gap_ms), max(time - gap_ms) AS m FROM runs WHERE gap_ms > 1h - 1s BY job EVERY 2h LAST 2h",
        "timeseries",
        ["t", "job", "first_gap_ms", "m"],
        [[t("08:00"), "backup", 3_600_000, t("08:00")], [t("08:00"), "mail", 4_500_000, t("08:30")]],
    ),
    (  # equal gaps in the order of time
        "SELECT job, gap_ms FROM runs ORDER BY gap_ms DESC LAST 1d OFFSET 1",
        "table",
        ["job", "gap_ms"],
        [["backup", 3_600_000], ["backup", 3_600_000], ["report/weekly", None], ["backup", None], ["mail", None]],
    ),
    (
        "SELECT count(*) FROM runs EVERY 1w LAST 8d",
        "timeseries",
        ["t", "count"],
        [["2026-06-08T00:00:00.000Z", 0], ["2026-06-15T00:00:00.000Z", 6]],
    ),
    ("SELECT count(*) FROM runs EVERY 2w LAST 1d", "timeseries", ["t", "count"], [["2026-06-15T00:00:00.000Z", 6]]),
    (
        "SELECT count(*) FROM runs EVERY 1w LAST 1d COMPARE WITH 1w AGO TIMEZONE 'Europe/Berlin'",
        "timeseries",
        ["t", "count", "count_previous"],
        [["2026-06-14T22:00:00.000Z", 6, 0]],
    ),
    ("SELECT count(*) FROM runs LAST 1d", "single_value", ["count"], [[6]]),
    (
        "SELECT sum(1ms) AS a, sum(1s) AS b, sum(1m) AS c, sum(1h) AS d, sum(1 day) AS e, sum(1w) AS f"
        " FROM runs WHERE job = 'report/weekly' LAST 1d",
        "table",
        ["a", "b", "c", "d", "e", "f"],
        [[1, 1_000, 60_000, 3_600_000, 86_400_000, 604_800_000]],
    ),
    ("select COUNT(*) from runs last 3h", "single_value", ["count"], [[5]]),
    ("SELECT count(duration_ms) FROM runs LAST 1d", "single_value", ["count_duration_ms"], [[3]]),
    ("SELECT count(*) FROM runs WHERE status < 'open' LAST 1d", "single_value", ["count"], [[2]]),
    ("SELECT count(*) FROM runs WHERE 'open' > status LAST 1d", "single_value", ["count"], [[2]]),
    ("SELECT sum(duration_ms) AS total FROM runs LAST 1d", "single_value", ["total"], [[34_000]]),
    ("SELECT avg(duration_ms) FROM runs LAST 1h", "single_value", ["avg_duration_ms"], [[3_000.0]]),
    ("SELECT max(duration_ms) FROM runs WHERE job = 'mail' LAST 1d", "single_value", ["max_duration_ms"], [[None]]),
    (
        "SELECT count(*), min(duration_ms), max(duration_ms) FROM runs LAST 1d",
        "table",
        ["count", "min_duration_ms", "max_duration_ms"],
        [[6, 1_000, 30_000]],
    ),
    (
        "SELECT count(*) FROM runs BY status LAST 1d",
        "bar",
        ["status", "count"],
        [["failed", 1], ["lost", 1], ["open", 1], ["success", 3]],
    ),
    (
        "SELECT count(*), job FROM runs GROUP BY job LAST 1d",
        "bar",
        ["count", "job"],
        [[3, "backup"], [2, "mail"], [1, "report/weekly"]],
    ),
    (
        "SELECT count(*) FROM runs BY host LAST 1d ORDER BY count DESC",
        "bar",
        ["host", "count"],
        [["db1", 3], ["web1", 2], [None, 1]],
    ),
    (
        "SELECT count(*), avg(duration_ms) FROM runs EVERY 1h LAST 3h",
        "timeseries",
        ["t", "count", "avg_duration_ms"],
        [[t("07:00"), 1, 1_000.0], [t("08:00"), 2, 30_000.0], [t("09:00"), 2, 3_000.0]],
    ),
    (
        "SELECT count(*) FROM runs WHERE job = 'backup' EVERY 30m SINCE '2026-06-21T07:30' UNTIL '2026-06-21T09:00'",
        "timeseries",
        ["t", "count"],
        [[t("07:30"), 0], [t("08:00"), 1], [t("08:30"), 0]],
    ),
    (
        "SELECT count(*), max(duration_ms) FROM runs BY job EVERY 2h LAST 2h",
        "timeseries",
        ["t", "job", "count", "max_duration_ms"],
        [[t("08:00"), "backup", 2, 30_000], [t("08:00"), "mail", 2, None]],
    ),
    (
        "SELECT count(*) FROM runs BY job EVERY 1h LAST 2h",
        "timeseries",
        ["t", "job", "count"],
        [[t("08:00"), "backup", 1], [t("08:00"), "mail", 1], [t("09:00"), "backup", 1], [t("09:00"), "mail", 1]],
    ),
    (
        "SELECT time, job, status FROM runs WHERE status != 'success' LAST 1d LIMIT 2",
        "table",
        ["time", "job", "status"],
        [["2026-06-20T23:30:00.000Z", "report/weekly", "lost"], [t("08:00"), "backup", "failed"]],
    ),
    (
        "SELECT job, exit_code FROM runs WHERE exit_code > 0 OR status = 'open' ORDER BY exit_code DESC LAST 1d",
        "table",
        ["job", "exit_code"],
        [["backup", 3], ["mail", None]],
    ),
    (
        "SELECT job, overdue FROM jobs ORDER BY job LAST 1h",
        "table",
        ["job", "overdue"],
        [["backup", False], ["mail", True], ["report/weekly", False]],
    ),
    ("SELECT count(*) FROM jobs WHERE overdue LAST 1h", "single_value", ["count"], [[1]]),
    ("SELECT message FROM logs LAST 1d", "table", ["message"], [["disk 100% full"], ["Größe: 12_MB\0"]]),
    ("SELECT count(*) FROM events BY kind LAST 1d", "bar", ["kind", "count"], [["end", 1], ["log", 2], ["ping", 1]]),
    (
        "SELECT title, end_time, duration_ms FROM annotations WHERE name = 'incident/db' LAST 1d",
        "table",
        ["title", "end_time", "duration_ms"],
        [["slow", t("08:30"), 1_800_000]],
    ),
    ("SELECT count(*) FROM runs WHERE ended_at >= '2026-06-21T08:00:30Z' LAST 1d", "single_value", ["count"], [[2]]),
    ("SELECT count(*) FROM runs WHERE duration_ms > 2 seconds LAST 1d", "single_value", ["count"], [[2]]),
    # the window is half-open
    ("SELECT count(*) FROM runs BETWEEN '2026-06-21T08:00Z' AND '2026-06-21T09:00Z'", "single_value", ["count"], [[2]]),
    (
        "SELECT count(*) FROM runs WHERE status = 'failed' BETWEEN '2026-06-21' AND NOW",
        "single_value",
        ["count"],
        [[1]],
    ),
    ("SELECT count(*) FROM runs WHERE duration_ms BETWEEN 1000 AND 3000 LAST 1d", "single_value", ["count"], [[2]]),
    ("SELECT count(*) FROM runs -- a comment ' with a quote\nLAST 1d", "single_value", ["count"], [[6]]),
    (
        'SELECT count(*) AS "how many", max("duration_ms") FROM runs LAST 1d',
        "table",
        ["how many", "max_duration_ms"],
        [[6, 30_000]],
    ),
    ("SELECT job FROM runs LAST 1d LIMIT 0", "table", ["job"], []),
    ("SELECT FALSE AS no FROM runs ORDER BY no LIMIT 1 LAST 1d", "table", ["no"], [[False]]),
    ("SELECT count(*) FROM runs BY FALSE, TRUE LAST 1d", "table", ["FALSE", "TRUE", "count"], [[False, True, 6]]),
    # SQLite folds this to a number, which must not be taken for the number of a column
    (
        "SELECT job, duration_ms IS NULL AND FALSE AS never FROM runs WHERE status = 'failed' ORDER BY never LAST 1d",
        "table",
        ["job", "never"],
        [["backup", False]],
    ),
    (
        "SELECT count(*) FROM runs BY duration_ms IS NULL AND FALSE TOP 3 LAST 1d",
        "bar",
        ["duration_ms IS NULL AND FALSE", "count"],
        [[False, 6]],
    ),
    # groups that only the earlier window has
    (
        "SELECT count(*), max(duration_ms) FROM runs BY job COMPARE WITH 12h AGO LAST 90m",
        "table",
        ["job", "count", "count_previous", "max_duration_ms", "max_duration_ms_previous"],
        [["backup", 1, 0, 3_000, None], ["mail", 2, 0, None, None]],
    ),
    (
        "SELECT count(*) FROM runs BY job COMPARE WITH 10h AGO SINCE '2026-06-21T09:00Z' UNTIL '2026-06-21T10:00Z'",
        "table",
        ["job", "count", "count_previous"],
        [["backup", 1, 0], ["mail", 1, 0], ["report/weekly", 0, 1]],
    ),
    (
        "SELECT count(*) AS n FROM runs BY job ORDER BY n LIMIT 2 COMPARE WITH 10h AGO "
        "SINCE '2026-06-21T09:00Z' UNTIL '2026-06-21T10:00Z'",
        "table",
        ["job", "n", "n_previous"],
        [["report/weekly", 0, 1], ["backup", 1, 0]],
    ),
    (
        "SELECT count(*) FROM runs BY job HAVING count(*) > 0 COMPARE WITH 10h AGO "
        "SINCE '2026-06-21T09:00Z' UNTIL '2026-06-21T10:00Z'",
        "table",
        ["job", "count", "count_previous"],
        [["backup", 1, 0], ["mail", 1, 0]],
    ),
    (
        "SELECT count(*) FROM runs BY job TOP 5 COMPARE WITH 10h AGO "
        "SINCE '2026-06-21T09:00Z' UNTIL '2026-06-21T10:00Z'",
        "table",
        ["job", "count", "count_previous"],
        [["backup", 1, 0], ["mail", 1, 0]],
    ),
    (
        "SELECT count(*) FROM runs BY job EVERY 30m COMPARE WITH 10h AGO "
        "SINCE '2026-06-21T09:00Z' UNTIL '2026-06-21T10:00Z'",
        "timeseries",
        ["t", "job", "count", "count_previous"],
        [
            [t("09:00"), "backup", 1, 0],
            [t("09:00"), "mail", 0, 0],
            [t("09:00"), "report/weekly", 0, 0],
            [t("09:30"), "backup", 0, 0],
            [t("09:30"), "mail", 1, 0],
            [t("09:30"), "report/weekly", 0, 1],
        ],
    ),
    (
        "SELECT count(*) FROM runs BY job EVERY 30m FILL NONE COMPARE WITH 10h AGO "
        "SINCE '2026-06-21T09:00Z' UNTIL '2026-06-21T10:00Z'",
        "timeseries",
        ["t", "job", "count", "count_previous"],
        [[t("09:00"), "backup", 1, 0], [t("09:30"), "mail", 1, 0], [t("09:30"), "report/weekly", 0, 1]],
    ),
]


@pytest.mark.parametrize(
    ("statement", "output_type", "columns", "rows"), ANSWERS, ids=[answer[0] for answer in ANSWERS]
)
def test_a_result(ask: Ask, statement: str, output_type: str, columns: list[str], rows: list[list[Any]]) -> None:
    assert ask(statement) == {"output_type": output_type, "columns": columns, "rows": rows}


def test_a_star_is_all_columns_with_the_time_first(ask: Ask) -> None:
    answer = ask("SELECT * FROM runs WHERE status = 'failed' LAST 1d")
    assert dict(zip(answer["columns"], answer["rows"][0], strict=True)) == {
        "time": t("08:00"),
        "id": 2,
        "run_id": None,
        "job": "backup",
        "status": "failed",
        "host": "db1",
        "service": "store",
        "project": "shop",
        "exit_code": 3,
        "duration_ms": 30_000,
        "ended_at": "2026-06-21T08:00:30.000Z",
        "late_ms": None,
    }


def test_a_job_on_a_host_whose_clock_is_ahead_is_in_every_window_until_now(client: Any, ask: Ask, clock: Any) -> None:
    """Its last heartbeat is later than now, which a window does not include."""
    sent = {"name": "ahead", "status": "fail", "time": "2026-06-21T10:05:00Z"}
    assert client.post("/api/v1/heartbeat/end", json=sent).status_code == 200
    assert ask("SELECT status FROM jobs WHERE job = 'ahead' LAST 1d")["rows"] == [["failed"]]
    clock.advance(hours=1)
    assert ask("SELECT time FROM jobs WHERE job = 'ahead' LAST 1d")["rows"] == [["2026-06-21T10:05:00.000Z"]]
    assert ask("SELECT count(*) FROM jobs LAST 30m")["rows"] == [[0]]


def test_an_organization_sees_only_its_own_rows(ask: Ask, other_client: Any) -> None:
    response = other_client.post("/api/v1/dsl", json={"query": "SELECT count(*) FROM runs LAST 1d"})
    assert response.json["rows"] == [[0]]


@pytest.mark.parametrize(
    ("accepted", "mimetype", "text"),
    [
        ("text/csv", "text/csv", "job,x,b,n\r\n"),
        ("application/x-ndjson", "application/x-ndjson", '{"job": '),
        ("text/html, text/csv;q=0.5, */*;q=0.1", "text/csv", "job,x,b,n\r\n"),
        ("*/*", "application/json", '{"output_type":"table"'),
        ("image/png", "application/json", '{"output_type":"table"'),
    ],
)
def test_the_format_of_a_result_is_the_accepted_one(client: Any, accepted: str, mimetype: str, text: str) -> None:
    query = "SELECT job, '=1' AS x, count(*) > 2 AS b, count(*) AS n FROM runs BY job LAST 1d"
    response = client.post("/api/v1/dsl", json={"query": query}, headers={"Accept": accepted})
    assert response.mimetype == mimetype
    assert "accept" in response.vary.as_set()
    assert response.text.startswith(text)
    if mimetype != "application/json":
        rows = client.post("/api/v1/dsl", json={"query": query}).json["rows"]
        lines = response.text.splitlines()[mimetype == "text/csv" :]
        written = [f"{job},'=1,{json.dumps(b)},{n}" for job, _, b, n in rows]
        assert lines == (
            written
            if mimetype == "text/csv"
            else [json.dumps({"job": j, "x": x, "b": b, "n": n}) for j, x, b, n in rows]
        )


def test_headers_report_the_cost_of_a_query(client: Any) -> None:
    response = client.post("/api/v1/dsl", json={"query": "SELECT count(*) FROM runs LAST 1h"})
    assert response.headers["X-Query-Window"] == "2026-06-21T09:00:00.000Z/2026-06-21T10:00:00.000Z"
    assert response.headers["X-Query-Rows-Scanned"] == "2"
    assert int(response.headers["X-Query-Bytes-Scanned"]) >= 0
    assert response.headers["Server-Timing"].startswith("parse;dur=")
    assert "run;dur=" in response.headers["Server-Timing"]


def test_a_key_without_the_scope_cannot_query(new_client: Any) -> None:
    response = new_client("acme", "heartbeat:write").post("/api/v1/dsl", json={"query": "SHOW SOURCES"})
    assert (response.status_code, response.json["error"]) == (403, "missing_scope")


@pytest.mark.parametrize(
    ("clause", "rows"), [("", [[t("08:00"), 1]]), ("COMPARE WITH 1h AGO", [[t("08:00"), 1, 0], [t("09:00"), 0, 1]])]
)
def test_there_may_be_more_buckets_than_fit_into_memory(ask: Ask, clause: str, rows: list[list[Any]]) -> None:
    """250 million million buckets, of which one has rows."""
    statement = f"SELECT count(*) FROM runs WHERE status = 'failed' EVERY 1ms FILL NONE {clause}"
    assert ask(f"{statement} SINCE '1970-01-02' UNTIL '9999-12-31'")["rows"] == rows
