"""Upkeep of what is stored: indexing, deleting what is old, correcting times, and comparing what is derived."""

import json
import sqlite3
from collections.abc import Mapping

from obs.heartbeat.runs import FUTURE_MS, Kind, Status
from obs.heartbeat.schedule import Memory
from obs.heartbeat.store import rollups
from obs.heartbeat.store.record import RECENT_RUNS
from obs.times import DAY_MS, MINUTE_MS


def index_messages(db: sqlite3.Connection, limit: int) -> int:
    """Index the messages of the next `limit` events, and note the use of attributions; returns how many there were."""
    seen = "SELECT * FROM events WHERE id > (SELECT up_to FROM indexed_messages) ORDER BY id LIMIT ?"
    add = "INSERT INTO event_messages (rowid, message)"
    db.execute(f"{add} SELECT id, message FROM ({seen}) WHERE message IS NOT NULL", (limit,))
    used = f"SELECT attribution_id, max(received_at) AS at FROM ({seen}) GROUP BY attribution_id"
    note = "UPDATE attributions SET last_used_at = max(coalesce(last_used_at, 0), used.at)"
    db.execute(f"{note} FROM ({used}) AS used WHERE used.attribution_id = attributions.id", (limit,))
    last, count = db.execute(f"SELECT max(id), count(*) FROM ({seen})", (limit,)).fetchone()
    if count:
        db.execute("UPDATE indexed_messages SET up_to = ?", (last,))
    return int(count)


_OLD = (  # events, runs, maintenance windows, unknown times, and the names in attributions
    "DELETE FROM events WHERE id IN (SELECT id FROM events WHERE received_at < ?1"  # those of an open run stay
    f" AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = events.run_id AND runs.status = {Status.OPEN:d})"
    " ORDER BY received_at, id LIMIT ?2)",
    f"DELETE FROM runs WHERE id IN (SELECT id FROM runs WHERE started_at < ?1 AND status <> {Status.OPEN:d}"
    " AND coalesce(ended_at, started_at) < ?1 ORDER BY started_at, id LIMIT ?2)",
    "DELETE FROM maintenance_windows WHERE id IN"  # a trigger keeps their times as unknown times for another year
    " (SELECT id FROM maintenance_windows WHERE cron IS NULL AND end_time < ?1 ORDER BY end_time, id LIMIT ?2)",
    f"DELETE FROM unknown_times WHERE rowid IN"
    f" (SELECT rowid FROM unknown_times WHERE end_time < ?1 - {365 * DAY_MS} ORDER BY end_time, rowid LIMIT ?2)",
    # The rows of attributions stay: to delete one, SQLite would search all events for its id.
    "UPDATE attributions SET host = NULL, service = NULL, project = NULL, last_used_at = NULL"
    " WHERE id IN (SELECT id FROM attributions WHERE last_used_at < ?1"
    " AND id NOT IN (SELECT attribution_id FROM jobs WHERE attribution_id IS NOT NULL"
    " UNION ALL SELECT attribution_id FROM events WHERE attribution_id IS NOT NULL"
    " AND id > (SELECT up_to FROM indexed_messages)) ORDER BY id LIMIT ?2)",
)


def delete_before(db: sqlite3.Connection, limit: int, cutoff: int) -> int:
    """Delete at most `limit` rows of the first kind in _OLD that has any from before `cutoff`. Returns how many."""
    return next(filter(None, (db.execute(deletion, (cutoff, limit)).rowcount for deletion in _OLD)), 0)


