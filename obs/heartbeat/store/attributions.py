"""Where jobs run: each combination of host, service and project is stored once."""

import sqlite3
from typing import NamedTuple


class Attribution(NamedTuple):
    """Where a job runs; None for what was never reported."""

    host: str | None
    service: str | None
    project: str | None


NOWHERE = Attribution(None, None, None)


def find_attribution(db: sqlite3.Connection, known_id: int | None, known: Attribution, sent: Attribution) -> int | None:
    """The id of `known` updated with what a call `sent`; None for nowhere. A new combination is added.

    What the call leaves out does not change.
    """
    if sent == NOWHERE:
        return known_id
    updated = Attribution(*(later or before for later, before in zip(sent, known, strict=True)))
    if updated == known:
        return known_id
    values = tuple(value or "" for value in updated)
    find = (
        "SELECT id FROM attributions"
        " WHERE coalesce(host, '') = ? AND coalesce(service, '') = ? AND coalesce(project, '') = ?"
    )
    row = db.execute(find, values).fetchone()
    if row is not None:
        found: int = row["id"]
        return found
    return db.execute("INSERT INTO attributions (host, service, project) VALUES (?, ?, ?)", updated).lastrowid


def delete_names_before(db: sqlite3.Connection, limit: int, cutoff: int) -> int:
    """Delete the names of at most `limit` attributions that were last used before `cutoff`; returns how many.

    Names that a job still has are kept. The rows stay: to delete one, SQLite would search all events for its id.
    """
    return db.execute(
        "UPDATE attributions SET host = NULL, service = NULL, project = NULL, last_used_at = NULL"
        " WHERE id IN (SELECT id FROM attributions WHERE last_used_at < ?"
        " AND id NOT IN (SELECT attribution_id FROM jobs WHERE attribution_id IS NOT NULL"
        " UNION ALL SELECT attribution_id FROM events WHERE attribution_id IS NOT NULL"
        " AND id > (SELECT up_to FROM indexed_messages)) LIMIT ?)",
        (cutoff, limit),
    ).rowcount
