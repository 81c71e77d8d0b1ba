"""Jobs, their runs and timelines: reading, the changes that users make, and deleting. Times are milliseconds."""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache, partial
from typing import Any, cast

from obs.api import PLACE, about, normalized
from obs.errors import existing
from obs.heartbeat import pins
from obs.heartbeat.overdue import Wait, waits_from_json
from obs.heartbeat.runs import KINDS, OUTCOMES, STATES, STATUSES, TROUBLE, Status
from obs.heartbeat.schedule.words import Description
from obs.heartbeat.source import AVERAGE_DURATION_SQL, OVERDUE_SQL, OVERRUNS_AT_SQL, PAUSED_SQL, SILENT_SQL, STATE_SQL
from obs.storage.connection import count_rows, first_value, save_row
from obs.times import MAX_MS


@dataclass(frozen=True, slots=True)
class Job:
    """`last_run_at` is a heartbeat if there is no run. From `changes_at` on, time alone may have changed `status`."""

    id: int
    name: str = field(metadata={"example": "nightly-backup"})
    status: str = field(metadata={"enum": STATES, "example": "ok"})
    last_outcome: str | None = field(metadata={"enum": (*OUTCOMES, None)})
    overdue: bool
    overrunning: bool
    last_heartbeat_at: int | None
    last_event_id: int
    interval_ms: int | None = field(metadata=about("The usual time between runs.", 86400000))
    expected_at: int | None = field(metadata=about("When the next heartbeat is expected."))
    overdue_at: int | None = field(metadata=about("When the job becomes overdue without a heartbeat."))
    overdue_since: int | None
    avg_duration_ms: float | None = field(metadata=about("Of the recent successful runs, about 20.", 61500.0))
    run_count: int = field(metadata={"example": 44})
    host: str | None = field(metadata=about("The latest X-Platform-Host, if any was sent."))
    service: str | None = field(metadata=about("The latest X-Platform-Service, if any was sent."))
    project: str | None = field(metadata=about("The latest X-Platform-Project, if any was sent."))
    created_at: int
    first_heartbeat_at: int | None = field(metadata=about("The earliest time of a heartbeat."))
    learned: Description | None
    schedule_changed_at: int | None = field(metadata=about("The schedule is learned from the heartbeats since then."))
    pin: pins.Pin | None
    waits: Sequence[Wait]
    paused: bool
    paused_until: int | None = field(metadata=about("null: until the job is resumed."))
    failure_tolerance: int = field(metadata=about("Failures in a row that open an incident.", 1))
    failures_in_row: int = field(metadata={"example": 0})
    success_count: int = field(metadata=about("Runs that succeeded, deleted ones included.", 42))
    failed_count: int = field(metadata={"example": 1})
    lost_count: int = field(metadata={"example": 1})
    last_success_at: int | None
    last_duration_ms: int | None = field(metadata={"example": 61500})
    last_run_at: int
    changes_at: int


@dataclass(frozen=True, slots=True)
class Run:
    id: int = field(metadata={"example": 42})
    run_id: str | None = field(metadata=about("The client's own id."))
    job: str = field(metadata={"example": "nightly-backup"})
    status: str = field(metadata={"enum": STATUSES, "example": "success"})
    started_at: int
    ended_at: int | None
    duration_ms: int | None = field(metadata={"example": 61500})
    exit_code: int | None = field(metadata={"example": 0})
    late_ms: int | None = field(metadata=about("How long after the expected time it started."))
    host: str | None
    service: str | None
    project: str | None


@dataclass(frozen=True, slots=True)
class Event:
    kind: str = field(metadata={"enum": KINDS})
    time: int
    received_at: int
    message: str | None


