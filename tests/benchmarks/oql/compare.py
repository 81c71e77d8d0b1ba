"""Ask what people ask, over HTTP, and the same of DuckDB on one thread with a file of its own.

    python -m tests.benchmarks.oql.compare FOLDER --port 8080 [--rounds 5]

FOLDER is one that `generate` has filled; the service that listens at the port serves FOLDER/instance (start it with
OBS_QUERY_RATE_PER_MINUTE=1000000 and OBS_RUN_RETENTION_DAYS=36500). Shown are medians in milliseconds, end to end,
ours and DuckDB's in turn, and their ratio; results that differ are reported. The target: the median ratio is at most 1,
and no statement takes more than 3 times as long as DuckDB or 30 ms, whichever is larger.
"""

import argparse
import http.client
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

from obs.times import DAY_MS, format_ms
from tests.benchmarks.oql.generate import NOW_MS

DAY = "time // 86400000 * 86400000 AS t"
HOUR = "time // 3600000 * 3600000 AS t"
_ENDS = {days: NOW_MS - days * DAY_MS for days in (1, 7, 14, 30, 90)}

# OQL with the window as {90}, DuckDB's SQL with the window as a condition; an empty text: the same but for the window
QUESTIONS: list[tuple[str, str]] = [
    (
        "SELECT count(*) FROM runs EVERY 1h {90}",
        f"SELECT {HOUR}, count(*) FROM runs WHERE {{90}} GROUP BY t ORDER BY t",
    ),
    ("SELECT count(*) FROM runs EVERY 1h {7}", f"SELECT {HOUR}, count(*) FROM runs WHERE {{7}} GROUP BY t ORDER BY t"),
    (
        "SELECT count(*), avg(duration_ms), max(duration_ms) FROM runs EVERY 1d {90}",
        f"SELECT {DAY}, count(*), avg(duration_ms), max(duration_ms) FROM runs WHERE {{90}} GROUP BY t ORDER BY t",
    ),
    (
        "SELECT count(*) FROM runs WHERE status = 'failed' EVERY 1h {30}",
        f"SELECT {HOUR}, count(*) FROM runs WHERE {{30}} AND status = 'failed' GROUP BY t ORDER BY t",
    ),
    (
        "SELECT avg(duration_ms) FROM runs WHERE job = 'job-042' EVERY 1h {90}",
        f"SELECT {HOUR}, avg(duration_ms) FROM runs WHERE {{90}} AND job = 'job-042' GROUP BY t ORDER BY t",
    ),
    (
        "SELECT count(*), p95(duration_ms) FROM runs WHERE job = 'job-007' EVERY 1d {90}",
        f"SELECT {DAY}, count(*), quantile_cont(duration_ms, 0.95) FROM runs WHERE {{90}} AND job = 'job-007' GROUP BY t ORDER BY t",
    ),
    (
        "SELECT count(*) FROM runs WHERE status = 'failed' BY job TOP 10 {90}",
        "SELECT job, count(*) c FROM runs WHERE {90} AND status = 'failed' GROUP BY 1 ORDER BY c DESC, job LIMIT 10",
    ),
    (
        "SELECT count(*) FROM runs WHERE status = 'failed' BY job TOP 10 {7}",
        "SELECT job, count(*) c FROM runs WHERE {7} AND status = 'failed' GROUP BY 1 ORDER BY c DESC, job LIMIT 10",
    ),
    ("SELECT count(*) FROM runs BY job {90}", "SELECT job, count(*) FROM runs WHERE {90} GROUP BY 1 ORDER BY 1"),
    (
        "SELECT count(*) FROM runs WHERE exit_code = 137 BY job {90}",
        "SELECT job, count(*) FROM runs WHERE {90} AND exit_code = 137 GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT last(status), last(exit_code), max(time) AS at FROM runs BY job {30}",
        "SELECT job, arg_max(status, time), arg_max(exit_code, time), max(time) FROM runs WHERE {30} GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT job, time, duration_ms FROM runs WHERE duration_ms IS NOT NULL ORDER BY duration_ms DESC LIMIT 20 {90}",
        "SELECT job, time, duration_ms FROM runs WHERE {90} AND duration_ms IS NOT NULL ORDER BY duration_ms DESC LIMIT 20",
    ),
    (
        "SELECT job, time, duration_ms FROM runs WHERE job = 'job-042' ORDER BY duration_ms DESC LIMIT 20 {30}",
        "SELECT job, time, duration_ms FROM runs WHERE {30} AND job = 'job-042' ORDER BY duration_ms DESC NULLS LAST LIMIT 20",
    ),
    (
        "SELECT count(*), avg(duration_ms) FROM runs BY host, status {90}",
        "SELECT host, status, count(*), avg(duration_ms) FROM runs WHERE {90} GROUP BY 1, 2 ORDER BY 1, 2",
    ),
    (
        "SELECT count(*), avg(duration_ms) FROM runs BY host, status {7}",
        "SELECT host, status, count(*), avg(duration_ms) FROM runs WHERE {7} GROUP BY 1, 2 ORDER BY 1, 2",
    ),
    (
        "SELECT 100.0 * count(*) FILTER (WHERE status IN ('failed', 'lost')) / count(*) AS bad FROM runs BY service {90}",
        "SELECT service, 100.0 * count(*) FILTER (WHERE status IN ('failed', 'lost')) / count(*) FROM runs WHERE {90} GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT p95(duration_ms) FROM runs WHERE host = 'host-03' AND status = 'success' EVERY 1d {90}",
        f"SELECT {DAY}, quantile_cont(duration_ms, 0.95) FROM runs WHERE {{90}} AND host = 'host-03' AND status = 'success' GROUP BY t ORDER BY t",
    ),
    (
        "SELECT count(*) FROM runs WHERE host = 'host-03' BY hour(time) {30}",
        "SELECT time // 3600000 % 24 h, count(*) FROM runs WHERE {30} AND host = 'host-03' GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT count(DISTINCT job) FROM runs EVERY 1d {90}",
        f"SELECT {DAY}, count(DISTINCT job) FROM runs WHERE {{90}} GROUP BY t ORDER BY t",
    ),
    (
        "SELECT count(DISTINCT host) FROM runs EVERY 1d {90}",
        f"SELECT {DAY}, count(DISTINCT host) FROM runs WHERE {{90}} GROUP BY t ORDER BY t",
    ),
    (
        "SELECT CASE WHEN duration_ms < 1m THEN 'quick' WHEN duration_ms < 10m THEN 'usual' ELSE 'slow' END AS pace, count(*) FROM runs WHERE duration_ms IS NOT NULL BY pace {90}",
        "SELECT CASE WHEN duration_ms < 60000 THEN 'quick' WHEN duration_ms < 600000 THEN 'usual' ELSE 'slow' END AS pace, count(*) FROM runs WHERE {90} AND duration_ms IS NOT NULL GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT count(*) AS n FROM runs WHERE duration_ms > 3m BY job HAVING n > 1000 {90}",
        "SELECT job, count(*) n FROM runs WHERE {90} AND duration_ms > 180000 GROUP BY 1 HAVING n > 1000 ORDER BY 1",
    ),
    (
        "SELECT count(*), sum(length(message)) FROM logs BY job {90}",
        "SELECT job, count(*), sum(length(message)) FROM logs WHERE {90} GROUP BY 1 ORDER BY 1",
    ),
    ("SELECT count(*) FROM logs EVERY 1h {7}", f"SELECT {HOUR}, count(*) FROM logs WHERE {{7}} GROUP BY t ORDER BY t"),
    (
        "SELECT count(*) FROM runs WHERE exit_code > 0 BY exit_code {30}",
        "SELECT exit_code, count(*) FROM runs WHERE {30} AND exit_code > 0 GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT count(*) FROM runs WHERE duration_ms > 5m EVERY 1d {90}",
        f"SELECT {DAY}, count(*) FROM runs WHERE {{90}} AND duration_ms > 300000 GROUP BY t ORDER BY t",
    ),
    (
        "SELECT p95(duration_ms) FROM runs BY job {90}",
        "SELECT job, quantile_cont(duration_ms, 0.95) FROM runs WHERE {90} GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT p50(duration_ms), p99(duration_ms) FROM runs BY job {30}",
        "SELECT job, quantile_cont(duration_ms, 0.5), quantile_cont(duration_ms, 0.99) FROM runs WHERE {30} GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT p95(duration_ms) FROM runs EVERY 1d {90}",
        f"SELECT {DAY}, quantile_cont(duration_ms, 0.95) FROM runs WHERE {{90}} GROUP BY t ORDER BY t",
    ),
    (
        "SELECT count(*), avg(duration_ms) FROM runs WHERE host = 'host-03' EVERY 1h {90}",
        f"SELECT {HOUR}, count(*), avg(duration_ms) FROM runs WHERE {{90}} AND host = 'host-03' GROUP BY t ORDER BY t",
    ),
    (
        "SELECT avg(duration_ms) FROM runs BY project EVERY 1d {90}",
        f"SELECT {DAY}, project, avg(duration_ms) FROM runs WHERE {{90}} GROUP BY t, project ORDER BY t, project",
    ),
    (
        "SELECT count(*), avg(duration_ms) FROM runs EVERY 5m {7}",
        "SELECT time // 300000 * 300000 AS t, count(*), avg(duration_ms) FROM runs WHERE {7} GROUP BY t ORDER BY t",
    ),
    (
        "SELECT median(late_ms), max(late_ms) FROM runs WHERE late_ms > 0 BY job {7}",
        "SELECT job, median(late_ms), max(late_ms) FROM runs WHERE {7} AND late_ms > 0 GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT count(*) FROM runs WHERE status = 'failed' BY host, exit_code EVERY 1d FILL NONE {90}",
        f"SELECT {DAY}, host, exit_code, count(*) FROM runs WHERE {{90}} AND status = 'failed' GROUP BY t, 2, 3 ORDER BY t, 2, 3",
    ),
    (
        "SELECT count(*), avg(duration_ms) FROM runs WHERE duration_ms > 1m BY service {90}",
        "SELECT service, count(*), avg(duration_ms) FROM runs WHERE {90} AND duration_ms > 60000 GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT time, job, exit_code FROM runs WHERE status = 'failed' ORDER BY time DESC LIMIT 100 {90}",
        "SELECT time, job, exit_code FROM runs WHERE {90} AND status = 'failed' ORDER BY time DESC LIMIT 100",
    ),
    (
        "SELECT time, job, message FROM logs WHERE message CONTAINS 'needle' {90}",
        "SELECT time, job, message FROM logs WHERE {90} AND contains(message, 'needle') ORDER BY time",
    ),
    (
        "SELECT count(*) FROM runs BY host TOP 3 EVERY 6h {30}",
        "WITH best AS (SELECT host FROM runs WHERE {30} GROUP BY 1 ORDER BY count(*) DESC LIMIT 3) SELECT time // 21600000 * 21600000 AS t, host, count(*) FROM runs WHERE {30} AND host IN (FROM best) GROUP BY t, host ORDER BY t, host",
    ),
    (
        "SELECT count(*) FROM runs BY weekday(time) {90}",
        "SELECT (time // 86400000 + 3) % 7 + 1 d, count(*) FROM runs WHERE {90} GROUP BY 1 ORDER BY 1",
    ),
    (
        "SELECT count(*) FROM runs WHERE project = 'project-1' AND (hour(time) >= 22 OR hour(time) < 6) BY job, status {30}",
        "SELECT job, status, count(*) FROM runs WHERE {30} AND project = 'project-1' AND (time // 3600000 % 24 >= 22 OR time // 3600000 % 24 < 6) GROUP BY 1, 2 ORDER BY 1, 2",
    ),
    (
        "SELECT stddev(duration_ms), p99(duration_ms) FROM runs WHERE job = 'job-007' EVERY 1d {30}",
        f"SELECT {DAY}, stddev(duration_ms), quantile_cont(duration_ms, 0.99) FROM runs WHERE {{30}} AND job = 'job-007' GROUP BY t ORDER BY t",
    ),
    (
        "SELECT max(duration_ms), count(*) FROM runs WHERE service = 'service-2' BY job {14}",
        "SELECT job, max(duration_ms), count(*) FROM runs WHERE {14} AND service = 'service-2' GROUP BY 1 ORDER BY 1",
    ),
]


