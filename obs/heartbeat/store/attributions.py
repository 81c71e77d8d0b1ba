"""Where jobs run: each combination of host, service and project is kept once."""

import sqlite3
from typing import NamedTuple


class Attribution(NamedTuple):
    """Where a job runs; None for what is not known."""

    host: str | None
    service: str | None
    project: str | None

    def updated(self, later: "Attribution") -> "Attribution":
        """What holds after a call that says `later`: what it leaves out does not change."""
        return Attribution(later.host or self.host, later.service or self.service, later.project or self.project)


NOWHERE = Attribution(None, None, None)


def find_attribution(db: sqlite3.Connection, known_id: int | None, known: Attribution, said: Attribution) -> int | None:
    """The id of `known` as updated by what a call `said`, None for nowhere. One that is new is added."""
    if said == NOWHERE:
        return known_id
    updated = known.updated(said)
    if updated == known:
        return known_id
    values = tuple(value or "" for value in updated)
    find = (
        "SELECT id FROM attributions"
        " WHERE coalesce(host, '') = ? AND coalesce(service, '') = ? AND coalesce(project, '') = ?"
    )
    row = db.execute(find, values).fetchone()
    if row is not None:
        found: int = row[0]
        return found
    return db.execute("INSERT INTO attributions (host, service, project) VALUES (?, ?, ?)", updated).lastrowid
