"""Statements that change a limited number of rows choose the same rows whatever way SQLite finds them.

Two copies of a file on which the same statements run stay the same only if that is so.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import migrations.tenant
from obs.alerts.store import incidents as alerts, outbox
from obs.annotations import store as annotations
from obs.heartbeat.runs import Heartbeat, Kind
from obs.heartbeat.store import expectations, jobs, rollups, upkeep
from obs.heartbeat.store.record import JobHeartbeat, record
from obs.storage.connection import open_writer
from obs.storage.file import migrate
from obs.tenancy import store as tenancy
from tests.conftest import START

DAY_MS = 86_400_000
LATER = START + 40 * DAY_MS
MUCH_LATER = START + 10_000 * DAY_MS
IDS = list(range(1, 9))

# All rows have the same times, so that nothing but their ids puts them into an order.
FILLED = f"""
    UPDATE jobs SET learned_event_id = last_event_id, overdue_at = {START}, overrun_after_ms = 1;
    INSERT INTO annotations (name, title, start_time, created_at, updated_at, by_service)
        SELECT 'deploy', name, {START}, {START}, {START}, 0 FROM jobs;
    INSERT INTO incidents (job_id, kind, started_at, ended_at, annotation_id)
        SELECT id, 0, {START}, {START}, id FROM jobs;
    INSERT INTO attributions (host, last_used_at) SELECT name, {START} FROM jobs;
    INSERT INTO rolled_up_hours (hour) SELECT id FROM jobs;
    INSERT INTO unknown_times (start_time, end_time) SELECT {START} - id, {START} FROM jobs;
    INSERT INTO deliveries (channel_id, channel, state, reminder, created_at)
        SELECT id, name, 'sent', 0, {START} FROM jobs;
    INSERT INTO audit (time, actor, action, object, address) SELECT {START}, '', '', name, '' FROM jobs;
"""

Step = Callable[[sqlite3.Connection, int], int]
STEPS: dict[str, tuple[Step, list[str]]] = {
    "overdue, overrunning and lost": (lambda db, limit: expectations.flag(db, limit, LATER) // 3, []),  # of each
    "old events": (lambda db, limit: upkeep.delete_before(db, limit, LATER), []),
    "old runs": (lambda db, limit: upkeep.delete_before(db, limit, LATER), ["events"]),
    "old unknown times": (lambda db, limit: upkeep.delete_before(db, limit, MUCH_LATER), ["events", "runs"]),
    "old attributions": (lambda db, limit: upkeep.delete_before(db, limit, LATER), ["events", "runs"]),
    "events of jobs": (lambda db, limit: jobs.delete_jobs(db, limit, IDS), []),
    "runs of jobs": (lambda db, limit: jobs.delete_jobs(db, limit, IDS), ["events"]),
    "jobs": (lambda db, limit: jobs.delete_jobs(db, limit, IDS), ["events", "runs"]),
    "rolled up hours": (lambda db, limit: rollups.forget_before(db, 10, limit), ["runs"]),
    "incidents": (lambda db, limit: alerts.delete_before(db, limit, LATER), []),
    "deliveries": (lambda db, limit: outbox.delete_before(db, limit, LATER), []),
    "annotations": (lambda db, limit: annotations.delete_past_retention(db, limit, MUCH_LATER), []),
    "audit log": (lambda db, limit: tenancy.delete_audit_before(db, limit, LATER), []),
}


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    path = tmp_path / "filled.db"
    migrate(path, migrations.tenant.migrations, 5)
    with closing(open_writer(path, 5)) as db:
        db.execute("BEGIN")
        for number in IDS:
            record(db, JobHeartbeat(f"job-{number}", Heartbeat(Kind.PING, START)), START)
        for number in IDS:
            record(db, JobHeartbeat(f"job-{number}", Heartbeat(Kind.START, START)), START)
        db.execute("COMMIT")
        db.executescript(FILLED)
    return path


def _rows_after(path: Path, step: Step, emptied: list[str], *, reverse: bool) -> list[str]:
    """All rows of the file after the step has changed 3 rows, in a transaction that is undone."""
    with closing(open_writer(path, 5)) as db:
        db.execute(f"PRAGMA reverse_unordered_selects = {reverse:d}")
        db.execute("BEGIN")
        for table in emptied:
            db.execute(f"DELETE FROM {table}")
        assert step(db, 3) == 3
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return sorted(f"{table} {tuple(row)}" for table in tables for row in db.execute(f"SELECT * FROM {table}"))


@pytest.mark.parametrize("name", STEPS)
def test_the_same_rows_are_changed_in_whatever_order_they_are_found(filled: Path, name: str) -> None:
    step, emptied = STEPS[name]
    assert _rows_after(filled, step, emptied, reverse=True) == _rows_after(filled, step, emptied, reverse=False)