_OPEN_RUNS = f"FROM runs INDEXED BY runs_open WHERE status = {Status.OPEN:d}"  # not a scan of all runs
_MOMENTS = ("jobs.expected_at", "jobs.overdue_at", "jobs.paused_until", OVERRUNS_AT_SQL)
_JOB = f"""
    SELECT jobs.id, jobs.name, {STATE_SQL} AS status, jobs.last_outcome, {OVERDUE_SQL} AS overdue,
           {OVERRUNS_AT_SQL} <= :now AS overrunning, jobs.interval_ms, jobs.expected_at,
           iif({SILENT_SQL}, NULL, jobs.last_heartbeat_at) AS last_heartbeat_at,
           nullif(jobs.first_heartbeat_at, {MAX_MS}) AS first_heartbeat_at,
           jobs.overdue_at, jobs.overdue_since, {AVERAGE_DURATION_SQL} AS avg_duration_ms, jobs.run_count,
           a.host, a.service, a.project, jobs.created_at, fits.learned, jobs.schedule_changed_at,
           jobs.pin, jobs.waits, {PAUSED_SQL} AS paused, iif({PAUSED_SQL}, jobs.paused_until, NULL) AS paused_until,
           jobs.failure_tolerance, jobs.failures_in_row, jobs.last_event_id, jobs.success_count, jobs.failed_count,
           jobs.lost_count, jobs.last_success_at, jobs.last_duration_ms,
           coalesce((SELECT max(started_at) FROM runs WHERE job_id = jobs.id), jobs.last_heartbeat_at) AS last_run_at,
           min({", ".join(f"iif({moment} > :now, {moment}, {MAX_MS})" for moment in _MOMENTS)}) AS changes_at
    FROM jobs
    LEFT JOIN attributions AS a ON a.id = jobs.attribution_id
    LEFT JOIN fits ON fits.job_id = jobs.id
"""
_RUN = """
    SELECT runs.id, runs.run_id, jobs.name AS job, runs.status, runs.started_at, runs.ended_at, runs.duration_ms,
           runs.exit_code, runs.late_ms, a.host, a.service, a.project
    FROM runs JOIN jobs ON jobs.id = runs.job_id LEFT JOIN attributions AS a ON a.id = runs.attribution_id
"""
_LABEL = r"""'{}="' || replace(replace(replace(ifnull({}, ''), '\', '\\'), '"', '\"'), char(10), '\n') || '"'"""
_LABELS = " || ',' || ".join(map(_LABEL.format, ("job", *PLACE), ("name", *PLACE)))
_JOB_FILTERS = {
    "q": "instr(lower(jobs.name), lower(:q)) > 0",
    "prefix": "substr(jobs.name, 1, length(:prefix)) = :prefix",
    "status": f"({STATE_SQL} = :status OR :status = 'trouble' AND {STATE_SQL} IN {TROUBLE})",
    **{name: f"a.{name} = :{name}" for name in PLACE},
}
_CHOSEN = "IN (SELECT value FROM json_each(?)) ORDER BY"
_DELETIONS = (
    f"DELETE FROM events WHERE id IN (SELECT id FROM events WHERE job_id {_CHOSEN} job_id, received_at, id LIMIT ?)",
    f"DELETE FROM runs WHERE id IN (SELECT id FROM runs WHERE job_id {_CHOSEN} job_id, started_at, id LIMIT ?)",
    f"DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE id {_CHOSEN} id LIMIT min(?, 5))",  # with their rollups
)


def jobs(db: sqlite3.Connection, now_ms: int, *, after: str | None, limit: int, **filters: str | None) -> list[Job]:
    given = {name: value for name, value in filters.items() if value is not None}
    conditions = "".join(f" AND {_JOB_FILTERS[name]}" for name in given)
    which = f"(:after IS NULL OR jobs.name > :after){conditions} ORDER BY jobs.name LIMIT :limit"
    return _jobs(db, which, now=now_ms, after=after, limit=limit, **given)


def job(db: sqlite3.Connection, name: str, now_ms: int) -> Job | None:
    return next(iter(_jobs(db, "jobs.id = :id", now=now_ms, id=job_id(db, name))), None)


def jobs_by_id(db: sqlite3.Connection, ids: Iterable[int] | None, now_ms: int) -> dict[int, Job]:
    which = "1" if ids is None else "jobs.id IN (SELECT value FROM json_each(:ids))"
    return {one.id: one for one in _jobs(db, which, now=now_ms, ids=json.dumps(list(ids or ())))}


def metrics(db: sqlite3.Connection, now_ms: int) -> list[sqlite3.Row]:
    """All jobs as metrics of Prometheus, by column name: the labels as text, and the values."""
    counts = ", ".join(f"{outcome}_count" for outcome in OUTCOMES)
    found = f"SELECT {_LABELS} AS labels, {STATE_SQL} AS status, {OVERDUE_SQL} AS overdue, last_success_at,"
    found += f" last_duration_ms, {counts} FROM jobs LEFT JOIN attributions AS a ON a.id = attribution_id"
    return db.execute(found, {"now": now_ms}).fetchall()


