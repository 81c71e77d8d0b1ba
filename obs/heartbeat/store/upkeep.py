"""Upkeep of events and runs: the full-text index of messages, and deleting what is past its retention."""

import sqlite3

from obs.heartbeat.runs import Status


def has_unindexed(db: sqlite3.Connection) -> bool:
    """Whether there are events that are not indexed yet."""
    row = db.execute("SELECT 1 FROM events WHERE id > (SELECT up_to FROM indexed_messages) LIMIT 1").fetchone()
    return row is not None


def index_messages(db: sqlite3.Connection, limit: int) -> int:
    """Index the messages of the next `limit` events, and note the use of attributions; returns how many there were."""
    seen = "SELECT * FROM events WHERE id > (SELECT up_to FROM indexed_messages) ORDER BY id LIMIT ?"
    db.execute(
        f"INSERT INTO event_messages (rowid, message) SELECT id, message FROM ({seen}) WHERE message IS NOT NULL",
        (limit,),
    )
    db.execute(
        "UPDATE attributions SET last_used_at = max(coalesce(last_used_at, 0), used.at)"
        f" FROM (SELECT attribution_id, max(received_at) AS at FROM ({seen}) GROUP BY attribution_id) AS used"
        " WHERE used.attribution_id = attributions.id",
        (limit,),
    )
    last, count = db.execute(f"SELECT max(id), count(*) FROM ({seen})", (limit,)).fetchone()
    if count:
        db.execute("UPDATE indexed_messages SET up_to = ?", (last,))
    return int(count)


def delete_events_before(db: sqlite3.Connection, limit: int, cutoff: int) -> int:
    """Delete at most `limit` events that arrived before `cutoff`, but none of an open run; returns how many."""
    return db.execute(
        "DELETE FROM events WHERE id IN (SELECT id FROM events WHERE received_at < ?"
        f" AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = events.run_id AND runs.status = {Status.OPEN:d})"
        " ORDER BY received_at LIMIT ?)",
        (cutoff, limit),
    ).rowcount


def delete_runs_before(db: sqlite3.Connection, limit: int, cutoff: int) -> int:
    """Delete at most `limit` runs that ended before `cutoff`; returns how many."""
    return db.execute(
        "DELETE FROM runs WHERE id IN (SELECT id FROM runs"
        f" WHERE started_at < ?1 AND status <> {Status.OPEN:d}"
        " AND coalesce(ended_at, started_at) < ?1 ORDER BY started_at LIMIT ?2)",
        (cutoff, limit),
    ).rowcount
