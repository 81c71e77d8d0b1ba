"""Jobs with a problem now, as far as the sweep has flagged it; paused jobs have none. Times are milliseconds."""

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from obs.heartbeat.runs import Status
from obs.heartbeat.source import PAUSED_SQL
from obs.storage.connection import first_value


@dataclass(frozen=True, slots=True)
class Problem:
    job_id: int
    job: str
    since: int


_SINCE = f"SELECT id AS job_id, name AS job, {{0}} AS since FROM jobs WHERE {{0}} IS NOT NULL AND NOT {PAUSED_SQL}"
_PROBLEMS = {
    **{kind: _SINCE.format(f"{kind}_since") for kind in ("overdue", "lost", "too_often")},
    "failing": f"{_SINCE.format('failing_since')} AND failures_in_row >= failure_tolerance",
    "overrunning": (
        "SELECT jobs.id AS job_id, jobs.name AS job, min(runs.overrunning_since) AS since"
        f" FROM runs JOIN jobs ON jobs.id = runs.job_id WHERE runs.status = {Status.OPEN:d}"
        f" AND runs.overrunning_since IS NOT NULL AND NOT {PAUSED_SQL} GROUP BY jobs.id"
    ),
}


def find(db: sqlite3.Connection, kind: str, now_ms: int, job_ids: Iterable[int] | None = None) -> list[Problem]:
    """The jobs with a problem of a `kind`, as incidents name it: all of them, or those with these ids."""
    problem = _PROBLEMS[kind]
    if job_ids is not None:
        problem = f"SELECT * FROM ({problem}) WHERE job_id IN (SELECT value FROM json_each(:ids))"
    rows = db.execute(problem, {"now": now_ms, "ids": json.dumps(list(job_ids or ()))})
    return [Problem(**dict(row)) for row in rows]


def silent_since(db: sqlite3.Connection, host: str | None, now_ms: int) -> int | None:
    """The time of the last heartbeat from a host with three jobs or more that are all overdue or late, else None."""
    silent = (
        "SELECT max(last_heartbeat_at) FROM attributions AS a JOIN jobs ON jobs.attribution_id = a.id WHERE a.host = ?"
        " HAVING count(*) >= 3 AND min(overdue_since IS NOT NULL OR coalesce(expected_at < ?, 0))"
    )
    return cast("int | None", first_value(db, silent, (host, now_ms)))
