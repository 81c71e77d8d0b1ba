"""Copies of SQLite files that the service is using, and what is wrong with a file."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path


def copy(source: sqlite3.Connection, target: Path, progress: Callable[[float], None] = lambda _: None) -> None:
    """Write the file of `source`, as it is now, to the new file `target`, which only this user can read.

    Others may write meanwhile. `progress` is called with the share that is copied. Raises sqlite3.Error, OSError.
    """
    target.touch(mode=0o600, exist_ok=False)
    with closing(sqlite3.connect(target, isolation_level=None)) as writer:
        source.execute("BEGIN")
        try:
            source.execute("SELECT 1 FROM sqlite_schema").fetchone()  # one snapshot, or each write would start it again
            source.backup(writer, pages=2_000, progress=lambda _, left, total: progress(1 - left / max(total, 1)))
        finally:
            source.execute("ROLLBACK")
        writer.execute("PRAGMA journal_mode = DELETE")  # the copy is one file


def damages(db: sqlite3.Connection) -> list[str]:
    """What SQLite finds wrong with the structure and the foreign keys of a file; empty if nothing."""
    try:
        found = [row[0] for row in db.execute("PRAGMA integrity_check") if row[0] != "ok"]
        dangling = db.execute("PRAGMA foreign_key_check").fetchall()
    except sqlite3.DatabaseError as error:
        return [str(error)]
    return found + [f"row {row[1]} of {row[0]} refers to a missing row of {row[2]}" for row in dangling]
