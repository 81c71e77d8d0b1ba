"""Changes that users make to a job. A change of its schedule has its expectation computed again.

Times are milliseconds since the epoch.
"""

import sqlite3

from obs.heartbeat import pins
from obs.heartbeat.pins import Pin


class NameTakenError(Exception):
    """There is another job with that name."""


def rename(db: sqlite3.Connection, job_id: int, name: str) -> None:
    """Rename the job; its history stays. Raises NameTakenError."""
    taken = db.execute("SELECT 1 FROM jobs WHERE name = ? AND id <> ?", (name, job_id)).fetchone()
    if taken is not None:
        raise NameTakenError(name)
    db.execute("UPDATE jobs SET name = ? WHERE id = ?", (name, job_id))


def set_pin(db: sqlite3.Connection, job_id: int, pin: Pin | None) -> None:
    """Pin a schedule; None returns the job to the learned schedule."""
    db.execute(
        "UPDATE jobs SET pin = ?, learned_event_id = NULL, revision = revision + 1, overdue_since = NULL WHERE id = ?",
        (pins.to_json(pin), job_id),
    )


def pause(db: sqlite3.Connection, job_id: int, now_ms: int, until_ms: int | None) -> None:
    """Pause the job until `until_ms`, or until it is resumed where that is None."""
    db.execute(
        "UPDATE jobs SET paused_at = ?, paused_until = ?, learned_event_id = NULL, revision = revision + 1,"
        " overdue_since = NULL WHERE id = ?",
        (now_ms, until_ms, job_id),
    )


def resume(db: sqlite3.Connection, job_id: int, now_ms: int) -> None:
    """Resume the job: its pause ends now. What was due during the pause gets its full grace period again."""
    db.execute(
        "UPDATE jobs SET paused_until = ?, learned_event_id = NULL, revision = revision + 1"
        " WHERE id = ? AND paused_at IS NOT NULL",
        (now_ms, job_id),
    )


def set_failure_tolerance(db: sqlite3.Connection, job_id: int, failures: int) -> None:
    """Set how many failures in a row open an incident."""
    db.execute("UPDATE jobs SET failure_tolerance = ? WHERE id = ?", (failures, job_id))