# The last event that was recorded before the wall clock came into doubt. Its id separates the events since from older
# ones with the same times. Those of the last minute may have been recorded after the step. (The plus has SQLite read
# from the newest event, not sort all of them.)
_AFTER = """
    SELECT id FROM events WHERE (+received_at <= :start_ms OR +received_at > :end_ms) AND +received_at < :now_ms - 60000
    ORDER BY id DESC LIMIT 1
"""
_WRONG = (  # those that arrived since the clock was read are not
    f"(id > :after AND received_at > :start_ms AND received_at <= :end_ms OR received_at > :latest_ms + {FUTURE_MS})"
)
# A time that the client sent was wrong too if it is close to what the service's clock showed.
_TIME_IS_WRONG = f"(abs(time - received_at) * 2 < abs(:step_ms) OR time > :latest_ms + {FUTURE_MS})"
_TIMES = ("started_at", "ended_at", "heartbeat_at", "overrunning_since")
_RUN = ", ".join(f"{column} = min({column} + :step_ms, :latest_ms)" for column in _TIMES)
_LAST = ("last_heartbeat_at", "last_success_at", "last_failure_at")
_PAST = (*_LAST, "created_at", "paused_at", "schedule_changed_at", "overdue_since", "failing_since", "lost_since")
_MEMORIES = "SELECT '{0}' AS name, rowid AS place, job_id, memory FROM {0}"
_REMEMBERED = " UNION ALL ".join(map(_MEMORIES.format, ("memories", "host_schedules")))
_WRONG_HEARTBEATS = (
    f"SELECT name, place, memory, json_group_array(heartbeat_at) FROM runs JOIN ({_REMEMBERED}) USING (job_id)"
    f" WHERE id IN (SELECT run_id FROM events WHERE {_WRONG} AND {_TIME_IS_WRONG}) GROUP BY name, place"
)
_STATEMENTS = (
    # An open run goes on: the time since its start is the time that has passed.
    f"UPDATE runs SET {_RUN} WHERE :step_ms <> 0 AND status = {Status.OPEN:d}"
    f" AND NOT EXISTS (SELECT 1 FROM events WHERE run_id = runs.id AND {_WRONG})",
    f"UPDATE runs SET {_RUN} WHERE id IN (SELECT run_id FROM events WHERE {_WRONG} AND {_TIME_IS_WRONG})",
    f"DELETE FROM fits WHERE job_id IN (SELECT job_id FROM events WHERE {_WRONG}"
    f" UNION SELECT id FROM jobs WHERE last_heartbeat_at > :latest_ms + {FUTURE_MS})",
    f"UPDATE events SET time = CASE WHEN {_TIME_IS_WRONG} THEN min(time + :step_ms, :latest_ms) ELSE time END,"
    f" received_at = min(received_at + :step_ms, :latest_ms) WHERE {_WRONG}",
    "UPDATE jobs SET last_heartbeat_at = latest.time, changed = 0"
    " FROM (SELECT job_id, max(time) AS time FROM events WHERE id > :after GROUP BY +job_id) AS latest"
    " WHERE latest.job_id = jobs.id",
    f"UPDATE jobs SET {', '.join(f'{column} = min({column}, :latest_ms)' for column in _PAST)},"
    " paused_until = paused_until - max(0, paused_at - :latest_ms)"
    f" WHERE max({', '.join(f'coalesce({column}, 0)' for column in _PAST)}) > :latest_ms",
    "UPDATE jobs SET expected_at = expected_at + :step_ms, overdue_at = overdue_at + :step_ms"
    " WHERE :step_ms <> 0 AND overdue_since IS NULL",
    "UPDATE host_schedules SET expected_at = expected_at + :step_ms, overdue_at = overdue_at + :step_ms",
    "UPDATE unknown_times SET end_time = :latest_ms WHERE end_time > :latest_ms",
    "UPDATE jobs SET revision = revision + 1, waits = NULL"  # false alarms of a wrong clock
    " WHERE EXISTS (SELECT 1 FROM json_each(waits) WHERE max(value ->> 1, value ->> 2) > :latest_ms)",
)


