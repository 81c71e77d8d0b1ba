"""Comparing what is stored for speed with the rows that it is derived from: counters, rollups, the index of messages.

The counters of a job also count runs that were deleted because they are old. They are compared exactly only for a job
that still has its first event, and has no runs from before it; otherwise they must be at least what the rows say.
"""

import sqlite3
from collections.abc import Iterator

from obs.heartbeat.runs import Kind, Status
from obs.heartbeat.store import rollups
from obs.times import DAY_MS

_COUNTERS = ("run_count", "timed_run_count", "total_duration_ms", "failures_in_row")
_COUNT = f"""
    WITH outcomes AS MATERIALIZED (
        SELECT id, job_id, run_status FROM events WHERE run_status IN ({Status.SUCCESS:d}, {Status.FAILED:d})
        AND (kind = {Kind.END:d} OR kind = {Kind.PING:d} AND NOT EXISTS
            (SELECT 1 FROM events AS earlier WHERE earlier.run_id = events.run_id AND earlier.id < events.id))
    ), successes AS MATERIALIZED (
        SELECT job_id, max(id) AS id FROM outcomes WHERE run_status = {Status.SUCCESS:d} GROUP BY job_id
    ), failures AS MATERIALIZED (
        SELECT o.job_id, count(*) AS number FROM outcomes AS o LEFT JOIN successes AS s ON s.job_id = o.job_id
        WHERE o.id > coalesce(s.id, 0) GROUP BY o.job_id
    ), counted AS MATERIALIZED (
        SELECT job_id, count(*) AS runs, count(duration_ms) AS timed, sum(duration_ms) AS total_ms,
            min(started_at) AS first FROM runs GROUP BY job_id
    )
    SELECT jobs.id, jobs.name, coalesce(first, created_at) > created_at - {DAY_MS} AND EXISTS
            (SELECT 1 FROM events WHERE job_id = jobs.id AND received_at = created_at),
        {", ".join(_COUNTERS)}, coalesce(runs, 0), coalesce(timed, 0), coalesce(total_ms, 0), coalesce(number, 0)
    FROM jobs LEFT JOIN counted ON counted.job_id = jobs.id LEFT JOIN failures ON failures.job_id = jobs.id
"""


def differences(db: sqlite3.Connection, *, repair: bool = False) -> list[str]:
    """What differs, as texts. With `repair`, the counters are corrected, and the server does the rest again."""
    return [*_counters(db, repair), *_rollups(db, repair), *_index(db, repair)]


def _counters(db: sqlite3.Connection, repair: bool) -> Iterator[str]:
    for job_id, job, exact, *numbers in db.execute(_COUNT).fetchall():
        for name, stored, counted in zip(_COUNTERS, numbers[:4], numbers[4:], strict=True):
            if stored < counted or (exact and stored != counted):
                yield f"{name} of the job {job} is {stored}, and {counted} by its rows"
                if repair:
                    db.execute(f"UPDATE jobs SET {name} = ? WHERE id = ?", (counted, job_id))


def _rollups(db: sqlite3.Connection, repair: bool) -> Iterator[str]:
    if outdated := rollups.outdated(db):
        yield f"the totals of {outdated} hours and days differ from their runs"
        if repair:
            db.execute("DELETE FROM rolled_up_hours")  # and of days, by a trigger


def _index(db: sqlite3.Connection, repair: bool) -> Iterator[str]:
    up_to, last = db.execute("SELECT up_to, (SELECT ifnull(max(id), 0) FROM events) FROM indexed_messages").fetchone()
    if not 0 <= up_to <= last:
        yield f"the index of messages ends at event {up_to}, and the last event is {last}"
        if repair:
            db.execute("INSERT INTO event_messages (event_messages) VALUES ('delete-all')")
            db.execute("UPDATE indexed_messages SET up_to = 0")
