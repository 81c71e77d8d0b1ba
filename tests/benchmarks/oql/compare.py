"""Ask what people ask, over HTTP, and the same of DuckDB on one thread with a file of its own.

    python -m tests.benchmarks.oql.compare FOLDER [--rounds 5]

FOLDER is one that `generate` has filled. Without --port the service runs inside this process, with the clock at the end
of the data; with it, the one that listens there is asked (start it with OBS_QUERY_RATE_PER_MINUTE=1000000, and
OBS_RUN_RETENTION_DAYS large enough, or it will delete what is too old for it). Rollups are made by `generate`. Shown are medians in milliseconds, end
to end, and their ratio; answers that differ are told. Nothing is cached between rounds but pages of the files.
"""

import argparse
import http.client
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

from obs import create_app
from obs.times import DAY_MS, format_ms
from tests.benchmarks.oql.generate import NOW_MS

FIVE = "count(*), avg(duration_ms), min(duration_ms), max(duration_ms), sum(duration_ms)"
HOUR = "(time // 3600000) * 3600000"


def _window(days: int) -> tuple[str, str]:
    """The last days as OQL writes them, and as a condition for DuckDB."""
    start = NOW_MS - days * DAY_MS
    return (
        f"BETWEEN '{format_ms(start)}' AND '{format_ms(NOW_MS)}'",
        f"time >= {start} AND time < {NOW_MS}",
    )


W7, D7 = _window(7)
W90, D90 = _window(90)

# name, OQL, SQL of DuckDB
QUESTIONS: list[tuple[str, str, str]] = [
    (
        "count by hour, 90 d",
        f"SELECT count(*) FROM runs EVERY 1h {W90}",
        f"SELECT {HOUR} t, count(*) FROM runs WHERE {D90} GROUP BY 1 ORDER BY 1",
    ),
    (
        "count by hour, 7 d",
        f"SELECT count(*) FROM runs EVERY 1h {W7}",
        f"SELECT {HOUR} t, count(*) FROM runs WHERE {D7} GROUP BY 1 ORDER BY 1",
    ),
    (
        "failed by hour, 90 d",
        f"SELECT count(*) FROM runs WHERE status = 'failed' EVERY 1h {W90}",
        f"SELECT {HOUR} t, count(*) FROM runs WHERE {D90} AND status = 'failed' GROUP BY 1 ORDER BY 1",
    ),
    (
        "five aggregates by hour, 90 d",
        f"SELECT {FIVE} FROM runs EVERY 1h {W90}",
        f"SELECT {HOUR} t, {FIVE} FROM runs WHERE {D90} GROUP BY 1 ORDER BY 1",
    ),
    (
        "average of one job by hour, 90 d",
        f"SELECT avg(duration_ms) FROM runs WHERE job = 'job-042' EVERY 1h {W90}",
        f"SELECT {HOUR} t, avg(duration_ms) FROM runs WHERE {D90} AND job = 'job-042' GROUP BY 1 ORDER BY 1",
    ),
    (
        "failures by job, 7 d",
        f"SELECT count(*) FROM runs WHERE status = 'failed' BY job TOP 10 {W7}",
        f"SELECT job, count(*) c FROM runs WHERE {D7} AND status = 'failed' GROUP BY 1 ORDER BY c DESC, job LIMIT 10",
    ),
    (
        "failures by job, 90 d",
        f"SELECT count(*) FROM runs WHERE status = 'failed' BY job TOP 10 {W90}",
        f"SELECT job, count(*) c FROM runs WHERE {D90} AND status = 'failed' GROUP BY 1 ORDER BY c DESC, job LIMIT 10",
    ),
    (
        "count by job, 90 d",
        f"SELECT count(*) FROM runs BY job {W90}",
        f"SELECT job, count(*) c FROM runs WHERE {D90} GROUP BY 1 ORDER BY job",
    ),
    (
        "p95 by day, 90 d",
        f"SELECT p95(duration_ms) FROM runs EVERY 1d {W90}",
        f"SELECT (time // 86400000) * 86400000 t, quantile_cont(duration_ms, 0.95) FROM runs WHERE {D90} GROUP BY 1 ORDER BY 1",
    ),
    (
        "p95 by day, 7 d",
        f"SELECT p95(duration_ms) FROM runs EVERY 1d {W7}",
        f"SELECT (time // 86400000) * 86400000 t, quantile_cont(duration_ms, 0.95) FROM runs WHERE {D7} GROUP BY 1 ORDER BY 1",
    ),
    (
        "last 100 failures",
        f"SELECT time, job, exit_code FROM runs WHERE status = 'failed' ORDER BY time DESC LIMIT 100 {W90}",
        f"SELECT time, job, exit_code FROM runs WHERE {D90} AND status = 'failed' ORDER BY time DESC LIMIT 100",
    ),
    (
        "logs containing a word, 7 d",
        f"SELECT time, job, message FROM logs WHERE message CONTAINS 'needle' {W7}",
        f"SELECT time, job, message FROM logs WHERE {D7} AND contains(message, 'needle') ORDER BY time",
    ),
    (
        "logs containing a word, 90 d",
        f"SELECT time, job, message FROM logs WHERE message CONTAINS 'needle' {W90}",
        f"SELECT time, job, message FROM logs WHERE {D90} AND contains(message, 'needle') ORDER BY time",
    ),
]


