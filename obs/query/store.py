"""The limits that an organization has of its own, in the control file."""

import sqlite3

LIMITS = ("max_rows", "max_bytes_scanned", "max_seconds", "max_length", "rate_per_minute")
"""The limits that can be set. The setting of each is QUERY_ and its name in capitals."""


def own_limits(db: sqlite3.Connection, org: str) -> dict[str, int]:
    """The limits of `org` by name, where they differ from the settings."""
    rows = db.execute(
        "SELECT name, value FROM query_limits JOIN organizations ON organizations.id = organization_id WHERE slug = ?",
        (org,),
    )
    return {row["name"]: row["value"] for row in rows if row["name"] in LIMITS}


def set_limit(db: sqlite3.Connection, org: str, name: str, value: int | None) -> bool:
    """Set a limit of `org`, or remove it with None. False if there is no such organization."""
    row = db.execute("SELECT id FROM organizations WHERE slug = ?", (org,)).fetchone()
    if row is None:
        return False
    db.execute("DELETE FROM query_limits WHERE organization_id = ? AND name = ?", (row["id"], name))
    if value is not None:
        db.execute("INSERT INTO query_limits (organization_id, name, value) VALUES (?, ?, ?)", (row["id"], name, value))
    return True
