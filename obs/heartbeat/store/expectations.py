"""What is learned of jobs, kept with them, and the sweep for what did not come. All times are milliseconds."""

import json
import sqlite3
import zlib
from dataclasses import asdict
from typing import NamedTuple

from obs.heartbeat.overdue import LONGEST_RUN_MS, Expectation
from obs.heartbeat.schedule import VERSION, Fit

HISTORY = 256
"""How many of the last runs the learner looks at."""


class Changed(NamedTuple):
    """A job whose expectation is to be worked out; `pin` is JSON, `fit` what was learned before.

    `anew` is for one without new heartbeats: what is expected of it holds meanwhile.
    """

    job_id: int
    event_id: int
    learned_event_id: int | None
    revision: int
    anew: bool
    pin: str | None
    paused_at: int | None
    paused_until: int | None
    fit: Fit | None


def changed_jobs(db: sqlite3.Connection, limit: int) -> list[Changed]:
    """Jobs with heartbeats that nothing was learned from yet, the longest waiting first, then those to learn anew."""
    # Limited before the join: sorting must not carry the fits of all jobs.
    rows = db.execute(
        "SELECT found.*, fits.fit FROM ("
        " SELECT id, last_event_id, learned_event_id, revision, last_event_id IS learned_event_id AS anew, pin,"
        " paused_at, paused_until FROM jobs"
        " WHERE last_event_id IS NOT learned_event_id OR revision <> learned_revision"
        " ORDER BY anew, learned_event_id LIMIT ?2"
        ") AS found LEFT JOIN fits ON fits.job_id = found.id AND fits.version = ?1"
        " ORDER BY anew, learned_event_id",
        (VERSION, limit),
    )
    return [
        Changed(
            job_id=row[0],
            event_id=row[1],
            learned_event_id=row[2],
            revision=row[3],
            anew=bool(row[4]),
            pin=row[5],
            paused_at=row[6],
            paused_until=row[7],
            fit=None if row[8] is None else Fit.from_json(_unpacked(row[8])),
        )
        for row in rows
    ]


def history(db: sqlite3.Connection, job_id: int) -> tuple[list[int], list[int]]:
    """Of the last HISTORY runs of a job: the heartbeats by which they were known, ascending, and the durations."""
    rows = db.execute(
        "SELECT heartbeat_at, duration_ms FROM runs WHERE job_id = ? ORDER BY started_at DESC LIMIT ?",
        (job_id, HISTORY),
    ).fetchall()
    return sorted(row[0] for row in rows), [row[1] for row in reversed(rows) if row[1] is not None]


def keep(db: sqlite3.Connection, changed: Changed, expected: Expectation) -> None:
    """Keep what was learned, unless a heartbeat or a change has come since: then it will be learned anew."""
    kept = db.execute(
        "UPDATE jobs SET learned_event_id = last_event_id, learned_revision = revision,"
        " expected_interval_ms = ?1, next_expected = ?2,"
        " overdue_from = ?3, lateness_ms = ?4, overrun_after_ms = ?5, lost_after_ms = ?6,"
        " too_often_since = CASE WHEN ?7 IS NULL THEN too_often_since"
        " WHEN ?7 THEN coalesce(too_often_since, last_heartbeat_at) END"
        " WHERE id = ?8 AND last_event_id = ?9 AND learned_event_id IS ?10 AND revision = ?11",
        (
            expected.expected_interval_ms,
            expected.next_expected,
            expected.overdue_from,
            expected.lateness_ms,
            expected.overrun_after_ms,
            expected.lost_after_ms,
            expected.too_often,
            changed.job_id,
            changed.event_id,
            changed.learned_event_id,
            changed.revision,
        ),
    )
    if kept.rowcount == 1 and expected.fit is not changed.fit:
        db.execute(
            "INSERT OR REPLACE INTO fits (job_id, version, fit, learned) VALUES (?, ?, ?, ?)",
            (changed.job_id, VERSION, _packed(expected.fit.to_json()), json.dumps(asdict(expected.learned))),
        )


def flag_overdue(db: sqlite3.Connection, now_ms: int) -> int:
    """Flag each job whose heartbeat has become overdue; how many were."""
    return db.execute(
        "UPDATE jobs SET overdue_since = overdue_from"
        " WHERE overdue_from <= ? AND learned_event_id = last_event_id AND overdue_since IS NULL"
        " AND (paused_at IS NULL OR paused_until IS NOT NULL)",
        (now_ms,),
    ).rowcount