def _median_ms(ask: Callable[[], Any], rounds: int) -> tuple[float, Any]:
    ask()
    times = []
    answer = None
    for _ in range(rounds):
        began = time.perf_counter()
        answer = ask()
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times), answer


def _values(rows: list[Any]) -> list[Any]:
    return [value for row in rows for value in row if isinstance(value, int | float)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--port", type=int, help="Ask a service that runs there, not one inside this process.")
    given = parser.parse_args()
    key = (given.folder / "key").read_text()
    db = duckdb.connect(str(given.folder / "runs.duckdb"), read_only=True)
    db.execute("SET threads = 1")
    if given.port is None:
        settings = {"QUERY_RATE_PER_MINUTE": 10**6, "QUERY_MAX_SECONDS": 60}
        app = create_app({"TESTING": True, "INSTANCE": given.folder / "instance", "CLOCK": lambda: NOW_MS, **settings})
        client = app.test_client()

        def post(statement: str) -> Any:
            return client.post("/api/v1/dsl", json={"query": statement}, headers={"X-API-Key": key}).json
    else:
        connection = http.client.HTTPConnection("127.0.0.1", given.port)

        def post(statement: str) -> Any:
            connection.request(
                "POST",
                "/api/v1/dsl",
                json.dumps({"query": statement}),
                {"X-API-Key": key, "Content-Type": "application/json"},
            )
            return json.loads(connection.getresponse().read())

    print(f"{'':34}{'OQL ms':>10}{'DuckDB ms':>11}{'ratio':>8}")
    for name, oql, sql in QUESTIONS:
        ours, answer = _median_ms(partial(post, oql), given.rounds)
        if "rows" not in answer:
            print(f"{name:34}{ours:10.1f}  {answer['message']}")
            continue
        theirs, expected = _median_ms(partial(_fetch, db, sql), given.rounds)
        same = sum(_values([row[1:] for row in answer["rows"]])) - sum(_values([row[1:] for row in expected]))
        note = "" if abs(same) < 1e-6 * max(1.0, abs(sum(_values(expected)))) else f"  differs by {same}"
        print(f"{name:34}{ours:10.1f}{theirs:11.1f}{ours / theirs:8.2f}{note}")


def _fetch(db: duckdb.DuckDBPyConnection, sql: str) -> list[Any]:
    return db.execute(sql).fetchall()


if __name__ == "__main__":
    main()
