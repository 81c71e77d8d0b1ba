"""Queries that exceed a limit are stopped, and the error names what would work."""

import functools
import os
import re
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from obs.heartbeat.source import SOURCES
from obs.query.execution.session import Limits, Reader, open_session
from obs.query.execution.window import resolve
from obs.query.language.check import check
from obs.query.language.grammar import parse
from obs.query.language.plan import Plan, Scan, Timeline
from obs.query.sql.select import SqlStatement, select
from obs.services import services
from obs.tenancy import auth
from tests.conftest import ACME

Ask = Callable[..., dict[str, Any]]

_HOUR_MS = 3_600_000
COUNTS_BYTES = os.access("/proc/thread-self/io", os.R_OK)


def _breach(answer: dict[str, Any], limit: str) -> dict[str, Any]:
    assert (answer["code"], answer["error"], answer["limit"]) == (422, "query_limit_exceeded", limit)
    assert answer["actual"] > answer["max"]
    assert answer["hint"]
    return answer


def _insert_runs(db: sqlite3.Connection, jobs: int, runs: int) -> None:
    now = 1_782_036_000_000  # 2026-06-21T10:00:00Z
    db.executemany(
        "INSERT INTO jobs (id, name, created_at, last_heartbeat_at, last_event_id) VALUES (?, ?, 0, 0, 0)",
        [(job, f"job{job}") for job in range(1, jobs + 1)],
    )
    db.executemany(
        "INSERT INTO runs (job_id, status, started_at, heartbeat_at, duration_ms) VALUES (?, 1, ?, 0, 5)",
        [(number % jobs + 1, now - _HOUR_MS + number) for number in range(runs)],
    )


def test_the_hint_for_too_many_buckets_names_numbers_that_work(ask: Ask) -> None:
    answer = _breach(ask("SELECT count(*) FROM runs EVERY 1m LAST 90d", 422), "max_rows")
    assert (answer["max"], answer["actual"]) == (10_000, 129_600)
    assert answer["hint"] == "Raise EVERY from 1m to at least 13m, or narrow the window to 6d."
    assert len(ask("SELECT count(*) FROM runs EVERY 13m LAST 90d")["rows"]) <= 10_000
    assert len(ask("SELECT count(*) FROM runs EVERY 1m LAST 6d")["rows"]) == 8_640


@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        ("SELECT count(*) FROM runs {} EVERY 1h FILL NONE LIMIT 1", [["2026-06-20T23:00:00.000Z", 1]]),
        ("SELECT job, duration_ms FROM runs {} ORDER BY duration_ms DESC LIMIT 1", [["backup", 30_000]]),
    ],
)
def test_the_length_of_the_window_costs_nothing(shop: None, ask: Ask, statement: str, rows: list[Any]) -> None:
    """It has 70 million hours, but there are runs only in few of them."""
    assert ask(statement.format("BETWEEN '1970-01-01' AND '9999-12-31'"))["rows"] == rows


def test_the_buckets_of_all_groups_count(make_app: Callable[..., Flask], new_client: Any) -> None:
    app = make_app(QUERY_MAX_ROWS=100)
    client = new_client("acme", app=app)
    tenancy: auth.Tenancy = services(app).tenancy
    tenancy.databases.write(ACME, lambda db: _insert_runs(db, 20, 40))

    def ask(statement: str, status: int) -> dict[str, Any]:
        response = client.post("/api/v1/dsl", json={"query": statement})
        assert response.status_code == status, response.json
        answer: dict[str, Any] = response.json
        return answer

    answer = _breach(ask("SELECT count(*) FROM runs BY job EVERY 5m LAST 2h", 422), "max_rows")
    assert answer["actual"] == 480
    interval, window, top = re.search(
        r"at least (\w+), or narrow the window to (\w+), or .* TOP (\d+)", answer["hint"]
    ).groups()  # type: ignore[union-attr]
    ask(f"SELECT count(*) FROM runs BY job EVERY {interval} LAST 2h", 200)
    ask(f"SELECT count(*) FROM runs BY job EVERY 5m LAST {window}", 200)
    assert len(ask(f"SELECT count(*) FROM runs BY job EVERY 5m TOP {top} LAST 2h", 200)["rows"]) == 96
    answer = ask("SELECT count(*) FROM runs BY job EVERY 1s LAST 2h", 422)  # too many for one job already
    (interval,) = re.search(r"at least (\w+)", answer["hint"]).groups()  # type: ignore[union-attr]
    ask(f"SELECT count(*) FROM runs BY job EVERY {interval} LAST 2h", 200)