def correct_times(db: sqlite3.Connection, correction: Mapping[str, int]) -> None:
    """`correction` has the fields of `obs.tenancy.clock.Reading`, and `latest_ms`: times after that are wrong.

    Jobs with wrong heartbeats are learned again from the others that they remember, and from the corrected runs.
    """
    after = db.execute(_AFTER, correction).fetchone() if correction["step_ms"] else (2**63 - 1,)
    values = {**correction, "after": 0 if after is None else after[0]}
    for table, place, memory, wrong in db.execute(_WRONG_HEARTBEATS, values).fetchall():
        kept = Memory().add(set(Memory.decode(memory).times).difference(json.loads(wrong)))
        change = f"UPDATE {table} SET memory = :kept" if kept.times else f"DELETE FROM {table}"
        db.execute(f"{change} WHERE rowid = :place", {"place": place, "kept": kept.encode()})
    for statement in _STATEMENTS:
        db.execute(statement, values)


# The counters of a job also count runs that were deleted because they are old. They are compared exactly only for a job
# that still has its first event, and has no runs from before it; otherwise they must be at least what the rows say.
# Which of the outcomes that came late count depends on what was known when they came.
_COUNTERS = ("run_count", "timed_run_count", "failures_in_row")
_COUNT = f"""
    WITH outcomes AS MATERIALIZED (
        SELECT id, job_id, run_status, time < received_at - {MINUTE_MS} AS is_late FROM events
        WHERE run_status IN ({Status.SUCCESS:d}, {Status.FAILED:d})
        AND (kind = {Kind.END:d} OR kind = {Kind.PING:d} AND NOT EXISTS
            (SELECT 1 FROM events AS earlier WHERE earlier.run_id = events.run_id AND earlier.id < events.id))
    ), successes AS MATERIALIZED (
        SELECT job_id, max(id) AS id FROM outcomes WHERE run_status = {Status.SUCCESS:d} AND NOT is_late GROUP BY job_id
    ), failures AS MATERIALIZED (
        SELECT o.job_id, count(*) AS number, max(is_late) AS has_late
        FROM outcomes AS o LEFT JOIN successes AS s USING (job_id) WHERE o.id > coalesce(s.id, 0) GROUP BY o.job_id
    ), counted AS MATERIALIZED (
        SELECT job_id, count(*) AS runs, min(started_at) AS first,
            min({RECENT_RUNS}, count(duration_ms) FILTER (WHERE status = {Status.SUCCESS:d})) AS timed
        FROM runs GROUP BY job_id
    )
    SELECT jobs.id, jobs.name, min(coalesce(first, created_at), first_heartbeat_at) > created_at - {DAY_MS} AND EXISTS
            (SELECT 1 FROM events WHERE job_id = jobs.id AND received_at = created_at),
        {", ".join(_COUNTERS)}, ifnull(runs, 0), ifnull(timed, 0), iif(has_late, failures_in_row, ifnull(number, 0))
    FROM jobs LEFT JOIN counted ON counted.job_id = jobs.id LEFT JOIN failures ON failures.job_id = jobs.id
"""


def differences(db: sqlite3.Connection, *, repair: bool = False) -> list[str]:
    """What differs, as texts. With `repair`, the counters are corrected, and the server does the rest again."""
    found: list[str] = []
    for job_id, job, exact, *numbers in db.execute(_COUNT).fetchall():
        for name, stored, counted in zip(_COUNTERS, numbers[:3], numbers[3:], strict=True):
            if stored < counted or (exact and stored != counted):
                found.append(f"{name} of the job {job} is {stored}, and {counted} by its rows")
                if repair:
                    db.execute(f"UPDATE jobs SET {name} = ? WHERE id = ?", (counted, job_id))
    if outdated := rollups.outdated(db):
        found.append(f"the totals of {outdated} hours, days and weeks differ from their runs")
        if repair:
            db.execute("DELETE FROM rolled_up_hours")  # and of days and weeks, by triggers
    up_to, last = db.execute("SELECT up_to, (SELECT ifnull(max(id), 0) FROM events) FROM indexed_messages").fetchone()
    if not 0 <= up_to <= last:
        found.append(f"the index of messages ends at event {up_to}, and the last event is {last}")
        if repair:
            db.execute("INSERT INTO event_messages (event_messages) VALUES ('delete-all')")
            db.execute("UPDATE indexed_messages SET up_to = 0")
    return found
