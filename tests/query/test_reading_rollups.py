"""A statement is answered from rollups where they are exact, and reads as few of them as it can."""

import json
import re
import statistics
from functools import partial

import pytest
from flask import Flask

from tests.conftest import Clock
from tests.query.conftest import Ask, Write, execute, explained, nearly, roll_up_all

HOUR = "1h by exit_code and host and job and project and service and status"
DAY = "1d by exit_code and host and job and project and service and status"
PLACE_HOUR, PLACE_DAY = (f"{unit} by exit_code and host and project and service and status" for unit in ("1h", "1d"))
EVENTS_HOUR = "1h by host and job and kind and project and service"
EVENTS_DAY = "1d by host and job and kind and project and service"


@pytest.mark.usefixtures("history")
def test_explain_says_what_is_read_from_rollups(app: Flask, ask: Ask, clock: Clock) -> None:
    statement = "SELECT count(*) FROM runs EVERY 1h LAST 2d"
    assert explained(ask, statement) == []
    roll_up_all(app)
    clock.advance(minutes=37)
    # The last hour is read from the rows: at its end it was not rolled up yet.
    assert explained(ask, statement) == [
        "46 x 1h by status, between 2026-06-19T11:00:00.000Z and 2026-06-21T09:00:00.000Z",
        "4 x 5m by status, between 2026-06-19T10:40:00.000Z and 2026-06-19T11:00:00.000Z",
        "the rows of 2026-06-19T10:37:00.000Z/2026-06-19T10:40:00.000Z, "
        "2026-06-21T09:00:00.000Z/2026-06-21T10:37:00.000Z",
    ]