def job_id(db: sqlite3.Connection, name: str) -> int | None:
    """The id of the job with exactly that name, else of the one whose name is the same text; None if there is none."""
    found = "SELECT id FROM jobs WHERE name IN (?1, ?2) ORDER BY name = ?1 DESC"
    return cast("int | None", first_value(db, found, (name, normalized(name))))


def add_job(db: sqlite3.Connection, name: str, now_ms: int, heartbeat_at: int | None = None) -> int:
    """Add a job and return its id. Without a heartbeat, a pin counts from now."""
    first, last = (MAX_MS, now_ms) if heartbeat_at is None else (heartbeat_at, heartbeat_at)
    times = {"created_at": now_ms, "first_heartbeat_at": first, "last_heartbeat_at": last}
    return save_row(db, "jobs", {"name": name, **times, "last_event_id": 0})


def ping_uuid(db: sqlite3.Connection, job_id: int) -> str | None:
    return cast("str | None", first_value(db, "SELECT uuid FROM ping_urls WHERE job_id = ?", (job_id,)))


def set_ping_uuid(db: sqlite3.Connection, job_id: int, uuid: str, *, replaces: str | None) -> None:
    """Give a job this UUID if the one that it has is `replaces`; None: only if it has none."""
    add = "INSERT INTO ping_urls (job_id, uuid) SELECT id, ?2 FROM jobs WHERE id = ?1"
    replace = " ON CONFLICT (job_id) DO UPDATE SET uuid = excluded.uuid WHERE uuid = ?3"
    db.execute(add + replace, (job_id, uuid, replaces))


def name_of_uuid(db: sqlite3.Connection, uuid: str) -> str | None:
    found = "SELECT jobs.name FROM ping_urls JOIN jobs ON jobs.id = ping_urls.job_id WHERE uuid = ?"
    return cast("str | None", first_value(db, found, (uuid,)))


def jobs_with_open_runs(db: sqlite3.Connection) -> set[int]:
    return {row["job_id"] for row in db.execute(f"SELECT job_id {_OPEN_RUNS}")}


def runs_of(
    db: sqlite3.Connection,
    job_id: int,
    *,
    after: tuple[int, int] | None = None,
    limit: int,
    status: str | None = None,
    start_ms: int | None = None,
    end_ms: int | None = None,
    longer_than_ms: float | None = None,
) -> list[Run]:
    """Newest start first, after the run `after` = (started_at, id); of those from `start_ms` to before `end_ms`."""
    which = "runs.job_id = ?1 AND (runs.started_at, runs.id) < (?2, ?3) AND runs.started_at >= ?4"
    which += " AND (?5 IS NULL OR runs.status = ?5) AND (?6 IS NULL OR runs.duration_ms > ?6)"
    before = min(after or (2**63 - 1, 0), (2**63 - 1 if end_ms is None else end_ms, 0))
    wanted = (start_ms or 0, None if status is None else STATUSES.index(status), longer_than_ms)
    which += " ORDER BY runs.started_at DESC, runs.id DESC LIMIT ?7"
    return _runs(db, which, (job_id, *before, *wanted, limit))


def run(db: sqlite3.Connection, number: int) -> Run:
    """The run with this id. Raises ServiceError (404)."""
    return existing("run", number, _runs(db, "runs.id = ?", (number,)))


def silent_since(db: sqlite3.Connection, host: str | None, now_ms: int) -> int | None:
    """The time of the last heartbeat from a host with three jobs or more that are all overdue or late, else None."""
    silent = (
        "SELECT max(last_heartbeat_at) FROM attributions AS a JOIN jobs ON jobs.attribution_id = a.id WHERE a.host = ?"
        " HAVING count(*) >= 3 AND min(overdue_since IS NOT NULL OR coalesce(expected_at < ?, 0))"
    )
    return cast("int | None", first_value(db, silent, (host, now_ms)))


def timeline(db: sqlite3.Connection, run_id: int) -> tuple[list[Event], int]:
    """The first and the last 500 events of a run, and how many are in between: there may be a gigabyte of them."""
    first = "SELECT id FROM events WHERE run_id = ?1 ORDER BY time, id LIMIT 500"
    last = first.replace("time, id", "time DESC, id DESC")
    events = _events(db, f"id IN ({first}) OR id IN ({last}) ORDER BY time, id", run_id)
    return events, count_rows(db, table="events", condition=f"run_id = {run_id:d}") - len(events)


