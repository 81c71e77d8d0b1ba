"""Correcting times that were recorded while the wall clock was wrong."""

import sqlite3
from collections.abc import Mapping

from obs.heartbeat.runs import FUTURE_MS, Status

# The last event that was recorded before the wall clock came into doubt. Its id separates the events since from older
# ones with the same times. Those of the last minute may have been recorded after the step. (The plus has SQLite read
# from the newest event, not sort all of them.)
_AFTER = """
    SELECT id FROM events WHERE (+received_at <= :start_ms OR +received_at > :end_ms) AND +received_at < :now_ms - 60000
    ORDER BY id DESC LIMIT 1
"""
# Those that arrived since the clock was read are not wrong.
_WRONG = (
    f"(id > :after AND received_at > :start_ms AND received_at <= :end_ms OR received_at > :latest_ms + {FUTURE_MS})"
)
# A time that the client sent was wrong too if it is close to what the service's clock showed.
_TIME_IS_WRONG = f"(abs(time - received_at) * 2 < abs(:step_ms) OR time > :latest_ms + {FUTURE_MS})"
_RUN = ", ".join(
    f"{column} = min({column} + :step_ms, :latest_ms)"
    for column in ("started_at", "ended_at", "heartbeat_at", "overrunning_since")
)
_PAST = ("last_heartbeat_at", "created_at", "paused_at", "overdue_since", "failing_since", "lost_since")
_STATEMENTS = (
    # An open run goes on: the time since its start is the time that has passed.
    f"UPDATE runs SET {_RUN} WHERE status = {Status.OPEN:d}"
    f" AND NOT EXISTS (SELECT 1 FROM events WHERE run_id = runs.id AND {_WRONG})",
    f"UPDATE runs SET {_RUN} WHERE id IN (SELECT run_id FROM events WHERE {_WRONG} AND {_TIME_IS_WRONG})",
    "DELETE FROM fits WHERE job_id IN (SELECT job_id FROM events WHERE id > :after"
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
)


def correct(db: sqlite3.Connection, correction: Mapping[str, int]) -> None:
    """Correct the times of runs, events and jobs.

    `correction` has the fields of `obs.tenancy.clock.Reading`, and `latest_ms`: times after that are wrong.
    Jobs with corrected heartbeats lose what was learned. What is expected of the others moves with the wall clock.
    """
    after = db.execute(_AFTER, correction).fetchone() if correction["step_ms"] else (2**63 - 1,)
    for statement in _STATEMENTS:
        db.execute(statement, {**correction, "after": 0 if after is None else after[0]})
