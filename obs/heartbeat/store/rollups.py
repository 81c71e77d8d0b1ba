"""Rollups of runs by the hour and by the day of their start: which are missing, reading them, storing them.

An hour is rolled up in three steps: note an attempt, read the runs, and store their totals if the attempt is still
noted. A run that changes in between removes the note (triggers of the schema), and nothing is stored. A day is rolled
up from its hours in the same way.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from obs.heartbeat.source import STATUS_NUMBERS_SQL
from obs.storage.packed import pack
from obs.times import HOUR_MS

LARGEST_TOTAL_MS = 2**38
"""Hours whose runs took longer than this in total, 8.7 years, are not rolled up: so the mean over three years of hours
is computed without rounding (2^53)."""

Measures = tuple[int, int, int | None, int | None, int | None]
"""The number of runs, the number with a duration, and the sum, the least and the most of the durations."""


class Unit(Enum):
    """The unit of a rollup; the value is the name of its column."""

    HOUR = "hour"
    DAY = "day"


@dataclass(frozen=True, slots=True)
class Counted:
    """What to write for an hour or a day, or a part of that. `number` counts the unit from 1970.

    `by_job` has job, status and measures where they differ from what is stored, `gone` the jobs and statuses that are
    stored and have no runs any more. The totals of an hour by status are written with the last part: `by_status`, and
    `durations`, the blobs of each status.
    """

    unit: Unit
    number: int
    by_job: Sequence[tuple[int, int, Measures]]
    gone: Sequence[tuple[int, int]]
    by_status: Mapping[int, Measures] = field(default_factory=dict)
    durations: Mapping[int, Sequence[bytes]] = field(default_factory=dict)
    is_last: bool = True

    def parts(self, most: int) -> Iterator["Counted"]:
        """The same, in parts with at most `most` rows by job."""
        rows = max(len(self.by_job), len(self.gone), 1)
        for start in range(0, rows, most):
            end = start + most
            yield replace(self, by_job=self.by_job[start:end], gone=self.gone[start:end], is_last=end >= rows)

    def rows(self) -> int:
        """The largest number of rows that this writes."""
        return len(self.by_job) + len(self.gone) + 2 * len(self.by_status) + 1


def hours_to_roll_up(db: sqlite3.Connection, oldest: int, end: int) -> list[int]:
    """The hours from `oldest` up to, not including, `end` that are not rolled up, the latest first.

    Hours before the first run are left out, except for hours with stored totals whose runs are gone.
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
    """The first hour of the first day from `oldest` on that has runs or stored totals; None without any.

    The first hour of the day, so that the day is complete and its totals are removed with its last run.
    """
    runs = db.execute(
        "SELECT started_at FROM runs WHERE started_at >= ? ORDER BY started_at LIMIT 1", (oldest * HOUR_MS,)
    ).fetchone()
    kept = db.execute("SELECT min(hour) FROM runs_by_hour").fetchone()
    hours = [*([runs[0] // HOUR_MS] if runs else []), *([kept[0]] if kept[0] is not None else [])]
    return min(hours) // 24 * 24 if hours else None


def days_to_roll_up(db: sqlite3.Connection) -> list[int]:
    """The days that are not rolled up although all their hours are, the latest first."""
    rows = db.execute(
        "SELECT hour / 24 AS day FROM rolled_up_hours WHERE attempt IS NULL GROUP BY day"
        " HAVING count(*) = 24 AND NOT EXISTS"
        " (SELECT 1 FROM rolled_up_days WHERE rolled_up_days.day = hour / 24 AND rolled_up_days.attempt IS NULL)"
        " ORDER BY day DESC"
    )
    return [row[0] for row in rows]


def forget_before(db: sqlite3.Connection, oldest: int, limit: int) -> int:
    """Delete the marks of at most `limit` hours before those that `hours_to_roll_up` returns; returns how many."""
    return db.execute(
        "DELETE FROM rolled_up_hours WHERE hour IN"
        " (SELECT hour FROM rolled_up_hours WHERE ?1 IS NULL OR hour < ?1 LIMIT ?2)",
        (_first(db, oldest), limit),
    ).rowcount


def note_attempt(db: sqlite3.Connection, unit: Unit, numbers: Iterable[int], attempt: int) -> None:
    """Note an attempt to roll up hours or days; days only where all their hours are rolled up."""
    if unit is Unit.HOUR:
        noted = "INSERT OR REPLACE INTO rolled_up_hours VALUES (?, ?)"
    else:
        noted = (
            "INSERT OR REPLACE INTO rolled_up_days SELECT ?1, ?2 WHERE 24 = (SELECT count(*) FROM rolled_up_hours"
            " WHERE hour >= ?1 * 24 AND hour < ?1 * 24 + 24 AND attempt IS NULL)"
        )
    db.executemany(noted, [(number, attempt) for number in numbers])


def read(db: sqlite3.Connection, unit: Unit, number: int) -> Counted | None:
    """What to write for an hour or a day; None where it cannot be rolled up."""
    return _read_hour(db, number) if unit is Unit.HOUR else _read_day(db, number)


def outdated(db: sqlite3.Connection) -> int:
    """How many of the hours and days that are rolled up differ from what `read` counts."""
    return sum(
        _differs(db, unit, row[0])
        for unit in Unit
        for row in db.execute(f"SELECT {unit.value} FROM rolled_up_{unit.value}s WHERE attempt IS NULL").fetchall()
    )


def _differs(db: sqlite3.Connection, unit: Unit, number: int) -> bool:
    counted = read(db, unit, number)
    if counted is None or counted.by_job or counted.gone:
        return True
    if unit is Unit.DAY:
        return False
    totals = db.execute(
        "SELECT status, runs, timed, total_ms, least_ms, most_ms FROM runs_by_hour WHERE hour = ?", (number,)
    )
    durations = db.execute("SELECT status, durations FROM durations_by_hour WHERE hour = ? ORDER BY 1, part", (number,))
    parts = [(status, part) for status in sorted(counted.durations) for part in counted.durations[status]]
    return {row[0]: tuple(row[1:]) for row in totals} != counted.by_status or list(map(tuple, durations)) != parts


def _read_hour(db: sqlite3.Connection, hour: int) -> Counted | None:
    start, end = hour * HOUR_MS, (hour + 1) * HOUR_MS
    rows = db.execute(
        "SELECT job_id, status, count(*), count(duration_ms), coalesce(sum(abs(duration_ms * 1.0)), 0),"
        " total(duration_ms), min(duration_ms), max(duration_ms)"
        " FROM runs WHERE started_at >= ? AND started_at < ? GROUP BY job_id, status",
        (start, end),
    ).fetchall()
    if sum(row[4] for row in rows) > LARGEST_TOTAL_MS:
        return None
    by_job: dict[tuple[int, int], Measures] = {
        (row[0], row[1]): (row[2], row[3], int(row[5]) if row[3] else None, row[6], row[7]) for row in rows
    }
    by_status: dict[int, Measures] = {}
    for (_, status), measures in by_job.items():
        by_status[status] = _together(by_status[status], measures) if status in by_status else measures
    durations = {status: list(pack(_durations(db, status, start, end))) for status in by_status if by_status[status][1]}
    return replace(_changed(db, Unit.HOUR, hour, by_job), by_status=by_status, durations=durations)


def _read_day(db: sqlite3.Connection, day: int) -> Counted:
    rows = db.execute(
        "SELECT job_id, status, sum(runs), sum(timed), sum(total_ms), min(least_ms), max(most_ms)"
        f" FROM runs_by_job_and_hour WHERE {_EVERY_JOB} AND hour >= ? AND hour < ? GROUP BY job_id, status",
        (day * 24, day * 24 + 24),
    )
    return _changed(db, Unit.DAY, day, {(row[0], row[1]): tuple(row[2:]) for row in rows})


_EVERY_JOB = f"job_id IN (SELECT id FROM jobs) AND status IN ({STATUS_NUMBERS_SQL})"
"""All rows; SQLite then looks up a range of hours in the key of each job and status."""


def _changed(db: sqlite3.Connection, unit: Unit, number: int, by_job: Mapping[tuple[int, int], Measures]) -> Counted:
    """The differences from what is stored."""
    rows = db.execute(
        f"SELECT job_id, status, runs, timed, total_ms, least_ms, most_ms FROM runs_by_job_and_{unit.value}"
        f" WHERE {_EVERY_JOB} AND {unit.value} = ?",
        (number,),
    )
    kept = {(row[0], row[1]): tuple(row[2:]) for row in rows}
    return Counted(
        unit,
        number,
        [(*key, measures) for key, measures in by_job.items() if kept.get(key) != measures],
        [key for key in kept if key not in by_job],
    )


def _durations(db: sqlite3.Connection, status: int, start: int, end: int) -> list[int]:
    rows = db.execute(
        "SELECT duration_ms FROM runs WHERE started_at >= ? AND started_at < ? AND status = ?"
        " AND duration_ms IS NOT NULL",
        (start, end, status),
    )
    return sorted(row[0] for row in rows)


def _together(one: Measures, other: Measures) -> Measures:
    return (
        one[0] + other[0],
        one[1] + other[1],
        sum(_known(one[2], other[2])) if one[1] or other[1] else None,
        min(_known(one[3], other[3]), default=None),
        max(_known(one[4], other[4]), default=None),
    )


def _known(*values: int | None) -> list[int]:
    return [value for value in values if value is not None]


def keep(db: sqlite3.Connection, part: Counted, attempt: int) -> bool:
    """Write a part, and with the last one mark the unit as rolled up; False if a run has changed since the attempt."""
    unit, number = part.unit.value, part.number
    noted = db.execute(f"SELECT 1 FROM rolled_up_{unit}s WHERE {unit} = ? AND attempt = ?", (number, attempt))
    if noted.fetchone() is None:
        return False
    table = f"runs_by_job_and_{unit}"
    db.executemany(
        f"DELETE FROM {table} WHERE job_id = ? AND status = ? AND {unit} = ?", [(*key, number) for key in part.gone]
    )
    db.executemany(
        f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [(job_id, status, number, *measures) for job_id, status, measures in part.by_job],
    )
    if part.is_last:
        if part.unit is Unit.HOUR:
            _keep_by_status(db, part)
        db.execute(f"UPDATE rolled_up_{unit}s SET attempt = NULL WHERE {unit} = ?", (number,))
    return True


def _keep_by_status(db: sqlite3.Connection, part: Counted) -> None:
    hour = part.number
    db.execute("DELETE FROM runs_by_hour WHERE hour = ?", (hour,))
    db.execute("DELETE FROM durations_by_hour WHERE hour = ?", (hour,))
    db.executemany(
        "INSERT INTO runs_by_hour VALUES (?, ?, ?, ?, ?, ?, ?)",
        [(hour, status, *measures) for status, measures in part.by_status.items()],
    )
    db.executemany(
        "INSERT INTO durations_by_hour VALUES (?, ?, ?, ?)",
        [(hour, status, number, blob) for status, blobs in part.durations.items() for number, blob in enumerate(blobs)],
    )