@pytest.mark.usefixtures("history")
def test_totals_of_several_jobs_are_the_same_from_rollups_as_from_rows(app: Flask, ask: Ask) -> None:
    statement = "SELECT status, count(*), sum(duration_ms), min(duration_ms), max(duration_ms) FROM runs BY status"
    window = "BETWEEN '2026-06-18T10:00:00Z' AND '2026-06-21T09:00:00Z'"
    from_rows = ask(f"{statement} {window}")["rows"]
    roll_up_all(app)
    assert explained(ask, f"{statement} {window}") != []
    assert ask(f"{statement} {window}")["rows"] == from_rows
    assert len(from_rows) == 2


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT count(*) FROM runs EVERY 1h", ["1h by status"]),
        ("SELECT p95(duration_ms), count(*) FROM runs WHERE status = 'failed' EVERY 1d", ["1h by status"]),
        ("SELECT stddev(late_ms), median(late_ms) FROM runs EVERY 1d", ["1h by status"]),
        ("SELECT max(late_ms), count(*) FROM runs WHERE late_ms > 1m BY job", [DAY, HOUR]),
        ("SELECT count(*), avg(length(message)) FROM logs EVERY 1d", ["1h by kind"]),
        ("SELECT sum(length(message)) FROM events WHERE kind = 'log' BY job", [EVENTS_DAY, EVENTS_HOUR]),
        ("SELECT last(duration_ms), first(duration_ms), p95(late_ms), count(*) FROM runs BY job", [DAY, HOUR]),
        ("SELECT last(duration_ms) FROM runs WHERE duration_ms > 5 AND status = 'failed' BY job", [DAY, HOUR]),
        ("SELECT last(duration_ms) FROM runs WHERE exit_code = 1 BY job", [DAY, HOUR]),
        ("SELECT last(status), first(status), first(exit_code), last(host) FROM runs BY job", [DAY, HOUR]),
        ("SELECT last(status) AS s FROM runs WHERE exit_code != 7 BY job HAVING s != 'lost'", [DAY, HOUR]),
        ("SELECT last(duration_ms) FROM runs WHERE exit_code = 1 AND duration_ms > 5 BY job", []),
        ("SELECT first(time), last(time) FROM runs WHERE status = 'failed' BY host", [PLACE_DAY, PLACE_HOUR]),
        ("SELECT avg(duration_ms) FROM runs BY job", [DAY, HOUR]),
        ("SELECT avg(duration_ms) FROM runs WHERE job = 'mail' EVERY 6h", [HOUR]),
        ("SELECT count(*) FROM runs EVERY 1d TIMEZONE 'Europe/Berlin'", ["1h by status"]),
        ("SELECT count(*) FROM runs BY job EVERY 1d TIMEZONE 'Europe/Berlin'", [HOUR]),
        ("SELECT count(*) FROM runs BY hour(time), job", [HOUR]),
        ("SELECT count(*) FROM runs BY weekday(time), job", [DAY, HOUR]),
        ("SELECT count(*) FROM runs BY hour(time) TIMEZONE 'Europe/Berlin'", ["1h by status"]),
        ("SELECT p95(duration_ms), stddev(duration_ms) FROM runs BY job", [DAY, HOUR]),
        ("SELECT count(*) FROM runs WHERE exit_code = 1", [PLACE_DAY, PLACE_HOUR]),
        ("SELECT count(*) FROM runs BY host", [PLACE_DAY, PLACE_HOUR]),
        ("SELECT count(DISTINCT job), last(exit_code), max(time) FROM runs BY service EVERY 1d", [DAY, HOUR]),
        ("SELECT count(exit_code), min(job) FROM runs WHERE host = 'a' OR project IS NULL", [DAY, HOUR]),
        ("SELECT count(*) FILTER (WHERE duration_ms > 5) FROM runs", ["1h by status"]),
        ("SELECT avg(duration_ms) FROM runs WHERE duration_ms BETWEEN 5ms AND 1m BY job", [DAY, HOUR]),
        (
            "SELECT histogram(duration_ms, 1m) AS bin, count(*) FROM runs WHERE status = 'failed' BY bin",
            ["1h by status"],
        ),
        ("SELECT floor(duration_ms / 60000) AS minutes, count(*) FROM runs BY minutes", ["1h by status"]),
        (
            "SELECT round(duration_ms / 60000.0) AS minutes, host, count(*) FROM runs BY minutes, host",
            [PLACE_DAY, PLACE_HOUR],
        ),
        ("SELECT if(late_ms > 0, 'late', 'on time') AS what, count(*) FROM runs BY what", ["1h by status"]),
        (
            "SELECT histogram(late_ms, 1s) AS bin, job, count(*) FROM runs WHERE late_ms IS NOT NULL BY bin, job",
            [DAY, HOUR],
        ),
        ("SELECT histogram(late_ms, 1m) AS bin, count(*) FROM runs WHERE late_ms > 90s BY bin", ["1h by status"]),
        (
            "SELECT CASE WHEN duration_ms > 1m THEN 'slow' END AS pace, p95(duration_ms) FROM runs BY pace",
            ["1h by status"],
        ),
        ("SELECT avg(duration_ms / 1000 / 60), p95(late_ms * 2) FROM runs BY job", [DAY, HOUR]),
        ("SELECT sum(if(status = 'failed', 1, 0)), avg(exit_code) FROM runs BY host", [PLACE_DAY, PLACE_HOUR]),
        ("SELECT sum(if(duration_ms > 5, 1, 0)) FROM runs BY job", [DAY, HOUR]),
        ("SELECT sum(coalesce(duration_ms, 0)), avg(coalesce(late_ms, 0)) FROM runs BY job", [DAY, HOUR]),
        ("SELECT count(*) FROM runs EVERY 1d TIMEZONE 'Asia/Kolkata'", ["1h by status", "5m by status"]),
        ("SELECT count(*) FROM runs BY job EVERY 1w TIMEZONE 'Asia/Kolkata'", [DAY, HOUR]),
        ("SELECT count(*) FROM runs BY job EVERY 90m", [HOUR]),
        ("SELECT count(*) FROM runs BY hour(time) TIMEZONE 'Asia/Kolkata'", ["5m by status"]),
        ("SELECT p95(duration_ms), count(*) FROM runs BY status EVERY 30m", ["5m by status"]),
        ("SELECT count(*) FROM runs WHERE time > '2026-06-20'", ["1h by status", "5m by status"]),
        ("SELECT count(*) FILTER (WHERE time >= '2026-06-20') FROM runs BY job", [DAY, HOUR]),
        (
            "SELECT CASE WHEN time < NOW - 1d THEN 'old' END AS age, max(host), p95(late_ms) FROM runs BY age",
            [PLACE_DAY, PLACE_HOUR],
        ),
        (
            "SELECT count(*) FROM runs WHERE NOT time BETWEEN '2026-06-20' AND '2026-06-20T12:00:00Z' BY job",
            [DAY, HOUR],
        ),
        # what rollups cannot answer exactly
        ("SELECT count(*) FROM runs EVERY 1m", []),
        ("SELECT count(*) FROM runs BY job EVERY 30m", []),
        ("SELECT count(*) FROM runs BY hour(time), job TIMEZONE 'Asia/Kolkata'", []),
        ("SELECT max(late_ms), last(run_id) FROM runs", []),
        ("SELECT max(late_ms) FROM runs WHERE duration_ms > 5", []),
        ("SELECT count(*) FROM runs WHERE duration_ms > 5 OR late_ms > 5", []),
        ("SELECT last(duration_ms) FROM runs WHERE duration_ms > 5", []),
        ("SELECT count(message) FROM logs", []),
        ("SELECT floor(duration_ms / 7 + 1) AS n, count(*) FROM runs BY n", []),
        ("SELECT floor(duration_ms / 1000), histogram(duration_ms, 1s), count(*) FROM runs BY 1, 2", []),
        ("SELECT floor(duration_ms / 1000), round(duration_ms / 1000), count(*) FROM runs BY 1, 2", []),
        ("SELECT round(duration_ms / 60000, 1) AS minutes, count(*) FROM runs BY minutes", []),
        ("SELECT histogram(duration_ms, 60000.0) AS bin, count(*) FROM runs BY bin", []),
        ("SELECT count(*) FROM runs BY histogram(duration_ms, 1m), duration_ms > 5m", []),  # a bin may have both
        ("SELECT histogram(duration_ms, 999) AS bin, count(*) FROM runs BY bin", []),
        ("SELECT histogram(duration_ms, 1m) AS bin, avg(duration_ms) FROM runs BY bin", []),
        ("SELECT histogram(duration_ms, 1m) AS bin, count(*) FROM runs WHERE late_ms > 5 BY bin", []),
        ("SELECT histogram(length(message), 1000) AS bin, count(*) FROM logs BY bin", []),
        ("SELECT count(*) FROM events WHERE length(message) > 9 BY job", []),
        ("SELECT p95(length(message)) FROM logs", []),
        ("SELECT count(*) FROM logs WHERE message CONTAINS 'full' BY job", []),
        ("SELECT sum(if(status = 'failed', 0.5, 0)) FROM runs", []),
        ("SELECT max(duration_ms / 7 + 1), count(duration_ms / 7) FROM runs", []),
        ("SELECT max(duration_ms / -7) FROM runs", []),
        ("SELECT sum(coalesce(duration_ms, 5)) FROM runs", []),
        ("SELECT sum(DISTINCT coalesce(duration_ms, 0)) FROM runs", []),
        ("SELECT count(DISTINCT duration_ms) FROM runs", []),
        ("SELECT first(duration_ms) FROM runs", []),
        ("SELECT last(duration_ms) FROM runs BY job, status", []),
        ("SELECT last(duration_ms) FROM runs BY job EVERY 1h", []),
        ("SELECT last(gap_ms) FROM runs BY job", []),
        ("SELECT last(late_ms) FROM runs BY job", []),  # it may be null in all rows, and no index has it
        ("SELECT last(message) FROM events BY job", []),
        ("SELECT count(*) FROM runs WHERE time != '2026-06-20T00:00:00Z'", []),
        ("SELECT count(*) FROM runs WHERE time > NOW - duration_ms", []),
        ("SELECT count(*) FROM runs WHERE '2026-06-20' < time", []),
        ("SELECT count(*) FILTER (WHERE duration_ms / 2 > 5) FROM runs", []),
        ("SELECT count(*) FROM runs WHERE duration_ms > late_ms", []),
        ("SELECT last(status), count(*) FROM runs WHERE duration_ms > 5", []),
        ("SELECT max(time) FILTER (WHERE duration_ms > 5) FROM runs", []),
        ("SELECT job, duration_ms FROM runs", []),
    ],
)
def test_rollups_are_used_where_they_are_exact(app: Flask, ask: Ask, statement: str, expected: list[str]) -> None:
    roll_up_all(app)
    grains = [text for text in explained(ask, f"{statement} LAST 60h") if not text.startswith("the rows")]
    assert [text.partition(" x ")[2].partition(",")[0] for text in grains] == expected


