"""The rows of incidents. A unique index allows one open incident for a job and a kind.

Times are milliseconds since the Unix epoch.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from obs.alerts.kinds import KINDS, IncidentKind

_SEVERITY = " ".join(f"WHEN {kind:d} THEN {place}" for place, kind in enumerate(IncidentKind))


@dataclass(frozen=True, slots=True)
class Incident:
    """An incident; `ended_at` is None while it is open. `kind` is one of `KINDS`."""

    id: int
    job: str
    kind: str
    started_at: int
    ended_at: int | None


@dataclass(frozen=True, slots=True)
class OpenIncident:
    """An open incident with the annotation that shows it."""

    id: int
    job_id: int
    kind: IncidentKind
    started_at: int
    annotation_id: int


def open_incidents(db: sqlite3.Connection, job_ids: Iterable[int] | None = None) -> list[OpenIncident]:
    """All open incidents, or those of some jobs."""
    which = "" if job_ids is None else "AND job_id IN (SELECT value FROM json_each(?))"
    rows = db.execute(
        f"SELECT id, job_id, kind, started_at, annotation_id FROM incidents WHERE ended_at IS NULL {which}",
        () if job_ids is None else (json.dumps(list(job_ids)),),
    )
    return [OpenIncident(**{**dict(row), "kind": IncidentKind(row["kind"])}) for row in rows]


def open_incident(db: sqlite3.Connection, job_id: int, kind: IncidentKind, started_at: int, annotation_id: int) -> None:
    """Open an incident. Raises sqlite3.IntegrityError where one of the same job and kind is open."""
    db.execute(
        "INSERT INTO incidents (job_id, kind, started_at, annotation_id) VALUES (?, ?, ?, ?)",
        (job_id, kind, started_at, annotation_id),
    )


def close_incident(db: sqlite3.Connection, incident_id: int, ended_at: int) -> bool:
    """Close an incident; False if it is not open any more."""
    closed = db.execute("UPDATE incidents SET ended_at = ? WHERE id = ? AND ended_at IS NULL", (ended_at, incident_id))
    return closed.rowcount == 1


def incidents(db: sqlite3.Connection, *, limit: int, job_id: int | None = None) -> list[Incident]:
    """The latest incidents, of one job or of all: open ones first, the most severe ones of them, the newest start."""
    rows = db.execute(
        "SELECT incidents.id, jobs.name AS job, kind, started_at, ended_at FROM incidents"
        " JOIN jobs ON jobs.id = job_id WHERE ?1 IS NULL OR job_id = ?1"
        f" ORDER BY ended_at IS NOT NULL, CASE WHEN ended_at IS NULL THEN CASE kind {_SEVERITY} END END,"
        " started_at DESC, incidents.id DESC LIMIT ?2",
        (job_id, limit),
    )
    return [Incident(**{**dict(row), "kind": KINDS[row["kind"]]}) for row in rows]


def correct_times(db: sqlite3.Connection, correction: Mapping[str, int]) -> None:
    """Correct the times of incidents that a wrong clock recorded. See `obs.heartbeat.store.upkeep.correct_times`."""
    last = "SELECT max(id) FROM incidents WHERE started_at <= :start_ms OR started_at > :end_ms"
    is_wrong = f"({{0}} > :latest_ms OR (id > coalesce(({last}), 0) AND {{0}} > :start_ms AND {{0}} <= :end_ms))"
    for time in ("ended_at", "started_at"):  # the ids are found by started_at
        moved = f"UPDATE incidents SET {time} = min({time} + :step_ms, :latest_ms) WHERE {is_wrong.format(time)}"
        db.execute(moved, correction)


def version(db: sqlite3.Connection) -> object:
    """Changes whenever an incident is opened or closed."""
    open_ids = "SELECT group_concat(id) FROM incidents WHERE ended_at IS NULL"
    return tuple(db.execute(f"SELECT max(id), ({open_ids}) FROM incidents").fetchone())


def delete_incidents_before(db: sqlite3.Connection, limit: int, cutoff: int) -> int:
    """Delete at most `limit` incidents that ended before `cutoff`; returns how many."""
    return db.execute(
        "DELETE FROM incidents WHERE id IN (SELECT id FROM incidents WHERE started_at < ?1 AND ended_at < ?1"
        " ORDER BY started_at, id LIMIT ?2)",
        (cutoff, limit),
    ).rowcount
