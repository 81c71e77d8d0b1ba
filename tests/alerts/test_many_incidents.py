"""Thousands of jobs that fall silent together do not keep heartbeats waiting."""

import sqlite3
import time
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from obs.services import services
from obs.storage.databases import Databases
from obs.times import DAY_MS
from tests.conftest import ACME, Clock, KeyClient

JOBS = 10_000
MOST_SECONDS = 0.05  # of processor time: other processes load the machine


@pytest.mark.slow
def test_no_transaction_is_long_when_many_jobs_become_overdue_or_report_again(
    app: Flask, client: KeyClient, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    databases, now_ms = services(app).tenancy.databases, clock()

    def add_jobs(db: sqlite3.Connection) -> None:
        db.executemany(
            "INSERT INTO jobs (name, created_at, last_heartbeat_at, last_event_id, learned_event_id, expected_at,"
            " overdue_at) VALUES (?1, ?2, ?2, 1, 1, ?3, ?3)",
            [(f"job-{number}", now_ms - DAY_MS, now_ms) for number in range(JOBS)],
        )

    databases.write(ACME, add_jobs)
    held: list[float] = []
    write = Databases.write

    def measured(self: Databases, org: Any, unit: Callable[[sqlite3.Connection], Any]) -> Any:
        def timed(db: sqlite3.Connection) -> Any:
            started = time.thread_time()
            try:
                return unit(db)
            finally:
                held.append(time.thread_time() - started)

        return write(self, org, timed)

    def count() -> int:
        with databases.read(ACME) as db:
            return int(db.execute("SELECT count(*) FROM incidents WHERE ended_at IS NULL").fetchone()[0])

    monkeypatch.setattr(Databases, "write", measured)
    clock.advance(seconds=1)
    services(app).background.tasks["sweep"].run()
    assert count() == JOBS
    assert max(held) < MOST_SECONDS
    write(databases, ACME, lambda db: db.execute("UPDATE jobs SET overdue_since = NULL, overdue_at = NULL"))
    held.clear()
    clock.advance(days=1)
    services(app).background.tasks["sweep"].run()
    services(app).background.sweeper.excuse_downtime()
    services(app).background.tasks["sweep"].run()
    assert count() == 0
    assert max(held) < MOST_SECONDS
