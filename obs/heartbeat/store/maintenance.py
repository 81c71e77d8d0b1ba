"""Maintenance windows: during one, no job that it covers becomes overdue, and no incident of such a job is opened.

The row of a recurring window has the times of its current or next occurrence. Nobody can know whether a job ran in the
part of a window that is over, so this part becomes an unknown time when the window is deleted or recurs.
"""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from obs.heartbeat.pins import cron_times
from obs.heartbeat.store.expectations import excuse
from obs.storage.connection import delete_row, save_row

OVER = "SELECT id FROM maintenance_windows WHERE cron IS NOT NULL AND end_time <= ?"  # those that recur next


@dataclass(frozen=True, slots=True)
class MaintenanceWindow:
    """From `start_time` up to, not including, `end_time`; milliseconds since the epoch."""

    id: int
    title: str
    start_time: int
    end_time: int
    job_prefix: str | None
    host: str | None
    service: str | None
    project: str | None
    cron: str | None
    timezone: str | None
    duration_seconds: int | None


def windows(db: sqlite3.Connection, open_at: int | None = None, job_id: int | None = None) -> list[MaintenanceWindow]:
    """The windows, the latest start first: all, or only those that contain a moment or cover a job."""
    found = db.execute(
        f"SELECT {', '.join(MaintenanceWindow.__slots__)} FROM maintenance_windows"
        " WHERE (:open_at IS NULL OR start_time <= :open_at AND end_time > :open_at) AND (:job_id IS NULL OR id IN"
        " (SELECT window_id FROM unknown_times_by_job WHERE job_id = :job_id)) ORDER BY start_time DESC, id DESC",
        {"open_at": open_at, "job_id": job_id},
    )
    return [MaintenanceWindow(**dict(row)) for row in found]


def covered_jobs(db: sqlite3.Connection, now_ms: int) -> set[int]:
    """The ids of the jobs that are under maintenance."""
    covered = "SELECT job_id FROM unknown_times_by_job WHERE window_id > 0 AND start_time <= ?1 AND end_time > ?1"
    return {row[0] for row in db.execute(covered, (now_ms,))}


def save(db: sqlite3.Connection, values: Mapping[str, Any]) -> MaintenanceWindow:
    """Add a window, or change the one with the id. Runs that are expected in it are not waited for."""
    window_id = save_row(db, "maintenance_windows", values)
    excuse(db, values["start_time"], values["end_time"], window_id)
    return next(one for one in windows(db) if one.id == window_id)


def delete(db: sqlite3.Connection, window_id: int, now_ms: int) -> None:
    """Delete a window, but not what is over of it, and learn its jobs again."""
    learn = "UPDATE jobs SET revision = revision + 1 WHERE overdue_since IS NULL AND id IN"
    db.execute(f"{learn} (SELECT job_id FROM unknown_times_by_job WHERE window_id = ?)", (window_id,))
    end = "UPDATE maintenance_windows SET end_time = max(start_time, min(end_time, ?)) WHERE id = ?"
    db.execute(end, (now_ms, window_id))
    delete_row(db, window_id, table="maintenance_windows")


def keep_past(db: sqlite3.Connection, job_id: int, since_ms: int, now_ms: int) -> None:
    """Keep the unknown times of a job since a moment and until now, for when other windows are about to cover it."""
    covered = "unknown_times_by_job WHERE job_id = ?1 AND window_id > 0 AND end_time > ?2 AND start_time < ?3"
    past = f"SELECT job_id, start_time, min(end_time, ?3) FROM {covered}"
    db.execute(f"INSERT INTO unknown_times (job_id, start_time, end_time) {past}", (job_id, since_ms, now_ms))


def renew(db: sqlite3.Connection, now_ms: int) -> None:
    """Give each recurring window the times of the occurrence that contains a moment, or of the next one."""
    for window in windows(db):
        length_ms = window.end_time - window.start_time
        if window.cron and window.timezone:
            start = next(cron_times(window.cron, window.timezone, now_ms - length_ms))
            if start != window.start_time:
                save(db, {"id": window.id, "start_time": start, "end_time": start + length_ms})
