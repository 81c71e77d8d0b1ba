"""Runs counted together by the hour of their start: which hours, what the runs say, what is kept.

An hour is rolled up in three steps: an attempt is noted, the runs are read, and what they say is kept if the attempt
is still noted. A change of a run in between takes the note away (triggers of the schema), and nothing is kept.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from obs.storage.packed import pack
from obs.times import HOUR_MS

LARGEST_TOTAL_MS = 2**38
"""Hours in which runs took longer than this together, 8.7 years, are not rolled up: the mean of three years of hours
is still worked out without rounding (2^53)."""

Measures = tuple[int, int, int | None, int | None, int | None]
"""Runs, those with a duration, and of the durations the sum, the least and the most."""


@dataclass(frozen=True, slots=True)
class Hour:
    """What is to be written for one hour, or a part of it; what is kept by status is written with the last part.

    `by_job` holds job, status and measures, `gone` the jobs and statuses that are kept and have no runs any more,
    `durations` the blobs of each status.
    """

    hour: int
    by_job: Sequence[tuple[int, int, Measures]]
    gone: Sequence[tuple[int, int]]
    by_status: Mapping[int, Measures]
    durations: Mapping[int, Sequence[bytes]]
    is_last: bool = True

    def parts(self, most: int) -> Iterator["Hour"]:
        """The same in parts of at most `most` rows by job."""
        rows = max(len(self.by_job), len(self.gone), 1)
        for start in range(0, rows, most):
            end = start + most
            yield replace(self, by_job=self.by_job[start:end], gone=self.gone[start:end], is_last=end >= rows)

    def rows(self) -> int:
        """How many rows it has at most."""
        return len(self.by_job) + len(self.gone) + 2 * len(self.by_status) + 1


def hours_to_roll_up(db: sqlite3.Connection, oldest: int, end: int) -> list[int]:
    """The hours from `oldest` up to, not including, `end` that are not rolled up, the latest first.

    Before the first run there is nothing to do, but for hours of which something is kept: their runs are gone.
    """
    first = _first(db, oldest)
    if first is None or first >= end:
        return []
    rolled = "SELECT hour FROM rolled_up_hours WHERE hour >= ? AND hour < ? AND attempt IS NULL"
    ((count,),) = db.execute(f"SELECT count(*) FROM ({rolled})", (first, end))
    if count == end - first:
        return []
    known = {row[0] for row in db.execute(rolled, (first, end))}
    return [hour for hour in range(end - 1, first - 1, -1) if hour not in known]


def _first(db: sqlite3.Connection, oldest: int) -> int | None:
    """The first hour that has runs, not before `oldest`, or that something is kept of."""
    runs = db.execute(
        "SELECT started_at FROM runs WHERE started_at >= ? ORDER BY started_at LIMIT 1", (oldest * HOUR_MS,)
    ).fetchone()
    kept = db.execute("SELECT min(hour) FROM runs_by_hour").fetchone()
    hours = [*([runs[0] // HOUR_MS] if runs else []), *([kept[0]] if kept[0] is not None else [])]
    return min(hours) if hours else None


def forget_before(db: sqlite3.Connection, oldest: int, limit: int) -> int:
    """Forget at most `limit` hours that are before everything that `hours_to_roll_up` looks at; how many there were."""
    first = _first(db, oldest)
    return db.execute(
        "DELETE FROM rolled_up_hours WHERE hour IN (SELECT hour FROM rolled_up_hours WHERE hour < ? LIMIT ?)",
        (oldest if first is None else first, limit),
    ).rowcount


def note_attempt(db: sqlite3.Connection, hours: Iterable[int], attempt: int) -> None:
    """Note that `hours` are about to be read."""
    db.executemany("INSERT OR REPLACE INTO rolled_up_hours VALUES (?, ?)", [(hour, attempt) for hour in hours])


def read(db: sqlite3.Connection, hour: int) -> Hour | None:
    """What the runs of an hour say, as far as it differs from what is kept; None where it cannot be rolled up."""
    start, end = hour * HOUR_MS, (hour + 1) * HOUR_MS
    counted = db.execute(
        "SELECT job_id, status, count(*), count(duration_ms), coalesce(sum(abs(duration_ms * 1.0)), 0),"
        " total(duration_ms), min(duration_ms), max(duration_ms)"
        " FROM runs WHERE started_at >= ? AND started_at < ? GROUP BY job_id, status",
        (start, end),
    ).fetchall()
    if sum(row[4] for row in counted) > LARGEST_TOTAL_MS:
        return None
    by_job: dict[tuple[int, int], Measures] = {
        (row[0], row[1]): (row[2], row[3], int(row[5]) if row[3] else None, row[6], row[7]) for row in counted
    }
    by_status: dict[int, Measures] = {}
    for (_, status), measures in by_job.items():
        by_status[status] = _together(by_status[status], measures) if status in by_status else measures
    kept = {
        (row[0], row[1]): tuple(row[2:])
        for row in db.execute(
            "SELECT job_id, status, runs, timed, total_ms, least_ms, most_ms FROM runs_by_job_and_hour"
            " WHERE job_id IN (SELECT id FROM jobs) AND status IN (0, 1, 2, 3) AND hour = ?",
            (hour,),
        )
    }
    return Hour(
        hour,
        [(*key, measures) for key, measures in by_job.items() if kept.get(key) != measures],
        [key for key in kept if key not in by_job],
        by_status,
        {status: list(pack(_durations(db, status, start, end))) for status in by_status if by_status[status][1]},
    )


def _durations(db: sqlite3.Connection, status: int, start: int, end: int) -> list[int]:
    rows = db.execute(
        "SELECT duration_ms FROM runs WHERE started_at >= ? AND started_at < ? AND status = ?"
        " AND duration_ms IS NOT NULL",
        (start, end, status),
    )
    return sorted(row[0] for row in rows)


def _together(one: Measures, other: Measures) -> Measures:
    totals = [value for value in (one[2], other[2]) if value is not None]
    least = [value for value in (one[3], other[3]) if value is not None]
    most = [value for value in (one[4], other[4]) if value is not None]
    return (
        one[0] + other[0],
        one[1] + other[1],
        sum(totals) if totals else None,
        min(least, default=None),
        max(most, default=None),
    )


def keep(db: sqlite3.Connection, part: Hour, attempt: int) -> bool:
    """Write a part of an hour, with the last one that it is rolled up; False when a run has changed since `attempt`."""
    if not _is_noted(db, part.hour, attempt):
        return False
    db.executemany(
        "DELETE FROM runs_by_job_and_hour WHERE job_id = ? AND status = ? AND hour = ?",
        [(*key, part.hour) for key in part.gone],
    )
    db.executemany(
        "INSERT OR REPLACE INTO runs_by_job_and_hour VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [(job_id, status, part.hour, *measures) for job_id, status, measures in part.by_job],
    )
    if part.is_last:
        db.execute("DELETE FROM runs_by_hour WHERE hour = ?", (part.hour,))
        db.execute("DELETE FROM durations_by_hour WHERE hour = ?", (part.hour,))
        db.executemany(
            "INSERT INTO runs_by_hour VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(part.hour, status, *measures) for status, measures in part.by_status.items()],
        )
        db.executemany(
            "INSERT INTO durations_by_hour VALUES (?, ?, ?, ?)",
            [
                (part.hour, status, number, blob)
                for status, blobs in part.durations.items()
                for number, blob in enumerate(blobs)
            ],
        )
        db.execute("UPDATE rolled_up_hours SET attempt = NULL WHERE hour = ?", (part.hour,))
    return True


def _is_noted(db: sqlite3.Connection, hour: int, attempt: int) -> bool:
    row = db.execute("SELECT 1 FROM rolled_up_hours WHERE hour = ? AND attempt = ?", (hour, attempt)).fetchone()
    return row is not None