def test_too_many_rows_are_refused_and_not_truncated(make_app: Callable[..., Flask], new_client: Any) -> None:
    app = make_app(QUERY_MAX_ROWS=10)
    client = new_client("acme", app=app)
    tenancy: auth.Tenancy = services(app).tenancy
    tenancy.databases.write(ACME, lambda db: _insert_runs(db, 11, 11))
    for statement in (
        "SELECT * FROM runs LAST 1d",
        "SELECT * FROM runs LAST 1d LIMIT 11",
        "SELECT count(*) FROM runs BY job LAST 1d",
    ):
        response = client.post("/api/v1/dsl", json={"query": statement})
        assert response.status_code == 422
        _breach(response.json, "max_rows")
        assert "LIMIT 10" in response.json["hint"]
        response = client.post("/api/v1/dsl", json={"query": statement.partition(" LIMIT")[0] + " LIMIT 10"})
        assert len(response.json["rows"]) == 10


@pytest.mark.parametrize(
    "clauses",
    [
        "ORDER BY newest DESC LIMIT 2",
        "ORDER BY t DESC LIMIT 2",
        "ORDER BY t > '2026-06-21T09:00:00.027Z' DESC LIMIT 2",
        "HAVING newest > 28",
        "LIMIT 2 OFFSET 28",
        "COMPARE WITH 1d AGO HAVING newest > 28",
        "COMPARE WITH 1d AGO ORDER BY newest DESC LIMIT 2",
        "BY job TOP 5 ORDER BY newest DESC LIMIT 2",
    ],
)
def test_rows_are_chosen_among_more_buckets_than_a_result_may_have(
    make_app: Callable[..., Flask], new_client: Any, clauses: str
) -> None:
    app = make_app(QUERY_MAX_ROWS=10)
    client = new_client("acme", app=app)
    tenancy: auth.Tenancy = services(app).tenancy
    tenancy.databases.write(ACME, lambda db: _insert_runs(db, 3, 30))
    statement = f"SELECT max(id) AS newest FROM runs {clauses} EVERY 1ms FILL NONE LAST 2h"
    response = client.post("/api/v1/dsl", json={"query": statement})
    assert response.status_code == 200, response.json
    found = [dict(zip(response.json["columns"], row, strict=True)) for row in response.json["rows"]]
    assert [(row["t"], row["newest"]) for row in found] == [
        ("2026-06-21T09:00:00.028Z", 29),
        ("2026-06-21T09:00:00.029Z", 30),
    ]


def test_a_query_that_takes_too_long_is_stopped(app: Flask, client: Any) -> None:
    """Uses a session directly: no OQL statement takes long on a small file."""
    tenancy: auth.Tenancy = services(app).tenancy
    limits = Limits(max_rows=10, max_bytes_scanned=1 << 30, max_seconds=0, max_length=100, rate_per_minute=1)
    tenancy.databases.write(ACME, lambda db: _insert_runs(db, 1, 1_000))
    sql = "SELECT count(*) FROM runs a, runs b, runs c, runs d WHERE a.id + b.id + c.id + d.id < 0"
    with (
        open_session(
            tenancy.databases.path(ACME), _checked("SELECT count(*) FROM runs LAST 1d"), [], limits, Reader()
        ) as session,
        pytest.raises(Exception, match="was stopped after") as caught,
    ):
        session.fetch(SqlStatement(sql, {}))
    assert caught.value.body()["limit"] == "max_seconds"  # type: ignore[attr-defined]


