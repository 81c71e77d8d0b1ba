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