BY_TIME = "PRIMARY KEY (hour=? AND series_id"
BY_SERIES = "COVERING INDEX series_by_hour_counts (series_id=? AND hour"
VALUES_BY_SERIES = "INDEX series_by_hour_counts (series_id=? AND hour"
DAYS = "COVERING INDEX series_by_day_counts (series_id=? AND day"
DAYS_BY_TIME = "PRIMARY KEY (day=? AND series_id"


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT count(*), max(duration_ms) FROM runs EVERY 1h LAST 4d", {BY_SERIES}),
        ("SELECT p95(duration_ms) FROM runs EVERY 1h LAST 4d", {BY_TIME}),
        ("SELECT max(late_ms) FROM runs WHERE late_ms >= 0 LAST 4d", {BY_SERIES}),
        ("SELECT count(*) FROM runs BY job LAST 4d", {DAYS, BY_TIME}),
        ("SELECT p95(duration_ms) FROM runs BY job LAST 4d", {DAYS_BY_TIME, BY_TIME}),
        ("SELECT count(*) FROM runs WHERE duration_ms > 1s BY job LAST 4d", {DAYS_BY_TIME, BY_TIME}),
        ("SELECT count(*) FROM runs BY job LAST 60h", {DAYS_BY_TIME, BY_TIME}),  # of two days
        ("SELECT avg(duration_ms) FROM runs BY host EVERY 1d LAST 4d", {DAYS, BY_TIME}),
        ("SELECT stddev(duration_ms), last(status) FROM runs BY job EVERY 6h LAST 4d", {BY_SERIES}),
        ("SELECT count(*) FROM runs WHERE job = 'mail' EVERY 6h LAST 4d", {BY_SERIES}),
        ("SELECT p50(duration_ms) FROM runs WHERE job = 'mail' EVERY 6h LAST 4d", {BY_TIME}),  # half of all cells
        ("SELECT p50(duration_ms) FROM runs WHERE job = 'none' EVERY 6h LAST 4d", {VALUES_BY_SERIES}),
        ("SELECT p50(duration_ms) FROM runs BY hour(time) TIMEZONE 'Europe/Berlin' LAST 4d", {BY_TIME}),
        ("SELECT p50(duration_ms) FROM runs BY hour(time) TOP 2 EVERY 6h LAST 4d", {BY_TIME}),
        ("SELECT count(*) FROM runs WHERE status = 'failed' BY job LAST 4d", {DAYS, BY_TIME}),
        ("SELECT count(*) FROM runs WHERE exit_code > 0 BY job LAST 4d", {DAYS, BY_SERIES}),
        ("SELECT count(*) FROM runs WHERE status = 'failed' BY job, hour(time) LAST 4d", {BY_SERIES}),
    ],
)
def test_cells_are_read_in_the_order_that_suits_a_statement(
    app: Flask, ask: Ask, write: Write, statement: str, expected: set[str]
) -> None:
    write(lambda db: db.execute("UPDATE runs SET late_ms = 5 WHERE duration_ms < 2000"))
    before = ask(statement)["rows"]
    roll_up_all(app)
    assert ask(statement)["rows"] == before
    steps = [row[1] for row in ask(f"EXPLAIN {statement}")["rows"] if row[0] == "plan"]
    found = [step.removeprefix("SEARCH cells USING ") for step in steps if "SEARCH cells" in step]
    assert {re.split("[<>]", step)[0] for step in found} == expected


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize(
    ("statement", "is_sorted"),
    [
        ("SELECT last(duration_ms) FROM runs WHERE status = 'success' AND hour(time) > 2 BY job", False),
        ("SELECT last(duration_ms) FROM runs WHERE job = 'mail' BY job", False),
        ("SELECT last(late_ms) FROM runs BY job", True),  # the index of jobs and times does not have it
        ("SELECT last(duration_ms) FROM runs BY job, status", True),
        ("SELECT last(duration_ms) FROM runs BY job EVERY 1h", True),
    ],
)
def test_rows_of_jobs_are_read_in_their_order_where_an_index_has_all_columns(
    ask: Ask, statement: str, *, is_sorted: bool
) -> None:
    steps = [row[1] for row in ask(f"EXPLAIN {statement} LAST 60h")["rows"] if row[0] == "plan"]
    assert any("GROUP BY" in step for step in steps) is is_sorted


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize(
    ("statement", "index"),
    [
        ("SELECT job, max(gap_ms) AS gap FROM runs BY job HAVING gap > 2 * median(gap_ms) ORDER BY gap DESC", "job"),
        ("SELECT max(gap_ms) AS gap, gap / 1000 AS s FROM runs BY status EVERY 1h TOP 1", "job"),
        ("SELECT job, time, gap_ms FROM runs ORDER BY gap_ms DESC LIMIT 5", "job"),
        ("SELECT max(gap_ms) AS gap FROM runs BY host ORDER BY gap", "started"),  # the other index has no hosts
    ],
)
def test_the_gap_of_a_run_is_computed_once(ask: Ask, statement: str, index: str) -> None:
    explained = ask(f"EXPLAIN {statement} LAST 60h")["rows"]
    (sql,) = [text for what, text in explained if what == "sql"]
    steps = [text for what, text in explained if what == "plan"]
    assert sql.count("SELECT r.started_at") == 1
    assert any(step.startswith(f"SEARCH runs USING COVERING INDEX runs_{index} ") for step in steps)


