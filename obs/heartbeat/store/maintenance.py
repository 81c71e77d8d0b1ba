"""Maintenance windows of an organization: during one, no job becomes overdue and no incident is opened."""

import sqlite3
from dataclasses import dataclass

from obs.heartbeat.store.expectations import excuse
from obs.storage.connection import first_value


@dataclass(frozen=True, slots=True)
class MaintenanceWindow:
    """From `start_time` up to, not including, `end_time`; milliseconds since the epoch."""

    id: int
    start_time: int
    end_time: int
    title: str


_WINDOW = "SELECT id, start_time, end_time, title FROM maintenance_windows"


def windows(db: sqlite3.Connection) -> list[MaintenanceWindow]:
    return [MaintenanceWindow(**dict(row)) for row in db.execute(f"{_WINDOW} ORDER BY start_time DESC, id DESC")]


def open_window(db: sqlite3.Connection, now_ms: int) -> MaintenanceWindow | None:
    """The window that contains a moment; of several, the one that ends last."""
    found = db.execute(f"{_WINDOW} WHERE start_time <= ?1 AND end_time > ?1 ORDER BY end_time DESC LIMIT 1", (now_ms,))
    return next((MaintenanceWindow(**dict(row)) for row in found), None)


def add(db: sqlite3.Connection, start_time: int, end_time: int, title: str) -> MaintenanceWindow:
    """Add a maintenance window; runs that are expected in it are not waited for."""
    sql = "INSERT INTO maintenance_windows (start_time, end_time, title) VALUES (?, ?, ?) RETURNING id"
    window_id = first_value(db, sql, (start_time, end_time, title))
    excuse(db, start_time, end_time)
    return MaintenanceWindow(window_id, start_time, end_time, title)


def delete(db: sqlite3.Connection, window_id: int) -> bool:
    """Delete a maintenance window and have the expectations of all jobs computed again; False if there is none."""
    if db.execute("DELETE FROM maintenance_windows WHERE id = ?", (window_id,)).rowcount == 0:
        return False
    db.execute("UPDATE jobs SET revision = revision + 1 WHERE overdue_since IS NULL")
    return True
