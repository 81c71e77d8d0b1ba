# ruff: noqa: E501 - statements are easier to compare unbroken
"""The same queries, written in SQL for DuckDB: another engine must give the same results."""

import random
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pytest

from obs.times import format_ms, parse_iso

Ask = Callable[..., dict[str, Any]]
END = parse_iso("2026-06-21T10:00:00Z")
HOUR = 3_600_000
STATES = ["open", "success", "failed", "lost"]
WINDOW = "LAST 14d"
GAPS = "SELECT *, time - lag(time) OVER (PARTITION BY job ORDER BY time) AS gap FROM runs"
HOURLY = f"(time // {HOUR}) * {HOUR}"

# OQL without its window, and SQL, in which times are milliseconds
QUERIES = [
    (
        "SELECT count(*), count(duration_ms), sum(duration_ms), avg(duration_ms), min(duration_ms), max(duration_ms) FROM runs",
        "SELECT count(*), count(duration_ms), sum(duration_ms), avg(duration_ms), min(duration_ms), max(duration_ms) FROM runs",
    ),
    (
        "SELECT stddev(duration_ms), median(duration_ms), p75(duration_ms), p99(duration_ms) FROM runs",
        "SELECT stddev(duration_ms), median(duration_ms), quantile_cont(duration_ms, 0.75), quantile_cont(duration_ms, 0.99) FROM runs",
    ),
    (
        "SELECT count(*), p95(duration_ms) FROM runs BY job, status",
        "SELECT job, status, count(*), quantile_cont(duration_ms, 0.95) FROM runs GROUP BY ALL ORDER BY ALL",
    ),
    (
        "SELECT count(*), avg(duration_ms) FROM runs EVERY 1h FILL NONE",
        f"SELECT {HOURLY} t, count(*), avg(duration_ms) FROM runs GROUP BY t ORDER BY t",
    ),
    (
        "SELECT count(*) FILTER (WHERE status = 'failed'), count(DISTINCT job) FROM runs BY exit_code",
        "SELECT exit_code, count(*) FILTER (WHERE status = 'failed'), count(DISTINCT job) FROM runs GROUP BY 1 ORDER BY 1 NULLS FIRST",
    ),
    (
        "SELECT count(*) FROM runs BY job HAVING count(*) > 380",
        "SELECT job, count(*) c FROM runs GROUP BY job HAVING c > 380 ORDER BY job",
    ),
    (
        "SELECT first(duration_ms), last(duration_ms) FROM runs BY job",
        "SELECT job, arg_min(duration_ms, time) FILTER (duration_ms IS NOT NULL), arg_max(duration_ms, time) FILTER (duration_ms IS NOT NULL) FROM runs GROUP BY job ORDER BY job",
    ),
    (
        "SELECT count(*) FROM runs WHERE duration_ms / 7 > 1000 AND duration_ms % 3 = 1 OR job LIKE '%-_2' AND NOT status IN ('lost')",
        "SELECT count(*) FROM runs WHERE duration_ms / 7 > 1000 AND duration_ms % 3 = 1 OR job LIKE '%-_2' AND NOT status IN ('lost')",
    ),
    (
        "SELECT count(*) FROM runs WHERE job =~ '[13]$' AND duration_ms BETWEEN 1s AND 1m",
        "SELECT count(*) FROM runs WHERE regexp_matches(job, '[13]$') AND duration_ms BETWEEN 1000 AND 60000",
    ),
    (
        "SELECT hour(time) AS h, weekday(time) AS d, count(*) FROM runs BY h, d TIMEZONE 'Asia/Kolkata'",
        "SELECT hour(make_timestamp((time + 19800000) * 1000)) h, isodow(make_timestamp((time + 19800000) * 1000)) d, count(*) FROM runs GROUP BY ALL ORDER BY ALL",
    ),
    (
        "SELECT count(*), max(duration_ms) FROM runs WHERE duration_ms % 3 = 1 BY date(time) AS day, job TIMEZONE 'Asia/Kolkata'",
        "SELECT strftime(make_timestamp((time + 19800000) * 1000), '%Y-%m-%d') AS d, job, count(*), max(duration_ms) FROM runs WHERE duration_ms % 3 = 1 GROUP BY ALL ORDER BY ALL",
    ),
    (
        "SELECT CASE WHEN duration_ms > 1m THEN 'slow' ELSE 'quick' END AS pace, round(avg(duration_ms / 1000), 3) AS s FROM runs BY pace",
        "SELECT CASE WHEN duration_ms > 60000 THEN 'slow' ELSE 'quick' END pace, round(avg(duration_ms / 1000), 3) FROM runs GROUP BY pace ORDER BY pace",
    ),
    (
        "SELECT max(gap_ms), avg(gap_ms), count(gap_ms) FROM runs BY job",
        f"SELECT job, max(gap), avg(gap), count(gap) FROM ({GAPS}) GROUP BY job ORDER BY job",
    ),
    (
        "SELECT job, gap_ms FROM runs WHERE gap_ms > 15h AND status = 'failed' ORDER BY gap_ms DESC",
        f"SELECT job, gap FROM ({GAPS}) WHERE gap > 54000000 AND status = 'failed' ORDER BY gap DESC, time",
    ),
    (
        "SELECT histogram(duration_ms, 10s) AS bin, count(*) FROM runs BY bin",
        "SELECT duration_ms // 10000 * 10000 AS bin, count(*) FROM runs GROUP BY bin ORDER BY bin NULLS FIRST",
    ),
    (
        "SELECT count(*) FROM runs EVERY 1w FILL NONE",
        "SELECT epoch_ms(date_trunc('week', make_timestamp(time * 1000))) t, count(*) FROM runs GROUP BY t ORDER BY t",
    ),
    (
        "SELECT count(*) FROM runs WHERE job LIKE 'job!-1%' ESCAPE '!'",
        "SELECT count(*) FROM runs WHERE job LIKE 'job!-1%' ESCAPE '!'",
    ),
    (
        "SELECT extract(job, '-(.)') AS digit, count(*) FROM runs BY digit",
        "SELECT regexp_extract(job, '-(.)', 1) AS digit, count(*) FROM runs GROUP BY digit ORDER BY digit",
    ),
    (
        "SELECT max(duration_ms) - min(duration_ms) AS spread, 100.0 * count(*) FILTER (WHERE status != 'success') / count(*) AS pct FROM runs BY job ORDER BY pct DESC LIMIT 3",
        "SELECT job, max(duration_ms) - min(duration_ms), 100.0 * count(*) FILTER (status != 'success') / count(*) p FROM runs GROUP BY job ORDER BY p DESC, job LIMIT 3",
    ),
]