@pytest.mark.usefixtures("history")
def test_an_index_finds_the_row_of_each_job_with_its_last_value(app: Flask, ask: Ask) -> None:
    roll_up_all(app)
    for value, condition, index in (
        ("duration_ms", "status = 'failed'", "COVERING INDEX runs_job"),
        ("duration_ms", "exit_code = 1", "INDEX runs_job"),
        ("status", "exit_code != 1", "INDEX runs_job"),
        ("host", "status = 'failed'", "INDEX runs_job"),
    ):
        explained_ = ask(f"EXPLAIN SELECT last({value}) FROM runs WHERE {condition} BY job LAST 60h")["rows"]
        steps = {text for what, text in explained_ if what == "plan"}
        # From the time on that the rollups know, and only up to the first one.
        assert f"SEARCH runs USING {index} (job_id=? AND started_at<?)" in steps
        assert "USE TEMP B-TREE FOR RIGHT PART OF ORDER BY" not in steps


@pytest.mark.usefixtures("history")
def test_a_cell_is_split_at_the_bounds_of_between(app: Flask, ask: Ask) -> None:
    roll_up_all(app)
    rows = ask("EXPLAIN SELECT count(*) FROM runs WHERE duration_ms BETWEEN 2000 AND 2400 BY job LAST 60h")["rows"]
    numbers = {*json.loads(dict(rows)["parameters"]).values()}
    assert numbers >= {0, 1999, 2000, 2400, 2401}
    assert not numbers & {2001, 2399}


@pytest.mark.usefixtures("history")
def test_a_standard_deviation_is_that_of_the_rows(app: Flask, ask: Ask) -> None:
    statement = "SELECT job, status, stddev(duration_ms), count(*) FROM runs BY job, status LAST 60h"
    from_rows = ask(statement)["rows"]
    roll_up_all(app)
    assert explained(ask, statement)
    assert ask(statement)["rows"] == nearly(from_rows, statement)


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize("base", [0, 10**6, 2**31, 2**33])
def test_a_small_deviation_of_long_durations_is_exact(app: Flask, ask: Ask, write: Write, base: int) -> None:
    durations = [base + number % 3 for number in range(864)]
    write(partial(execute, sql=f"UPDATE runs SET duration_ms = {base} + id % 3"))
    roll_up_all(app)
    statement = "SELECT stddev(duration_ms) FROM runs LAST 90h"
    assert explained(ask, statement)
    assert ask(statement)["rows"] == [[pytest.approx(statistics.stdev(durations), 1e-12)]]
