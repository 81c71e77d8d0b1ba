"""Rows of incidents: unique indexes allow one open for a job, kind and host, or alert and group. Times are in ms."""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial

from obs.api import about
from obs.errors import existing
from obs.storage.connection import count_rows, delete_oldest, save_row


class IncidentKind(IntEnum):
    """The kind of an incident, the most severe first. The value is the number in the database."""

    FAILING = 1
    LOST = 2
    OVERDUE = 0
    ALERT = 5
    OVERRUNNING = 3
    TOO_OFTEN = 4

    @property
    def word(self) -> str:
        """The word in the API and in OQL: ``too_often``."""
        return KINDS[self]

    @property
    def event(self) -> str:
        """The word for its beginning, which channels are notified of: ``failed``."""
        return "failed" if self is IncidentKind.FAILING else self.word

    def title(self, job: str) -> str:
        """The title of an incident of this kind: ``shop/sync-stock failing``."""
        return f"{job} {_TITLES.get(self.word, self.word)}"


_TITLES = {"lost": "lost a run", "too_often": "runs more often than expected", "alert": "firing"}
KINDS = tuple(kind.name.lower() for kind in sorted(IncidentKind))  # each at the index of its number
FALSE_ALARM, RIGHT = VERDICTS = ("false_alarm", "right")  # of a person, about an incident of the kind overdue
SAME = """
    incidents AS this JOIN incidents AS i ON i.job_id IS this.job_id AND i.kind = this.kind
    AND i.alert_id IS this.alert_id AND i.alert_group IS this.alert_group AND i.host = this.host
"""
"""SQL: the incidents `i` that are about the same as `this`, which is one of them."""
_SEVERITY = " ".join(f"WHEN {kind:d} THEN {place}" for place, kind in enumerate(IncidentKind))
_ENDED_BY_SUCCESS = f"{IncidentKind.FAILING:d}, {IncidentKind.LOST:d}, {IncidentKind.OVERRUNNING:d}"
_INCIDENT = f"""
    SELECT i.id, i.job_id, coalesce(jobs.name, i.subject) AS job, i.alert_id,
           coalesce(jobs.name || iif(i.host = '', '', ' on ' || i.host), i.subject) AS subject,
           CASE WHEN i.host <> '' THEN h.last_heartbeat_at WHEN i.kind IN ({_ENDED_BY_SUCCESS})
           THEN iif(jobs.failures_in_row, NULL, jobs.last_success_at) ELSE jobs.last_heartbeat_at END AS heartbeat_at,
           i.alert_group AS "group", i.value, i.kind, i.started_at, i.ended_at, i.acknowledged_at, i.acknowledged_by,
           i.verdict, i.annotation_id, coalesce(nullif(i.host, ''), a.host) AS host, a.service, a.project,
           {{notified}} AS notified
    FROM incidents AS i LEFT JOIN jobs ON jobs.id = i.job_id LEFT JOIN attributions AS a ON a.id = jobs.attribution_id
    LEFT JOIN host_schedules AS h ON h.job_id = i.job_id AND h.host = i.host
"""
_NOTIFIED = """
    (SELECT json_group_array(json_array(channel, at)) FROM (SELECT channel, min(sent_at) AS at
     FROM delivery_incidents AS di JOIN deliveries AS d ON d.id = di.delivery_id
     WHERE di.incident_id = i.id AND sent_at IS NOT NULL GROUP BY channel_id ORDER BY at))
"""


@dataclass(frozen=True, slots=True)
class Incident:
    """An incident with its job's name and latest attribution, its annotation and the last heartbeat that may end it."""

    id: int
    job_id: int | None  # None for an alert
    job: str = field(metadata={"example": "nightly-backup"})  # or the name of the alert with that of its group
    subject: str = field(metadata=about("The job, and the host if it is about that one.", "nightly-backup on nas02"))
    heartbeat_at: int | None
    alert_id: int | None
    group: str | None
    value: float | None  # of the group, when the alert began to fire
    kind: IncidentKind
    started_at: int
    ended_at: int | None = field(metadata=about("null while it is open."))
    acknowledged_at: int | None
    acknowledged_by: str | None = field(metadata=about("Who acknowledged it, as in the audit log."))
    verdict: str | None = field(metadata={"enum": (*VERDICTS, None), "description": "What somebody said about it."})
    annotation_id: int
    host: str | None
    service: str | None
    project: str | None
    notified: Sequence[tuple[str, int]]  # channels, each with the time of its first message; only from `incidents`


def open_incidents(db: sqlite3.Connection, job_ids: Iterable[int] | None = None) -> dict[tuple[int, str, str], int]:
    """The ids of the open incidents of all jobs, or of some, by the job's id, the word for the kind, and the host."""
    ids = json.dumps(list(job_ids or ()))
    which = "job_id IS NOT NULL" if job_ids is None else "job_id IN (SELECT value FROM json_each(:ids))"
    rows = db.execute(f"SELECT job_id, kind, host, id FROM incidents WHERE ended_at IS NULL AND {which}", {"ids": ids})
    return {(job_id, KINDS[kind], host): incident_id for job_id, kind, host, incident_id in rows}