def _rows() -> Iterator[tuple[int, int, int, int | None, int | None]]:
    """job, status, start, duration, exit code."""
    chance = random.Random(5)
    for number in range(2_000):
        status = chance.choice([1, 1, 1, 2, 3])
        duration = None if status == 3 else int(chance.lognormvariate(10, 1))
        yield (
            chance.randint(1, 5),
            status,
            END - 14 * 24 * HOUR + number * 604_800,
            duration,
            chance.choice([None, 0, 1, 2]),
        )


def _fill(db: sqlite3.Connection) -> None:
    names = [(number, f"job-{number}{number}") for number in range(1, 6)]
    db.executemany(
        "INSERT INTO jobs (id, name, created_at, last_heartbeat_at, last_event_id) VALUES (?, ?, 0, 0, 0)", names
    )
    db.executemany(
        "INSERT INTO runs (job_id, status, started_at, duration_ms, exit_code, heartbeat_at) VALUES (?, ?, ?, ?, ?, 0)",
        _rows(),
    )


@pytest.fixture(scope="module")
def duck() -> duckdb.DuckDBPyConnection:
    db = duckdb.connect()
    db.execute("CREATE TABLE runs (job VARCHAR, status VARCHAR, time BIGINT, duration_ms BIGINT, exit_code BIGINT)")
    rows = [(f"job-{job}{job}", STATES[status], *rest) for job, status, *rest in _rows()]
    db.executemany("INSERT INTO runs VALUES (?, ?, ?, ?, ?)", rows)
    return db


@pytest.mark.parametrize(("oql", "sql"), QUERIES, ids=[oql for oql, _ in QUERIES])
def test_duckdb_gives_the_same_result(ask: Ask, write: Any, duck: Any, oql: str, sql: str) -> None:
    write(_fill)
    statement = f"{oql} {WINDOW}"
    answer = ask(statement)
    expected = [list(row) for row in duck.execute(sql).fetchall()]
    if answer["columns"][0] == "t":
        expected = [[format_ms(row[0]), *row[1:]] for row in expected]
    assert len(answer["rows"]) == len(expected)
    for row, other in zip(answer["rows"], expected, strict=True):
        assert row == [pytest.approx(cell) if isinstance(cell, float) else cell for cell in other]
