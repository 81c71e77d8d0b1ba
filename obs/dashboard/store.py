"""What the pages read that no area's store gives in one query. Times and durations are milliseconds."""

import json
import sqlite3
import zlib
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from obs.dashboard.bars import Bar
from obs.dashboard.charts import Point
from obs.heartbeat.runs import STATUSES


class Recent(NamedTuple):
    """The last runs of a job, oldest first. `version` changes with them."""

    job_id: int
    runs: tuple[Bar, ...]
    version: int


def recent_runs(db: sqlite3.Connection, count: int) -> dict[str, Recent]:
    """The last `count` runs of each job, by its name.

    One statement on the index runs_job; the table of runs is not read.
    """
    rows = db.execute(
        "SELECT jobs.name, jobs.id, (SELECT json_group_array(json_array(started_at, status, duration_ms)) FROM"
        " (SELECT started_at, status, duration_ms FROM runs WHERE runs.job_id = jobs.id"
        "  ORDER BY started_at DESC LIMIT ?)) FROM jobs",
        (count,),
    )
    return {
        name: Recent(
            job_id,
            _bars(runs),
            zlib.crc32(runs.encode()),
        )
        for name, job_id, runs in rows
    }


@lru_cache(maxsize=2048)
def _bars(runs: str) -> tuple[Bar, ...]:
    return tuple(Bar(started_at, STATUSES[status], taken) for started_at, status, taken in reversed(json.loads(runs)))


def points(db: sqlite3.Connection, job_id: int, start: int, end: int, most: int) -> list[Point]:
    """The runs of a job that started in a range; where there are many, those close together are one point."""
    rows = db.execute(
        "SELECT min(started_at), status, avg(duration_ms), count(*) FROM runs"
        " WHERE job_id = ? AND started_at BETWEEN ? AND ? GROUP BY started_at / ?, status ORDER BY 1",
        (job_id, start, end, max(1, (end - start) // most)),
    )
    return [Point(row[0], STATUSES[row[1]], row[2], row[3]) for row in rows]


def outcomes_by_day(
    db: sqlite3.Connection, job_id: int, days: Mapping[int, tuple[int, int]]
) -> dict[int, dict[str, int]]:
    """How many runs of each status started on each of `days`, which are from a moment up to, not including, another."""
    rows = db.execute(
        "SELECT json_extract(day.value, '$[0]'), status, count(*) FROM json_each(?) AS day CROSS JOIN runs"
        " ON job_id = ? AND started_at >= json_extract(day.value, '$[1]')"
        " AND started_at < json_extract(day.value, '$[2]') GROUP BY 1, 2",
        (json.dumps([[day, *moments] for day, moments in days.items()]), job_id),
    )
    outcomes: dict[int, dict[str, int]] = {}
    for day, status, count in rows:
        outcomes.setdefault(day, {})[STATUSES[status]] = count
    return outcomes


def held(db: sqlite3.Connection) -> tuple[int, int, int | None, int]:
    """How many jobs and runs there are, the start of the oldest run, and how many annotations there are."""
    row: tuple[int, int, int | None, int] = db.execute(
        "SELECT (SELECT count(*) FROM jobs), (SELECT count(*) FROM runs), (SELECT min(started_at) FROM runs),"
        " (SELECT count(*) FROM annotations)"
    ).fetchone()
    return row


def neighbours(db: sqlite3.Connection, job: str, started_at: int, number: int) -> tuple[int | None, int | None]:
    """The numbers of the runs before and after one of a job."""
    of_job = "SELECT runs.id FROM runs WHERE job_id = (SELECT id FROM jobs WHERE name = ?) AND (started_at, id)"
    before = db.execute(f"{of_job} < (?, ?) ORDER BY started_at DESC, id DESC LIMIT 1", (job, started_at, number))
    after = db.execute(f"{of_job} > (?, ?) ORDER BY started_at, id LIMIT 1", (job, started_at, number))
    found = [row[0] if (row := cursor.fetchone()) else None for cursor in (before, after)]
    return found[0], found[1]