@pytest.mark.skipif(not COUNTS_BYTES, reason="this system does not count the bytes that a thread reads")
def test_a_query_that_reads_too_much_is_stopped(make_app: Callable[..., Flask], new_client: Any) -> None:
    app = make_app(QUERY_MAX_BYTES_SCANNED=500_000)
    client = new_client("acme", app=app)
    tenancy: auth.Tenancy = services(app).tenancy
    tenancy.databases.write(ACME, lambda db: _insert_runs(db, 1, 50_000))
    response = client.post("/api/v1/dsl", json={"query": "SELECT count(exit_code) FROM runs LAST 1d"})
    assert response.status_code == 422
    _breach(response.json, "max_bytes_scanned")
    response = client.post("/api/v1/dsl", json={"query": "SELECT count(exit_code) FROM runs LAST 1h LIMIT 1"})
    assert response.status_code == 422


@pytest.mark.skipif(not COUNTS_BYTES, reason="this system does not count the bytes that a thread reads")
@pytest.mark.parametrize("clauses", ["HAVING title = 'v2'", "ORDER BY time DESC LIMIT 1"])
def test_annotations_that_around_leaves_out_do_not_count(
    make_app: Callable[..., Flask], new_client: Any, request: Any, clauses: str
) -> None:
    client = new_client("acme", app=make_app(QUERY_MAX_ROWS=2))
    request.getfixturevalue("shop")
    statement = "SELECT count(*) FROM runs AROUND '' WITHIN 1h {} LAST 1d"
    refused = client.post("/api/v1/dsl", json={"query": statement.format("")})
    _breach(refused.json, "max_rows")
    found = client.post("/api/v1/dsl", json={"query": statement.format(clauses)})
    assert [row[2] for row in found.json["rows"]] == ["v2"]


@pytest.mark.parametrize("clauses", ["", "HAVING n_previous = 0 ORDER BY n_change_pct COMPARE WITH 1d AGO"])
def test_the_window_that_the_hint_names_works(make_app: Callable[..., Flask], new_client: Any, clauses: str) -> None:
    app = make_app(QUERY_MAX_BYTES_SCANNED=1_000_000)
    client = new_client("acme", app=app)
    _fill_a_day(app)
    statement = f"SELECT count(exit_code) AS n FROM runs {clauses} LAST "
    refused = client.post("/api/v1/dsl", json={"query": f"{statement}1d"})
    window = _window_in(_breach(refused.json, "max_bytes_scanned")["hint"])
    answer = client.post("/api/v1/dsl", json={"query": statement + window})
    assert answer.status_code == 200, answer.json


