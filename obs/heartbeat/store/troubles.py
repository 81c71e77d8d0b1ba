"""What is wrong with jobs now, as far as the sweep has flagged it."""

import sqlite3
from typing import NamedTuple

from obs.heartbeat.source import PAUSED_SQL


class Trouble(NamedTuple):
    """A job in trouble. `kind` is overdue, failing, lost, overrunning or too_often; times are ms since the epoch."""

    job_id: int
    job: str
    kind: str
    since: int


_TROUBLES = f"""
    SELECT id, name, 'overdue', overdue_since FROM jobs WHERE overdue_since IS NOT NULL AND NOT {PAUSED_SQL}
    UNION ALL
    SELECT id, name, 'failing', failing_since FROM jobs
        WHERE failing_since IS NOT NULL AND failures_in_row >= failure_tolerance AND NOT {PAUSED_SQL}
    UNION ALL
    SELECT id, name, 'lost', lost_since FROM jobs WHERE lost_since IS NOT NULL AND NOT {PAUSED_SQL}
    UNION ALL
    SELECT jobs.id, jobs.name, 'overrunning', min(runs.overrunning_since) FROM runs JOIN jobs ON jobs.id = runs.job_id
        WHERE runs.status = 0 AND runs.overrunning_since IS NOT NULL AND NOT {PAUSED_SQL} GROUP BY jobs.id
    UNION ALL
    SELECT id, name, 'too_often', too_often_since FROM jobs WHERE too_often_since IS NOT NULL AND NOT {PAUSED_SQL}
"""


def troubles(db: sqlite3.Connection, now_ms: int) -> list[Trouble]:
    """All troubles of jobs that are not paused."""
    return [Trouble(*row) for row in db.execute(_TROUBLES, {"now": now_ms})]


def last_heartbeat(db: sqlite3.Connection, job_id: int) -> int | None:
    """When the job was last heard of, in milliseconds since the epoch; None if it is gone."""
    row = db.execute("SELECT last_heartbeat_at FROM jobs WHERE id = ?", (job_id,)).fetchone()
    return None if row is None else row[0]