def _asked(text: str, *, oql: bool) -> str:
    for days, start in _ENDS.items():
        window = (
            f"BETWEEN '{format_ms(start)}' AND '{format_ms(NOW_MS)}'" if oql else f"time >= {start} AND time < {NOW_MS}"
        )
        text = text.replace(f"{{{days}}}", window)
    return text


def _numbers(rows: list[Any]) -> float:
    """A checksum: the sum of the numbers that are not times."""
    return sum(value for row in rows for value in row if isinstance(value, int | float) and abs(value) < 10**12)


def _timed(ask: Callable[[str], Any], statement: str) -> tuple[float, Any]:
    began = time.perf_counter()
    found = ask(statement)
    return (time.perf_counter() - began) * 1000, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--port", type=int, required=True)
    given = parser.parse_args()
    key = (given.folder / "key").read_text()
    db = duckdb.connect(str(given.folder / "runs.duckdb"), read_only=True)
    db.execute("SET threads = 1")
    connection = http.client.HTTPConnection("127.0.0.1", given.port)

    def post(statement: str) -> Any:
        headers = {"X-API-Key": key, "Content-Type": "application/json"}
        connection.request("POST", "/api/v1/dsl", json.dumps({"query": statement}), headers)
        return json.loads(connection.getresponse().read())

    def fetch(statement: str) -> list[Any]:
        return db.execute(statement).fetchall()

    ratios, slow = [], 0
    for oql, sql in QUESTIONS:
        statement, other = _asked(oql, oql=True), _asked(sql, oql=False)
        ours, theirs = [], []
        for _ in range(given.rounds + 1):
            took, answer = _timed(post, statement)
            ours.append(took)
            took, expected = _timed(fetch, other)
            theirs.append(took)
        mine, its = statistics.median(ours[1:]), statistics.median(theirs[1:])
        if "rows" not in answer:
            print(f"{mine:8.1f}{its:8.1f}    refused {oql}: {answer['message']}")
            slow += 1
            continue
        cells = [row[1:] for row in answer["rows"]], [row[1:] for row in expected]
        same = abs(_numbers(cells[0]) - _numbers(cells[1])) <= 1e-9 * max(1.0, abs(_numbers(cells[1])))
        ratios.append(mine / its)
        is_slow = mine > max(3 * its, 30)
        slow += is_slow
        print(
            f"{mine:8.1f}{its:8.1f}{mine / its:8.2f} {'SLOW' if is_slow else '    '}{'' if same else ' DIFFERS'} {oql}"
        )
    print(f"median ratio {statistics.median(ratios):.2f}; {slow} of {len(QUESTIONS)} beyond 3 x DuckDB and 30 ms")


if __name__ == "__main__":
    main()