def test_the_window_that_the_hint_names_is_read_in_time(
    make_app: Callable[..., Flask], new_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seconds are counted in steps of SQLite's virtual machine, so that other load on this machine does not matter."""
    app = make_app(QUERY_MAX_SECONDS=1)
    client = new_client("acme", app=app)
    _fill_a_day(app)
    seconds_by_steps(monkeypatch)
    sums = ", ".join(f"sum(round(duration_ms * {number})) AS s{number}" for number in range(1, 10))
    slow = f"SELECT {sums} FROM runs LAST "
    refused = client.post("/api/v1/dsl", json={"query": f"{slow}1d"})
    window = _window_in(_breach(refused.json, "max_seconds")["hint"])
    answer = client.post("/api/v1/dsl", json={"query": slow + window})
    assert answer.status_code == 200, answer.json
    assert answer.json["rows"][0][0] > 0


def seconds_by_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let time.monotonic() advance by a millisecond with every 1,000 steps of SQLite on connections opened later."""
    connect, now = sqlite3.connect, {"ms": 0}

    class Counting(sqlite3.Connection):
        def set_progress_handler(self, handler: Callable[[], int | None] | None, steps: int, /) -> None:
            def advance() -> int | None:
                now["ms"] += 1
                return handler() if handler is not None and now["ms"] % max(1, steps // 1_000) == 0 else None

            super().set_progress_handler(advance, 1_000)

    monkeypatch.setattr(sqlite3, "connect", functools.partial(connect, factory=Counting))
    monkeypatch.setattr("time.monotonic", lambda: now["ms"] / 1_000)


def _fill_a_day(app: Flask) -> None:
    tenancy: auth.Tenancy = services(app).tenancy

    def fill(db: sqlite3.Connection) -> None:
        _insert_runs(db, 1, 0)
        db.executemany(
            "INSERT INTO runs (job_id, status, started_at, heartbeat_at, duration_ms) VALUES (1, 1, ?, 0, 5)",
            [(tenancy.clock() - number * 1_700,) for number in range(50_000)],
        )

    tenancy.databases.write(ACME, fill)


def _window_in(hint: str) -> str:
    window = re.fullmatch(r"Narrow the window to (\w+), or choose .*", hint)
    assert window is not None, hint
    return window[1]


def test_requests_beyond_the_rate_are_refused_with_retry_after(make_app: Callable[..., Flask], new_client: Any) -> None:
    app = make_app(QUERY_RATE_PER_MINUTE=2)
    first, second = new_client("acme", app=app), new_client("acme", app=app)
    other = new_client("globex", app=app)
    ask = {"query": "SHOW SOURCES"}
    answers = [client.post("/api/v1/dsl", json=ask) for client in (first, second, first)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert [answer.headers["RateLimit-Remaining"] for answer in answers] == ["1", "0", "0"]
    refused = answers[-1]
    assert refused.json["error"] == "rate_limited"
    assert refused.headers["RateLimit-Limit"] == "2"
    assert 1 <= int(refused.headers["Retry-After"]) <= 60
    assert refused.headers["RateLimit-Reset"] == refused.headers["Retry-After"]
    assert other.post("/api/v1/dsl", json=ask).status_code == 200


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM sqlite_master",
        "SELECT name FROM annotations",
        "PRAGMA user_version",
        "ATTACH '/etc/passwd' AS x",
        "DELETE FROM runs",
        "SELECT load_extension('x')",
        "SELECT randomblob(10) FROM runs",
    ],
)
def test_a_session_can_only_read_its_tables(app: Flask, client: Any, sql: str) -> None:
    tenancy: auth.Tenancy = services(app).tenancy
    limits = Limits(10, 1 << 30, 5, 100, 1)
    with (
        open_session(
            tenancy.databases.path(ACME), _checked("SELECT count(*) FROM runs LAST 1d"), [], limits, Reader()
        ) as session,
        pytest.raises(Exception, match=r"not authorized|prohibited|not allowed"),
    ):
        session.fetch(SqlStatement(sql, {}))


def test_a_count_by_hour_reads_the_covering_index(app: Flask, client: Any, ask: Ask) -> None:
    tenancy: auth.Tenancy = services(app).tenancy
    tenancy.databases.write(ACME, lambda db: _insert_runs(db, 5, 10))
    assert _plan(app, "SELECT count(*) FROM runs EVERY 1h LAST 90d") == [
        "SEARCH runs USING COVERING INDEX runs_started"
    ]
    assert _plan(app, "SELECT avg(duration_ms) FROM runs WHERE job = 'job1' LAST 90d") == [
        "SEARCH jobs USING COVERING INDEX sqlite_autoindex_jobs_1",
        "SEARCH runs USING COVERING INDEX runs_job",
    ]


def _checked(statement: str) -> Plan:
    plan = check(parse(statement), statement, {source.name: source for source in SOURCES})
    assert isinstance(plan, Plan)
    return plan


def _plan(app: Flask, statement: str) -> list[str]:
    tenancy: auth.Tenancy = services(app).tenancy
    plan = _checked(statement)
    window = resolve(plan.window, tenancy.clock())
    query = select(
        plan,
        Scan(window, tenancy.clock(), 1, (plan.interval_ms and Timeline(window, plan.interval_ms, range(1))) or None),
    )
    with tenancy.databases.read(ACME) as db:
        rows = db.execute(f"EXPLAIN QUERY PLAN {query.sql}", query.parameters).fetchall()
    return [re.sub(r" \(.*", "", row[3]) for row in rows if row[3].startswith(("SEARCH", "SCAN"))]
