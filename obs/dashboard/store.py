"""Reads for the pages that the stores of the areas do not offer in one query. Times and durations are milliseconds."""

import json
import math
import re
import sqlite3
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from functools import lru_cache, partial
from typing import Any

from obs.alerts.message import COLOURS
from obs.annotations import store as annotation_store
from obs.annotations.rules import Annotation
from obs.dashboard.drawings import Bar
from obs.dashboard.schedules import Results
from obs.heartbeat.runs import STATUSES, Status
from obs.heartbeat.store.jobs import Job, last_lines, runs_of
from obs.times import HOUR_MS

_MOST_ANNOTATIONS = 200
_PARTS = 720  # so that the parts of 30 and 90 days are whole hours
_LAST_LINES = 20
_ERROR = re.compile(r"error|exception|fail|fatal|denied|refused|cannot|timed? ?out", re.IGNORECASE)
_PROBLEM = f"status IN ({Status.FAILED:d}, {Status.LOST:d})"

Position = tuple[int, int, int]  # of the changes to jobs: the last event, the last other change, the last deletion


def position(db: sqlite3.Connection) -> Position:
    found = "SELECT (SELECT coalesce(max(id), 0) FROM events), last, last_deleted FROM job_changes"
    return tuple(db.execute(found).fetchone())


def changed_jobs(db: sqlite3.Connection, since: Position) -> set[int]:
    """The ids of the jobs that changed, or sent heartbeats, after a position. Deleted jobs are left out."""
    rows = db.execute("SELECT job_id FROM events WHERE id > ? UNION SELECT id FROM jobs WHERE changed > ?", since[:2])
    return {row[0] for row in rows}


def recent_runs(db: sqlite3.Connection, ids: Collection[int], count: int) -> dict[int, tuple[Bar, ...]]:
    """The last `count` runs of jobs by the job's id, oldest first. Only the index runs_job is read."""
    rows = db.execute(
        "SELECT value, (SELECT json_group_array(json_array(started_at, status, duration_ms, id)) FROM"
        " (SELECT started_at, status, duration_ms, id FROM runs WHERE runs.job_id = value"
        "  ORDER BY started_at DESC LIMIT ?)) FROM json_each(?)",
        (count, json.dumps(list(ids))),
    )
    return {job_id: _bars(runs) for job_id, runs in rows}


@lru_cache(maxsize=2048)
def _bars(runs: str) -> tuple[Bar, ...]:
    return tuple(Bar(start, STATUSES[status], *rest) for start, status, *rest in reversed(json.loads(runs)))


def error_lines(db: sqlite3.Connection, runs: Mapping[int, int]) -> dict[int, str]:
    """The line that names the error in the last message of `runs`, or its first line, by their keys."""
    last = "(SELECT message FROM events WHERE run_id = value AND message <> '' ORDER BY id DESC LIMIT 1)"
    rows = db.execute(f"SELECT key, {last} FROM json_each(?)", (json.dumps(runs),))
    return {int(key): _error_line(message or "") for key, message in rows}


def _error_line(message: str) -> str:
    lines = [line.strip() for line in COLOURS.sub("", message).splitlines() if line.strip()]
    return next(filter(_ERROR.search, lines), lines[0] if lines else "")[:200]


def trouble(db: sqlite3.Connection, job: Job) -> dict[str, Any]:
    """`problems` runs failed or were lost after `last_ok_at`. `run` is the one to see, `lines` the end of its log."""
    success = f"SELECT max(started_at) FROM runs WHERE job_id = ?1 AND status = {Status.SUCCESS:d}"
    problems, failing_since, last_ok_at = db.execute(
        f"SELECT count(*), min(started_at + coalesce(duration_ms, 0)), ({success}) FROM runs"
        f" WHERE job_id = ?1 AND {_PROBLEM} AND started_at > coalesce(({success}), -1)",
        (job.id,),
    ).fetchone()
    status = {"failed": "failed", "lost": "lost", "overrunning": "open"}.get(job.status)
    run = next(iter(runs_of(db, job.id, limit=1, status=status)), None)
    since = {"overdue": job.overdue_at, "overrunning": run and run.started_at}.get(job.status, failing_since)
    lines = [] if run is None else last_lines(db, run.id, _LAST_LINES)
    known = {"problems": problems, "last_ok_at": last_ok_at, "run": run, "lines": lines}
    return {"since": since or job.last_run_at, **known}


