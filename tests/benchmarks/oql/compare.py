"""Ask what people ask, over HTTP, and the same of DuckDB on one thread with a file of its own.

    python -m tests.benchmarks.oql.compare FOLDER --port 8080 [--rounds 5]

FOLDER is one that `generate` has filled; the service that listens at the port serves FOLDER/instance (start it with
OBS_QUERY_RATE_PER_MINUTE=1000000 and OBS_RUN_RETENTION_DAYS=36500). Shown are medians in milliseconds, end to end,
ours and DuckDB's in turn, and their ratio; results that differ are reported. The target: the median ratio is at most 1,
and no statement takes more than 3 times as long as DuckDB or 30 ms, whichever is larger. Statements that take DuckDB a
few milliseconds show the cost of HTTP and of a query process.
"""

import argparse
import http.client
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb

from obs.times import DAY_MS, format_ms
from tests.benchmarks.oql.generate import NOW_MS
from tests.benchmarks.oql.statements import QUESTIONS, RECENT

_ENDS = {days: NOW_MS - days * DAY_MS for days in (1, 7, 14, 30, 90)}


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

    for title, questions in (("what analysts ask", QUESTIONS), ("what dashboards ask", RECENT)):
        print(f"{title}: {_compare(questions, post, fetch, given.rounds)}", flush=True)


def _compare(
    questions: Sequence[tuple[str, str]], post: Callable[[str], Any], fetch: Callable[[str], Any], rounds: int
) -> str:
    """Ask each question; returns the median ratio, and how many took too long."""
    ratios, slow = [], 0
    for oql, sql in questions:
        statement, other = _asked(oql, oql=True), _asked(sql, oql=False)
        ours, theirs = [], []
        for _ in range(rounds + 1):
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
    return f"median ratio {statistics.median(ratios):.2f}; {slow} of {len(questions)} beyond 3 x DuckDB and 30 ms"


if __name__ == "__main__":
    main()
