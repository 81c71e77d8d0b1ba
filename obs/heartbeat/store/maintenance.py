"""Maintenance windows: planned silence of a whole organization, in which nothing becomes overdue."""

import sqlite3
from dataclasses import dataclass

from obs.heartbeat.store.expectations import excuse


@dataclass(frozen=True, slots=True)
class Window:
    """From `start_time` up to, not including, `end_time`; milliseconds since the epoch."""

    id: int
    start_time: int
    end_time: int
    title: str


def windows(db: sqlite3.Connection) -> list[Window]:
    """All windows, the latest first."""
    rows = db.execute(
        "SELECT id, start_time, end_time, title FROM maintenance_windows ORDER BY start_time DESC, id DESC"
    )
    return [Window(*row) for row in rows]


def is_open(db: sqlite3.Connection, now_ms: int) -> bool:
    """Whether a window is open at `now_ms`."""
    found = db.execute("SELECT 1 FROM maintenance_windows WHERE start_time <= ?1 AND end_time > ?1", (now_ms,))
    return found.fetchone() is not None


def add(db: sqlite3.Connection, start_time: int, end_time: int, title: str) -> Window:
    """Add a window; what would have become overdue in it will not."""
    done = db.execute(
        "INSERT INTO maintenance_windows (start_time, end_time, title) VALUES (?, ?, ?)", (start_time, end_time, title)
    )
    assert done.lastrowid is not None
    for window in reversed(windows(db)):  # what one window puts off may fall into the next
        excuse(db, window.start_time, window.end_time)
    return Window(done.lastrowid, start_time, end_time, title)


def delete(db: sqlite3.Connection, window_id: int) -> bool:
    """Delete a window, and have what is expected of all jobs worked out anew; False if there is none of that id."""
    if db.execute("DELETE FROM maintenance_windows WHERE id = ?", (window_id,)).rowcount == 0:
        return False
    db.execute("UPDATE jobs SET revision = revision + 1 WHERE overdue_since IS NULL")
    return True