def flag_overrunning(db: sqlite3.Connection, now_ms: int) -> int:
    """Flag each open run that has gone on for longer than its job usually takes; how many were."""
    return db.execute(
        "UPDATE runs SET overrunning_since = started_at +"
        " (SELECT overrun_after_ms FROM jobs WHERE jobs.id = runs.job_id)"
        " WHERE status = 0 AND overrunning_since IS NULL AND started_at +"
        " (SELECT overrun_after_ms FROM jobs WHERE jobs.id = runs.job_id) <= ?",
        (now_ms,),
    ).rowcount


def lose_runs(db: sqlite3.Connection, now_ms: int) -> int:
    """Give up each open run that cannot be coming back; how many were."""
    rows = db.execute(
        "UPDATE runs SET status = 3 WHERE status = 0 AND started_at +"
        " coalesce((SELECT lost_after_ms FROM jobs WHERE jobs.id = runs.job_id), ?) <= ? RETURNING job_id",
        (LONGEST_RUN_MS, now_ms),
    ).fetchall()
    db.executemany(
        "UPDATE jobs SET last_outcome = 3, lost_since = coalesce(lost_since, ?) WHERE id = ?",
        {(now_ms, row[0]) for row in rows},
    )
    return len(rows)


def excuse(db: sqlite3.Connection, start: int, end: int) -> int:
    """Let no job that is not yet overdue become so between `start` and its lateness after `end`; how many it concerns.

    For planned silence, and for the time in which the service itself was down or its clock was wrong.
    """
    return db.execute(
        "UPDATE jobs SET overdue_from = ?2 + coalesce(lateness_ms, 0)"
        " WHERE overdue_from >= ?1 AND overdue_from < ?2 + coalesce(lateness_ms, 0) AND overdue_since IS NULL",
        (start, end),
    ).rowcount


def learn_anew(db: sqlite3.Connection) -> int:
    """See to it that jobs without a fit of this version of the method are learned anew; how many they are.

    What was expected of them holds until they are. One that is overdue waits for its next heartbeat, so that a new
    version does not end the spell.
    """
    return db.execute(
        "UPDATE jobs SET revision = revision + 1"
        " WHERE learned_event_id IS NOT NULL AND overdue_since IS NULL AND revision = learned_revision"
        " AND NOT EXISTS (SELECT 1 FROM fits WHERE fits.job_id = jobs.id AND fits.version = ?)",
        (VERSION,),
    ).rowcount


def next_moment(db: sqlite3.Connection, now_ms: int) -> int | None:
    """When the sweep has something to do again, unless a heartbeat comes first; None for never."""
    moment: int | None = db.execute(
        """
        SELECT min(moment) FROM (
            SELECT min(overdue_from) AS moment FROM jobs
                WHERE learned_event_id = last_event_id AND overdue_since IS NULL
                AND (paused_at IS NULL OR paused_until IS NOT NULL)
            UNION ALL
            SELECT min(runs.started_at + CASE WHEN runs.overrunning_since IS NULL AND jobs.overrun_after_ms IS NOT NULL
                                              THEN min(jobs.overrun_after_ms, coalesce(jobs.lost_after_ms, :longest))
                                              ELSE coalesce(jobs.lost_after_ms, :longest) END)
                FROM runs JOIN jobs ON jobs.id = runs.job_id WHERE runs.status = 0
            UNION ALL SELECT min(paused_until) FROM jobs WHERE paused_until > :now
            UNION ALL SELECT min(end_time) FROM maintenance_windows WHERE end_time > :now
        )
        """,
        {"longest": LONGEST_RUN_MS, "now": now_ms},
    ).fetchone()[0]
    return moment


def delete_events_before(db: sqlite3.Connection, cutoff: int, limit: int) -> int:
    """Delete at most `limit` events that arrived before `cutoff`; how many there were."""
    return db.execute(
        "DELETE FROM events WHERE id IN (SELECT id FROM events WHERE received_at < ?"
        " AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = events.run_id AND runs.status = 0)"
        " ORDER BY received_at LIMIT ?)",
        (cutoff, limit),
    ).rowcount


def delete_runs_before(db: sqlite3.Connection, cutoff: int, limit: int) -> int:
    """Delete at most `limit` runs that were over before `cutoff`; how many there were."""
    return db.execute(
        "DELETE FROM runs WHERE id IN (SELECT id FROM runs WHERE started_at < ?1 AND status <> 0"
        " AND coalesce(ended_at, started_at) < ?1 ORDER BY started_at LIMIT ?2)",
        (cutoff, limit),
    ).rowcount


def _packed(text: str) -> bytes:
    return zlib.compress(text.encode(), level=1)


def _unpacked(packed: bytes) -> str:
    return zlib.decompress(packed).decode()
