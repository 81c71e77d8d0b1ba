"""Reading jobs, runs and timelines. Times and durations are milliseconds; times since the epoch."""

import json
import sqlite3
from dataclasses import dataclass
from typing import Any

from obs.heartbeat.runs import KINDS, STATUSES
from obs.heartbeat.source import AVERAGE_DURATION_SQL, OVERDUE_SQL, OVERRUNNING_SQL, PAUSED_SQL, STATE_SQL


@dataclass(frozen=True, slots=True)
class Job:
    """A job as of a moment. `status` is the loudest state that holds."""

    name: str
    status: str
    last_outcome: str | None
    overdue: bool
    overrunning: bool
    last_heartbeat_at: int
    expected_interval_ms: int | None
    next_expected: int | None
    overdue_from: int | None
    overdue_since: int | None
    avg_duration_ms: float | None
    run_count: int
    host: str | None
    service: str | None
    project: str | None
    created_at: int
    learned: dict[str, Any] | None
    pin: dict[str, Any] | None
    paused: bool
    paused_until: int | None
    failure_tolerance: int
    failures_in_row: int


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a job."""

    id: int
    run_id: str | None
    job: str
    status: str
    started_at: int
    ended_at: int | None
    duration_ms: int | None
    exit_code: int | None
    late_ms: int | None
    host: str | None
    service: str | None
    project: str | None


@dataclass(frozen=True, slots=True)
class Event:
    """A heartbeat on a timeline."""

    id: int
    kind: str
    time: int
    received_at: int
    message: str | None


_JOB = f"""
    SELECT jobs.name, {STATE_SQL}, jobs.last_outcome, {OVERDUE_SQL}, {OVERRUNNING_SQL}, jobs.last_heartbeat_at,
           jobs.expected_interval_ms, jobs.next_expected, jobs.overdue_from, jobs.overdue_since,
           {AVERAGE_DURATION_SQL}, jobs.run_count, a.host, a.service, a.project, jobs.created_at,
           fits.learned, jobs.pin, {PAUSED_SQL}, jobs.paused_until, jobs.failure_tolerance, jobs.failures_in_row
    FROM jobs
    LEFT JOIN attributions AS a ON a.id = jobs.attribution_id
    LEFT JOIN fits ON fits.job_id = jobs.id
"""
_RUN = """
    SELECT runs.id, runs.run_id, jobs.name, runs.status, runs.started_at, runs.ended_at, runs.duration_ms,
           runs.exit_code, runs.late_ms, a.host, a.service, a.project
    FROM runs JOIN jobs ON jobs.id = runs.job_id LEFT JOIN attributions AS a ON a.id = runs.attribution_id
"""


def jobs(db: sqlite3.Connection, now_ms: int, *, q: str | None, after: str | None, limit: int) -> list[Job]:
    """Jobs by name, from the one after `after` on, whose name holds `q` (letters A to Z in either case)."""
    rows = db.execute(
        f"{_JOB} WHERE (:after IS NULL OR jobs.name > :after)"
        " AND (:q IS NULL OR instr(lower(jobs.name), lower(:q)) > 0) ORDER BY jobs.name LIMIT :limit",
        {"now": now_ms, "q": q, "after": after, "limit": limit},
    )
    return [_job(row) for row in rows]


def job(db: sqlite3.Connection, name: str, now_ms: int) -> Job | None:
    """The job of that name, or None."""
    row = db.execute(f"{_JOB} WHERE jobs.name = :name", {"now": now_ms, "name": name}).fetchone()
    return None if row is None else _job(row)


def job_id(db: sqlite3.Connection, name: str) -> int | None:
    """The id of the job of that name, or None."""
    row = db.execute("SELECT id FROM jobs WHERE name = ?", (name,)).fetchone()
    return None if row is None else row[0]


def runs_of(db: sqlite3.Connection, job_id: int, *, before: tuple[int, int] | None, limit: int) -> list[Run]:
    """The runs of a job, newest start first, from the one before (started_at, id) `before` on."""
    rows = db.execute(
        f"{_RUN} WHERE runs.job_id = ? AND (runs.started_at, runs.id) < (?, ?)"
        " ORDER BY runs.started_at DESC, runs.id DESC LIMIT ?",
        (job_id, *(before or (2**63 - 1, 2**63 - 1)), limit),
    )
    return [_run(row) for row in rows]


def run(db: sqlite3.Connection, number: int) -> Run | None:
    """The run of that number, or None."""
    row = db.execute(f"{_RUN} WHERE runs.id = ?", (number,)).fetchone()
    return None if row is None else _run(row)


def timeline(db: sqlite3.Connection, run_number: int) -> list[Event]:
    """The heartbeats of a run in the order of their times."""
    rows = db.execute(
        "SELECT id, kind, time, received_at, message FROM events WHERE run_id = ? ORDER BY time, id", (run_number,)
    )
    return [_event(row) for row in rows]


def loose_events(db: sqlite3.Connection, job_id: int, limit: int) -> list[Event]:
    """The latest heartbeats of a job that belong to no run, newest first."""
    rows = db.execute(
        "SELECT id, kind, time, received_at, message FROM events WHERE job_id = ? AND run_id IS NULL"
        " ORDER BY received_at DESC, id DESC LIMIT ?",
        (job_id, limit),
    )
    return [_event(row) for row in rows]


def delete_runs(db: sqlite3.Connection, job_id: int, limit: int) -> int:
    """Delete at most `limit` heartbeats of a job, then its runs; 0 when none is left."""
    events = "DELETE FROM events WHERE id IN (SELECT id FROM events WHERE job_id = ? LIMIT ?)"
    deleted = db.execute(events, (job_id, limit)).rowcount
    if deleted:
        return deleted
    return db.execute(
        "DELETE FROM runs WHERE id IN (SELECT id FROM runs WHERE job_id = ? LIMIT ?)", (job_id, limit)
    ).rowcount


def delete_job(db: sqlite3.Connection, job_id: int) -> bool:
    """Delete a job with what is left of it; False if it is gone already."""
    return db.execute("DELETE FROM jobs WHERE id = ?", (job_id,)).rowcount == 1


def _job(row: Any) -> Job:
    values = list(row)
    values[2] = None if row[2] is None else STATUSES[row[2]]
    values[3], values[4], values[18] = bool(row[3]), bool(row[4]), bool(row[18])
    values[16] = None if row[16] is None else json.loads(row[16])
    values[17] = None if row[17] is None else json.loads(row[17])
    if not values[18]:
        values[19] = None
    return Job(*values)


def _run(row: Any) -> Run:
    values = list(row)
    values[3] = STATUSES[row[3]]
    return Run(*values)


def _event(row: Any) -> Event:
    return Event(row[0], KINDS[row[1]], *row[2:])