def last_lines(db: sqlite3.Connection, run_id: int, count: int) -> list[str]:
    """The last lines of the messages of a run, of which only the last ones are read: there may be many."""
    sent = "SELECT message FROM events WHERE run_id = ? AND message IS NOT NULL ORDER BY id DESC LIMIT ?"
    messages = [message for (message,) in db.execute(sent, (run_id, count))]
    return [line for message in reversed(messages) for line in message.splitlines()][-count:]


def loose_events(db: sqlite3.Connection, job_id: int, limit: int) -> list[Event]:
    return _events(db, "job_id = ? AND run_id IS NULL ORDER BY received_at DESC, id DESC LIMIT ?", job_id, limit)


def change(db: sqlite3.Connection, job_id: int, columns: Mapping[str, Any], is_rescheduled: bool) -> None:
    learn = ["learned_event_id = NULL", "revision = revision + 1"] if is_rescheduled else []
    values = ", ".join([*(f"{name} = :{name}" for name in columns), *learn, "changed = 0"])
    db.execute(f"UPDATE jobs SET {values} WHERE id = :id", {**columns, "id": job_id})


def suggest_pin(db: sqlite3.Connection, name: str, pin: pins.Pin) -> None:
    """Pin the schedule that the job `name` itself declares, unless a person has decided on its pin."""
    change = "UPDATE jobs SET pin = ?1, learned_event_id = NULL, revision = revision + 1"
    db.execute(f"{change} WHERE name = ?2 AND NOT pinned_by_person AND pin IS NOT ?1", (pins.to_json(pin), name))


def with_prefix(db: sqlite3.Connection, prefix: str, limit: int = -1) -> dict[int, str]:
    named = "SELECT id, name FROM jobs WHERE name >= ?1 AND substr(name, 1, length(?1)) = ?1 ORDER BY name LIMIT ?2"
    return dict(db.execute(named, (normalized(prefix), limit)).fetchall())


def delete_jobs(db: sqlite3.Connection, limit: int, ids: Sequence[int]) -> int:
    """Delete at most `limit` events of these jobs; without events, runs; without runs, the jobs. Returns how many."""
    return next(filter(None, (db.execute(each, (json.dumps(ids), limit)).rowcount for each in _DELETIONS)), 0)


def _jobs(db: sqlite3.Connection, condition: str, **values: Any) -> list[Job]:
    found = []
    for row in map(_values, db.execute(f"{_JOB} WHERE {condition}", values)):
        outcome = row["last_outcome"]
        row["last_outcome"] = None if outcome is None else STATUSES[outcome]
        for name in ("overdue", "overrunning", "paused"):
            row[name] = bool(row[name])
        row["learned"], row["pin"] = _description(row["learned"]), _pin(row["pin"])
        row["waits"] = waits_from_json(row["waits"])
        found.append(Job(**row))
    return found


count_jobs = partial(count_rows, table="jobs")
# Most rows are as they were at the last request, and decoding these two would take longer than the rest of a row.
_pin = lru_cache(maxsize=4096)(pins.from_json)


@lru_cache(maxsize=4096)
def _description(text: str | None) -> Description | None:
    """The description that was stored with a fit; None where another version of the learner stored other fields."""
    values = {} if text is None else json.loads(text)
    return Description(**values) if values.keys() == {one.name for one in fields(Description)} else None


def _runs(db: sqlite3.Connection, condition: str, values: Sequence[Any]) -> list[Run]:
    rows = map(_values, db.execute(f"{_RUN} WHERE {condition}", values))
    return [Run(**{**row, "status": STATUSES[row["status"]]}) for row in rows]


def _events(db: sqlite3.Connection, condition: str, *values: int) -> list[Event]:
    rows = db.execute(f"SELECT kind, time, received_at, message FROM events WHERE {condition}", values)
    return [Event(KINDS[kind], *rest) for kind, *rest in rows]


def _values(row: sqlite3.Row) -> dict[str, Any]:
    """The values of a row by column name. `dict(row)` does the same, but searches all columns for each value."""
    return dict(zip(row.keys(), row, strict=True))