def firing(db: sqlite3.Connection, alert_id: int | None = None) -> dict[int, dict[str, Incident]]:
    """The open incidents of all alerts, or of one, by the id of the alert and by group."""
    which = "WHERE i.ended_at IS NULL AND i.alert_id IS NOT NULL AND (?1 IS NULL OR i.alert_id = ?1)"
    found: dict[int, dict[str, Incident]] = {}
    for one in _found(db, which, (alert_id,)):
        found.setdefault(one.alert_id or 0, {})[one.group or ""] = one
    return found


def incidents_by_id(db: sqlite3.Connection, ids: Iterable[int]) -> list[Incident]:
    """The incidents with these ids, as far as they exist, the worst first."""
    order = f"i.ended_at IS NOT NULL, CASE kind {_SEVERITY} END, i.started_at"
    return _found(db, f"WHERE i.id IN (SELECT value FROM json_each(?)) ORDER BY {order}", (json.dumps(list(ids)),))


def incident(db: sqlite3.Connection, incident_id: int) -> Incident:
    """The incident with this id. Raises ServiceError (404)."""
    return existing("incident", incident_id, incidents_by_id(db, [incident_id]))


def incidents(db: sqlite3.Connection, *, limit: int, job_id: int | None = None) -> list[Incident]:
    """The latest incidents, of one job or of all: open ones first, the most severe ones of them, the newest start."""
    order = f"i.ended_at IS NOT NULL, CASE WHEN i.ended_at IS NULL THEN CASE kind {_SEVERITY} END END"
    which = f"WHERE ?1 IS NULL OR i.job_id = ?1 ORDER BY {order}, i.started_at DESC, i.id DESC LIMIT ?2"
    return _found(db, which, (job_id, limit), _NOTIFIED)


def page(db: sqlite3.Connection, limit: int, after: tuple[int, int] | None, **filters: str | None) -> list[Incident]:
    """Newest start first, after the incident `after` = (started_at, id); of one job, or in a state: open, resolved."""
    which = (
        "WHERE (i.started_at, i.id) < (?1, ?2) AND (?3 IS NULL OR coalesce(jobs.name, i.subject) = ?3)"
        " AND (?4 IS NULL OR iif(i.ended_at IS NULL, 'open', 'resolved') = ?4)"
        " ORDER BY i.started_at DESC, i.id DESC LIMIT ?5"
    )
    return _found(db, which, (*(after or (2**63 - 1, 0)), filters["job"], filters["state"], limit))


def _found(db: sqlite3.Connection, which: str, values: Sequence[object], notified: str = "'[]'") -> list[Incident]:
    rows = map(dict, db.execute(_INCIDENT.format(notified=notified) + which, values))
    return [
        Incident(**row | {"kind": IncidentKind(row["kind"]), "notified": json.loads(row["notified"])}) for row in rows
    ]


def how_often(db: sqlite3.Connection, ids: Iterable[int], length_ms: int) -> dict[int, int]:
    """How many incidents of the same job or alert and kind began in the time before each, by id; no false alarms."""
    sql = (
        f"SELECT this.id, count(DISTINCT i.started_at) FROM {SAME} WHERE this.id IN (SELECT value FROM json_each(?1))"
        " AND i.started_at BETWEEN this.started_at - ?2 AND this.started_at"
        " AND (i.verdict IS NOT ?3 OR i.id = this.id) GROUP BY this.id"
    )
    return dict(db.execute(sql, (json.dumps(list(ids)), length_ms, FALSE_ALARM)).fetchall())


def correct_times(db: sqlite3.Connection, correction: Mapping[str, int]) -> None:
    """Correct the times of incidents that a wrong clock recorded. See `obs.heartbeat.store.upkeep.correct_times`."""
    last = "SELECT max(id) FROM incidents WHERE started_at <= :start_ms OR started_at > :end_ms"
    is_wrong = f"({{0}} > :latest_ms OR (id > coalesce(({last}), 0) AND {{0}} > :start_ms AND {{0}} <= :end_ms))"
    for time in ("ended_at", "acknowledged_at", "started_at"):  # the ids are found by started_at
        moved = f"UPDATE incidents SET {time} = min({time} + :step_ms, :latest_ms) WHERE {is_wrong.format(time)}"
        db.execute(moved, correction)


count_open = partial(count_rows, table="incidents", condition="ended_at IS NULL")
save = partial(save_row, table="incidents")  # IntegrityError: one of the same job, kind and host is open
_IS_OLD = "started_at < :cutoff AND ended_at < :cutoff"
delete_before = partial(delete_oldest, table="incidents", time="started_at", condition=_IS_OLD)
