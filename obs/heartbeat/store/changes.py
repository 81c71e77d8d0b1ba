"""What a person changes of a job. Each change has what is expected of the job worked out anew."""

import json
import sqlite3
from typing import Any


class NameTakenError(Exception):
    """There is another job of that name."""


def rename(db: sqlite3.Connection, job_id: int, name: str) -> None:
    """Give the job another name; its history stays. Raises NameTakenError."""
    taken = db.execute("SELECT 1 FROM jobs WHERE name = ? AND id <> ?", (name, job_id)).fetchone()
    if taken is not None:
        raise NameTakenError(name)
    db.execute("UPDATE jobs SET name = ? WHERE id = ?", (name, job_id))


def pin(db: sqlite3.Connection, job_id: int, said: dict[str, Any] | None) -> None:
    """Pin a schedule (as `obs.heartbeat.pins` takes it), or give it back to the learner with None."""
    stored = None if said is None else json.dumps(said)
    db.execute(
        "UPDATE jobs SET pin = ?, learned_event_id = NULL, revision = revision + 1, overdue_since = NULL WHERE id = ?",
        (stored, job_id),
    )


def pause(db: sqlite3.Connection, job_id: int, now_ms: int, until_ms: int | None) -> None:
    """Pause the job until then, or until it is resumed when None. Times are milliseconds since the epoch."""
    db.execute(
        "UPDATE jobs SET paused_at = ?, paused_until = ?, learned_event_id = NULL, revision = revision + 1,"
        " overdue_since = NULL WHERE id = ?",
        (now_ms, until_ms, job_id),
    )


def resume(db: sqlite3.Connection, job_id: int, now_ms: int) -> None:
    """Resume the job: a pause that ends now. What was due meanwhile has its whole lateness once more."""
    db.execute(
        "UPDATE jobs SET paused_until = ?, learned_event_id = NULL, revision = revision + 1"
        " WHERE id = ? AND paused_at IS NOT NULL",
        (now_ms, job_id),
    )


def tolerate(db: sqlite3.Connection, job_id: int, failures: int) -> None:
    """How many failures in a row make an incident."""
    db.execute("UPDATE jobs SET failure_tolerance = ? WHERE id = ?", (failures, job_id))
