"""The limits that an organization has of its own, in the control file."""

import sqlite3

from obs.storage.org import Org

LIMITS = ("max_rows", "max_bytes_scanned", "max_seconds", "max_length", "rate_per_minute")
"""The limits that can be set. The setting of each is QUERY_ and its name in capitals."""


def own_limits(db: sqlite3.Connection, org: Org) -> dict[str, int]:
    """The limits of `org` by name, where they differ from the settings."""
    rows = db.execute("SELECT name, value FROM query_limits WHERE organization_id = ?", (org.id,))
    return {row["name"]: row["value"] for row in rows if row["name"] in LIMITS}


def set_limit(db: sqlite3.Connection, org: Org, name: str, value: int | None) -> bool:
    """Set a limit of `org`, or remove it with None. False if there is no such organization."""
    if db.execute("SELECT 1 FROM organizations WHERE id = ?", (org.id,)).fetchone() is None:
        return False
    db.execute("DELETE FROM query_limits WHERE organization_id = ? AND name = ?", (org.id, name))
    if value is not None:
        db.execute("INSERT INTO query_limits (organization_id, name, value) VALUES (?, ?, ?)", (org.id, name, value))
    return True
