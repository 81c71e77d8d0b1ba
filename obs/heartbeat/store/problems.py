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


_SELECT = "SELECT jobs.id AS job_id, jobs.name AS job"
_NOT_PAUSED = f"NOT {PAUSED_SQL}"

OVERDUE = f"{_SELECT}, overdue_since AS since FROM jobs WHERE overdue_since IS NOT NULL AND {_NOT_PAUSED}"
FAILING = (
    f"{_SELECT}, failing_since AS since FROM jobs"
    f" WHERE failing_since IS NOT NULL AND failures_in_row >= failure_tolerance AND {_NOT_PAUSED}"
)
LOST = f"{_SELECT}, lost_since AS since FROM jobs WHERE lost_since IS NOT NULL AND {_NOT_PAUSED}"
OVERRUNNING = (
    f"{_SELECT}, min(runs.overrunning_since) AS since FROM runs JOIN jobs ON jobs.id = runs.job_id"
    f" WHERE runs.status = {Status.OPEN:d} AND runs.overrunning_since IS NOT NULL AND {_NOT_PAUSED} GROUP BY jobs.id"
)
TOO_OFTEN = f"{_SELECT}, too_often_since AS since FROM jobs WHERE too_often_since IS NOT NULL AND {_NOT_PAUSED}"


def find(db: sqlite3.Connection, problem: str, now_ms: int, job_ids: Iterable[int] | None = None) -> list[Problem]:
    """The jobs with a `problem`, one of the constants above: all of them, or those with these ids."""
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