def _counts(db: sqlite3.Connection, job_id: int, start: int, end: int, part_ms: int) -> list[sqlite3.Row]:
    """The runs of a job by status in parts of time: the first start, the status, the average duration, how many."""
    view = "single_runs" if part_ms % HOUR_MS else "counted_runs"  # this one counts hours that are rolled up
    return db.execute(
        f"SELECT min(started_at), status, 1.0 * sum(total_ms) / sum(timed), sum(runs) FROM {view}"
        " WHERE job_id = ?1 AND hour >= ?2 / ?5 AND started_at >= ?2 AND started_at < ?3"
        " GROUP BY started_at / ?4, status ORDER BY 1",
        (job_id, start, end, part_ms, HOUR_MS),
    ).fetchall()


def points(db: sqlite3.Connection, job_id: int, start: int, end: int) -> list[dict[str, Any]]:
    """The runs of a job from `start` to `end`, in _PARTS parts: those of a part with one status are a point.

    A point has the `time` of the first of its `runs`, their `status`, and their average `duration_ms` or None.
    """
    part_ms = (end - start) // _PARTS
    rows = _counts(db, job_id, math.ceil(start / part_ms) * part_ms, end + 1, part_ms)
    return [{"time": row[0], "status": STATUSES[row[1]], "duration_ms": row[2], "runs": row[3]} for row in rows]


def results_by_day(db: sqlite3.Connection, job_id: int, days: Mapping[int, tuple[int, int]]) -> Results:
    """The number of runs by status for each of the `days`, which follow each other, that has any."""
    first, moments = min(days), sorted({moment for day in days.values() for moment in day})
    counts: dict[int, dict[str, int]] = defaultdict(Counter)
    for first_at, status, _, runs in _counts(db, job_id, moments[0], moments[-1], math.gcd(*moments)):
        counts[first + bisect_right(moments, first_at) - 1][STATUSES[status]] += runs
    return counts


def stored_runs(db: sqlite3.Connection) -> tuple[int, int | None]:
    return tuple(db.execute("SELECT (SELECT count(*) FROM runs), (SELECT min(started_at) FROM runs)").fetchone())


def neighbours(db: sqlite3.Connection, job: str, started_at: int, number: int) -> tuple[int | None, int | None]:
    of_job = "SELECT runs.id FROM runs WHERE job_id = (SELECT id FROM jobs WHERE name = ?1) AND (started_at, id)"
    before = f"{of_job} < (?2, ?3) ORDER BY started_at DESC, id DESC LIMIT 1"
    after = f"{of_job} > (?2, ?3) ORDER BY started_at, id LIMIT 1"
    return tuple(db.execute(f"SELECT ({before}), ({after})", (job, started_at, number)).fetchone())


def annotations(
    db: sqlite3.Connection, start: int, end: int, now_ms: int, *, prefix: str = "", job: str | None = None
) -> list[Annotation]:
    """The latest annotations of a range whose names start with `prefix`; with `job`, no incidents of other jobs."""
    own, read = f"incident/{job}", partial(annotation_store.page, db, now_ms, start=start, end=end)
    bands = read(by_service=True, name_prefix=prefix if job is None else own, limit=_MOST_ANNOTATIONS)
    others = read(by_service=False, name_prefix=prefix, limit=_MOST_ANNOTATIONS)
    return others + [one for one in bands if job is None or one.name == own]
