"""A small organization whose results can be worked out by hand, at 2026-06-21T10:00:00Z, and one with rollups."""

import math
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from obs.services import services
from obs.tenancy import auth
from obs.times import DAY_MS, parse_iso
from tests.conftest import ACME, START

Ask = Callable[..., dict[str, Any]]
Write = Callable[[Callable[[sqlite3.Connection], Any]], Any]
LENGTHS = "count(*), count(length(message)), sum(length(message)), avg(length(message)), max(length(message))"
SCOPES = ("heartbeat:write", "query:read", "admin")
"""What a client needs that sends heartbeats, asks, and deletes jobs."""
RUNS = [
    # job, status, started, duration_ms, exit_code, attribution
    (1, 1, "2026-06-21T07:00:00Z", 1_000, 0, 1),
    (1, 2, "2026-06-21T08:00:00Z", 30_000, 3, 1),
    (1, 1, "2026-06-21T09:00:00Z", 3_000, 0, 1),
    (2, 1, "2026-06-21T08:30:00Z", None, None, 2),
    (2, 0, "2026-06-21T09:45:00Z", None, None, 2),
    (3, 3, "2026-06-20T23:30:00Z", None, None, None),
]


def _fill(db: sqlite3.Connection) -> None:
    db.executemany(
        "INSERT INTO attributions (id, host, service, project) VALUES (?, ?, ?, ?)",
        [(1, "db1", "store", "shop"), (2, "web1", None, None)],
    )
    now = parse_iso("2026-06-21T09:50:00Z")
    db.executemany(
        "INSERT INTO jobs (id, name, created_at, last_heartbeat_at, attribution_id, overdue_at, last_event_id, "
        "learned_event_id) VALUES (?, ?, ?, ?, ?, ?, 0, 0)",
        [(1, "backup", now, now, 1, None), (2, "mail", now, now, 2, now), (3, "report/weekly", now, now, None, None)],
    )
    db.executemany(
        "INSERT INTO runs (job_id, status, started_at, duration_ms, exit_code, attribution_id, heartbeat_at, ended_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (job, status, parse_iso(at), ms, code, where, parse_iso(at), None if ms is None else parse_iso(at) + ms)
            for job, status, at, ms, code, where in RUNS
        ],
    )
    db.executemany(
        "INSERT INTO events (job_id, run_id, kind, received_at, time, message) VALUES (?, ?, ?, ?, ?, ?)",
        [
            (1, 2, 1, parse_iso("2026-06-21T08:00:10Z"), 0, "disk 100% full"),
            (1, 2, 2, parse_iso("2026-06-21T08:00:30Z"), 0, None),
            (1, 3, 1, parse_iso("2026-06-21T09:00:01Z"), 0, "Größe: 12_MB\0"),
            (2, None, 3, parse_iso("2026-06-21T08:30:00Z"), 0, None),
        ],
    )
    db.executemany(
        "INSERT INTO annotations (name, title, start_time, end_time, created_at, updated_at) VALUES (?, ?, ?, ?, 0, 0)",
        [
            ("deploy/web", "v1", parse_iso("2026-06-21T07:30:00Z"), None),
            ("incident/db", "slow", parse_iso("2026-06-21T08:00:00Z"), parse_iso("2026-06-21T08:30:00Z")),
            ("deploy/web", "v2", parse_iso("2026-06-21T08:45:00Z"), None),
        ],
    )


@pytest.fixture
def write(app: Flask, client: Any) -> Callable[[Callable[[sqlite3.Connection], Any]], Any]:
    """Writes into the file of ``acme``."""
    tenancy: auth.Tenancy = services(app).tenancy
    return lambda unit: tenancy.databases.write(ACME, unit)


@pytest.fixture
def shop(write: Any) -> None:
    """The small organization's rows."""
    write(_fill)


@pytest.fixture
def ask(client: Any) -> Ask:
    """Runs a statement, checks the status of the response, and returns its JSON."""

    def asked(statement: str, status: int = 200) -> dict[str, Any]:
        response = client.post("/api/v1/dsl", json={"query": statement})
        assert response.status_code == status, response.json
        answer: dict[str, Any] = response.json
        return answer

    return asked


@pytest.fixture
def no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call rolls up everything there is, however slow the machine is."""
    monkeypatch.setattr("obs.heartbeat.service._ROLLING_UP_SECONDS", math.inf)


@pytest.fixture
def history(write: Write, no_hurry: None) -> None:
    """Three days of two jobs, each with a run every ten minutes; every seventh run failed."""
    runs = [
        (job, 2 if number % 7 == 0 else 1, START - 3 * DAY_MS + number * 600_000, 1_000 * job + number)
        for number in range(3 * 144)
        for job in (1, 2)
    ]

    def fill(db: sqlite3.Connection) -> None:
        db.executemany(
            "INSERT INTO jobs (id, name, created_at, last_heartbeat_at, last_event_id) VALUES (?, ?, 0, ?, 0)",
            [(1, "backup", START), (2, "mail", START)],
        )
        db.executemany(
            "INSERT INTO runs (job_id, status, started_at, duration_ms, heartbeat_at) VALUES (?, ?, ?, ?, 0)", runs
        )

    write(fill)


def roll_up_all(app: Flask) -> None:
    services(app).background.tasks["rollups"].run()


def explained(ask: Ask, statement: str) -> list[str]:
    return [row[1] for row in ask(f"EXPLAIN {statement}")["rows"] if row[0] == "rollup"]


def nearly(rows: list[list[Any]], statement: str) -> list[list[Any]]:
    """The rows, whose fractions may differ in the last digits where they are computed in another order."""
    if "stddev" not in statement and "_ms / " not in statement:
        return rows
    return [[pytest.approx(cell, 1e-9) if isinstance(cell, float) else cell for cell in row] for row in rows]


def execute(db: sqlite3.Connection, sql: str) -> None:
    db.execute(sql)


def count_rows(db: sqlite3.Connection, table: str) -> int:
    return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
