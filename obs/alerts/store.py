"""The rows of incidents. One is open for a job and a kind at most: an index sees to that.

Times are milliseconds since the Unix epoch.
"""

import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from obs.alerts.source import KINDS


class Spell(Protocol):
    """A job in trouble now."""

    @property
    def job_id(self) -> int: ...
    @property
    def job(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def since(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Incident:
    """A spell of trouble; `ended_at` is None while it lasts."""

    id: int
    job: str
    kind: str
    started_at: int
    ended_at: int | None


class Bands(Protocol):
    """Where incidents are shown on charts."""

    def open(self, db: sqlite3.Connection, job: str, kind: str, start: int, now_ms: int) -> int:
        """Mark the start; the id of the annotation."""

    def close(self, db: sqlite3.Connection, annotation_id: int, end: int, now_ms: int) -> None:
        """Mark the end."""


class _Open(NamedTuple):
    id: int
    job_id: int
    kind: int
    started_at: int
    annotation_id: int


def differ(db: sqlite3.Connection, spells: Iterable[Spell], may_open: bool) -> bool:
    """Whether an incident is to be opened or closed."""
    begun, over = _difference(db, spells)
    return bool(over or (may_open and begun))


def reconcile(
    db: sqlite3.Connection,
    spells: Iterable[Spell],
    may_open: bool,
    now_ms: int,
    ended_at: Callable[[int], int | None],
    bands: Bands,
) -> None:
    """Open an incident for each spell that has none, unless silence is planned, and close those whose spell is over.

    ``ended_at(job_id)`` is the heartbeat that ended it: the end of the incident, if it came after its start.
    """
    begun, over = _difference(db, spells)
    for spell in begun if may_open else ():
        annotation_id = bands.open(db, spell.job, spell.kind, spell.since, now_ms)
        db.execute(
            "INSERT INTO incidents (job_id, kind, started_at, annotation_id) VALUES (?, ?, ?, ?)",
            (spell.job_id, KINDS.index(spell.kind), spell.since, annotation_id),
        )
    for incident in over:
        came = ended_at(incident.job_id)
        end = came if came is not None and incident.started_at < came <= now_ms else now_ms
        end = max(end, incident.started_at)
        closed = db.execute("UPDATE incidents SET ended_at = ? WHERE id = ? AND ended_at IS NULL", (end, incident.id))
        if closed.rowcount == 1:
            bands.close(db, incident.annotation_id, end, now_ms)


def incidents(db: sqlite3.Connection, *, limit: int, job_id: int | None = None) -> list[Incident]:
    """The latest incidents, of one job or of all, those that last first, then the newest start."""
    rows = db.execute(
        "SELECT incidents.id, jobs.name, kind, started_at, ended_at FROM incidents JOIN jobs ON jobs.id = job_id"
        " WHERE ?1 IS NULL OR job_id = ?1 ORDER BY ended_at IS NOT NULL, started_at DESC, incidents.id DESC LIMIT ?2",
        (job_id, limit),
    )
    return [Incident(row[0], row[1], KINDS[row[2]], row[3], row[4]) for row in rows]


def delete_incidents_before(db: sqlite3.Connection, cutoff: int, limit: int) -> int:
    """Delete at most `limit` incidents that ended before `cutoff`; how many there were."""
    return db.execute(
        "DELETE FROM incidents WHERE id IN (SELECT id FROM incidents WHERE started_at < ?1 AND ended_at < ?1 LIMIT ?2)",
        (cutoff, limit),
    ).rowcount


def _difference(db: sqlite3.Connection, spells: Iterable[Spell]) -> tuple[list[Spell], list[_Open]]:
    rows = db.execute("SELECT id, job_id, kind, started_at, annotation_id FROM incidents WHERE ended_at IS NULL")
    lasting = {(incident.job_id, incident.kind): incident for incident in map(_Open._make, rows)}
    wanted = {(spell.job_id, KINDS.index(spell.kind)): spell for spell in spells}
    begun = [spell for key, spell in wanted.items() if key not in lasting]
    over = [incident for key, incident in lasting.items() if key not in wanted]
    return begun, over
