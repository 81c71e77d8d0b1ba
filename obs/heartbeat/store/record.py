"""Recording heartbeats: the hot path. A call runs a few statements in one transaction, all constant texts."""

import sqlite3
from collections.abc import Callable
from typing import NamedTuple, cast

from obs.heartbeat.runs import Action, Heartbeat, Kind, Run, Status, act, duration_of_close, outcome
from obs.heartbeat.source import IS_LEARNED_SQL, SILENT_SQL
from obs.heartbeat.store.jobs import add_job, count_jobs
from obs.storage.connection import first_value, save_row
from obs.times import DAY_MS, MINUTE_MS


class Attribution(NamedTuple):
    host: str | None
    service: str | None
    project: str | None


RECENT_RUNS = 20  # successful runs that the average duration is about; each further one replaces a part of the sum
NOWHERE = Attribution(None, None, None)
_Known = tuple[int | None, Attribution]  # what is known of the place of a job or a run: the id and its parts
_IS_PLACE = " AND ".join(f"coalesce({part}, '') = ?" for part in Attribution._fields)


def find_attribution(db: sqlite3.Connection, sent: Attribution, known: _Known = (None, NOWHERE)) -> int | None:
    """The id of the `known` place with the parts that a call `sent`; None for nowhere. A new combination is added."""
    if sent == NOWHERE:
        return known[0]
    updated = Attribution(*(later or before for later, before in zip(sent, known[1], strict=True)))
    if updated == known[1]:
        return known[0]
    values = tuple(value or "" for value in updated)
    found: int | None = first_value(db, f"SELECT id FROM attributions WHERE {_IS_PLACE}", values)
    return save_row(db, "attributions", updated._asdict()) if found is None else found


class JobHeartbeat(NamedTuple):
    """A heartbeat of the job `job`. A repeated `idempotency_key` within 24 hours is recorded once."""

    job: str
    heartbeat: Heartbeat
    attribution: Attribution = NOWHERE
    idempotency_key: str | None = None


class Recorded(NamedTuple):
    """What a call did: to which run, and what the counters of the job are to count."""

    run_id: int | None
    run_status: Status | None
    time: int
    job_created: bool = False
    new_runs: int = 0
    outcome: Status | None = None
    duration_ms: int | None = None


class _Job(NamedTuple):
    id: int
    last_heartbeat_at: int
    expected_at: int | None
    place: _Known = (None, NOWHERE)
    run_place: _Known = (None, NOWHERE)


_FIND = f"""
    SELECT jobs.id, jobs.last_heartbeat_at, iif({IS_LEARNED_SQL}, jobs.expected_at, NULL),
           jobs.attribution_id, a.host, a.service, a.project,
           r.attribution_id, b.host, b.service, b.project,
           r.id, r.status, r.started_at, r.run_id {{facts}}
    FROM jobs
    LEFT JOIN runs AS r ON r.id = {{run}}
    LEFT JOIN attributions AS a ON a.id = jobs.attribution_id
    LEFT JOIN attributions AS b ON b.id = r.attribution_id
    WHERE jobs.name = ?1
"""
# A start without a run id applies only to the open run without one. The other calls fall back to an open run with one.
_OPEN_RUNS = f"SELECT o.id FROM runs AS o WHERE o.job_id = jobs.id AND o.status = {Status.OPEN:d}"
_NAMED = "(SELECT o.id FROM runs AS o WHERE o.job_id = jobs.id AND o.run_id = ?2)"
# An open run has a start and no end. Only of another one, the events are searched, which may be many.
_REPORT = "iif(r.status = {:d}, {:d}, EXISTS (SELECT 1 FROM events AS e WHERE e.run_id = r.id AND e.kind = {:d}))"
_REPORTS = f", {_REPORT.format(Status.OPEN, 1, Kind.START)}, {_REPORT.format(Status.OPEN, 0, Kind.END)}"
_FIND_FOR_START = _FIND.format(run=f"({_OPEN_RUNS} AND o.run_id IS NULL ORDER BY o.id DESC LIMIT 1)", facts="")
_FIND_FOR_OTHERS = _FIND.format(run=f"({_OPEN_RUNS} ORDER BY o.run_id IS NULL DESC, o.id DESC LIMIT 1)", facts="")
_FIND_NAMED = _FIND.format(run=_NAMED, facts=_REPORTS)

_ADD_EVENT = """
    INSERT INTO events (job_id, run_id, kind, received_at, time, run_status, attribution_id, message, idempotency_key)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
# The plus keeps SQLite from searching all events of the day instead of the index of keys.
_SAME_KEY = "job_id = ? AND idempotency_key = ? AND kind = ? AND +received_at > ?"
_LOSE_RUN = f"UPDATE runs SET status = {Status.LOST:d} WHERE id = ? AND status = {Status.OPEN:d}"
_CLOSE_RUN = "UPDATE runs SET status = ?, ended_at = ?, duration_ms = ?, exit_code = ?, attribution_id = ? WHERE id = ?"
_LAST_HEARTBEAT = f"iif({SILENT_SQL}, 0, last_heartbeat_at)"
# ?1 event, ?2 time, ?3 new runs, ?4 outcome or NULL, ?5 duration of a success or NULL, ?6 attribution, ?7 job,
# ?8 duration or NULL, ?9 a minute before it arrived: what is from before that does not replace what is newer
_LOST_LATER = f"SELECT 1 FROM runs WHERE job_id = ?7 AND started_at > ?2 AND status = {Status.LOST:d}"
_UPDATE_JOB = f"""
    UPDATE jobs SET last_event_id = ?1, run_count = run_count + ?3,
        last_heartbeat_at = max({_LAST_HEARTBEAT}, ?2), first_heartbeat_at = min(first_heartbeat_at, ?2),
        attribution_id = iif(?2 >= min(?9, {_LAST_HEARTBEAT}), ?6, attribution_id), overdue_since = NULL,
        (last_outcome, failures_in_row, failing_since, lost_since) = (SELECT coalesce(current, last_outcome),
            CASE current WHEN {Status.FAILED:d} THEN failures_in_row + 1 WHEN {Status.SUCCESS:d} THEN 0
                ELSE failures_in_row END,
            CASE current WHEN {Status.FAILED:d} THEN iif(failures_in_row, coalesce(failing_since, at), at)
                WHEN {Status.SUCCESS:d} THEN iif(failing_since > ?9, failing_since, NULL) ELSE failing_since END,
            CASE WHEN current = {Status.LOST:d} THEN coalesce(lost_since, at)
                WHEN current IS NULL OR lost_since > ?9 THEN lost_since END
            FROM (SELECT iif(?2 < ?9 AND (?2 < iif(?4 = {Status.SUCCESS:d}, last_failure_at, last_success_at)
                             OR lost_since IS NOT NULL AND EXISTS ({_LOST_LATER})), NULL, ?4) AS current,
                         min(?2, ?9 + {MINUTE_MS}) AS at)),  -- the clock of a client may be ahead
        timed_run_count = min({RECENT_RUNS}, timed_run_count + (?5 IS NOT NULL)),
        total_duration_ms = total_duration_ms + coalesce(?5 - (timed_run_count = {RECENT_RUNS}) * total_duration_ms
            / {RECENT_RUNS}, 0),
        success_count = success_count + (?4 IS {Status.SUCCESS:d}), lost_count = lost_count + (?4 IS {Status.LOST:d}),
        failed_count = failed_count + (?4 IS {Status.FAILED:d}),
        last_duration_ms = coalesce(iif(?4 IS NOT NULL AND ?2 < ?9 AND ?2 < max(coalesce(last_success_at, 0),
            coalesce(last_failure_at, 0)), NULL, ?8), last_duration_ms),
        last_success_at = iif(?4 IS {Status.SUCCESS:d}, max(coalesce(last_success_at, 0), ?2), last_success_at),
        last_failure_at = iif(?4 IS {Status.FAILED:d}, max(coalesce(last_failure_at, 0), ?2), last_failure_at)
    WHERE id = ?7
"""


def record(
    db: sqlite3.Connection, sent: JobHeartbeat, now_ms: int, check_jobs: Callable[[int], None] | None = None
) -> Recorded:
    """Record a heartbeat. If its job is new, `check_jobs` gets the number of jobs, and may raise."""
    name, heartbeat, attribution, idempotency_key = sent
    job, run = _find(db, name, heartbeat)
    if job is not None and idempotency_key is not None:
        first = _answer_before(db, _SAME_KEY, job.id, idempotency_key, heartbeat.kind, now_ms - DAY_MS)
        if first is not None:
            return first
    action = act(run, heartbeat.kind)
    if action is Action.REPEAT:
        assert run is not None
        return cast("Recorded", _answer_before(db, "run_id = ? AND kind = ?", run.id, heartbeat.kind))
    if is_new := job is None:
        job = _Job(add_job(db, name, now_ms, heartbeat.time), heartbeat.time, None)
        if check_jobs is not None:
            check_jobs(count_jobs(db))
    known = job.run_place if action in (Action.ATTACH, Action.CLOSE) else (None, NOWHERE)
    attribution_id = find_attribution(db, attribution, known)
    change = _apply(db, job, run, heartbeat, action, attribution_id)
    before, after = (job.id, change.run_id), (now_ms, heartbeat.time, change.run_status, attribution_id)
    if heartbeat.output:
        db.executemany(_ADD_EVENT, [(*before, Kind.LOG, *after, text, None) for text in heartbeat.output])
    event = db.execute(_ADD_EVENT, (*before, heartbeat.kind, *after, heartbeat.message, idempotency_key))
    duration_ms = change.duration_ms if change.run_status is Status.SUCCESS else None
    totals = (change.new_runs, change.outcome, duration_ms)
    latest_id = find_attribution(db, attribution, job.place)
    values = (event.lastrowid, heartbeat.time, *totals, latest_id, job.id, change.duration_ms, now_ms - MINUTE_MS)
    db.execute(_UPDATE_JOB, values)
    return change._replace(job_created=True) if is_new else change


def _apply(
    db: sqlite3.Connection, job: _Job, run: Run | None, heartbeat: Heartbeat, action: Action, attribution_id: int | None
) -> Recorded:
    time = heartbeat.time
    match action:
        case Action.OPEN | Action.REPLACE:
            if run is not None:
                db.execute(_LOSE_RUN, (run.id,))
            run_id = _add_run(db, job, heartbeat, Status.OPEN, attribution_id)
            return Recorded(run_id, Status.OPEN, time, new_runs=1, outcome=None if run is None else Status.LOST)
        case Action.RECORD:
            status = outcome(heartbeat)
            run_id = _add_run(db, job, heartbeat, status, attribution_id)
            return Recorded(run_id, status, time, new_runs=1, outcome=status, duration_ms=heartbeat.duration_ms)
        case Action.CLOSE:
            assert run is not None
            status, duration_ms = outcome(heartbeat), duration_of_close(run, heartbeat)
            ended_at = max(time, run.started_at)  # the clocks of hosts differ
            db.execute(_CLOSE_RUN, (status, ended_at, duration_ms, heartbeat.exit_code, attribution_id, run.id))
            return Recorded(run.id, status, time, outcome=status, duration_ms=duration_ms)
        case Action.ATTACH:
            assert run is not None
            if attribution_id != job.run_place[0]:
                db.execute("UPDATE runs SET attribution_id = ? WHERE id = ?", (attribution_id, run.id))
            duration_ms = _start_late(db, run, time) if heartbeat.kind is Kind.START else None
            return Recorded(run.id, run.status, time, duration_ms=duration_ms)
    return Recorded(None, None, time)


def _start_late(db: sqlite3.Connection, run: Run, time: int) -> int | None:
    """Note a start that arrived after other heartbeats of its run; returns the duration if only now it is known."""
    if not run.ended:
        db.execute("UPDATE runs SET started_at = min(started_at, ?) WHERE id = ?", (time, run.id))
        return None
    later = "UPDATE runs SET started_at = ?1, duration_ms = ended_at - ?1"
    later += " WHERE id = ?2 AND duration_ms IS NULL AND ended_at >= ?1 RETURNING duration_ms"
    return cast("int | None", first_value(db, later, (time, run.id)))


def _find(db: sqlite3.Connection, name: str, heartbeat: Heartbeat) -> tuple[_Job | None, Run | None]:
    if heartbeat.run_id is not None:
        row = db.execute(_FIND_NAMED, (name, heartbeat.run_id)).fetchone()
    else:
        row = db.execute(_FIND_FOR_START if heartbeat.kind is Kind.START else _FIND_FOR_OTHERS, (name,)).fetchone()
    if row is None:
        return None, None
    job = _Job(row[0], row[1], row[2], (row[3], Attribution(*row[4:7])), (row[7], Attribution(*row[8:11])))
    if row[11] is None:
        return job, None
    return job, Run(row[11], Status(row[12]), row[13], row[14] is not None, *map(bool, row[15:]))  # and the facts


def _add_run(
    db: sqlite3.Connection, job: _Job, heartbeat: Heartbeat, status: Status, attribution_id: int | None
) -> int:
    expected = job.expected_at if job.expected_at and job.expected_at > job.last_heartbeat_at else None
    late_ms = max(0, heartbeat.time - expected) if expected is not None else None
    known = {"job_id": job.id, "status": status, "late_ms": late_ms, "attribution_id": attribution_id}
    reported = {"run_id": heartbeat.run_id, "duration_ms": heartbeat.duration_ms, "exit_code": heartbeat.exit_code}
    ended_at = None if status is Status.OPEN else heartbeat.time
    times = {"started_at": heartbeat.time - (heartbeat.duration_ms or 0), "ended_at": ended_at}
    return save_row(db, "runs", {**known, **reported, **times, "heartbeat_at": heartbeat.time})


def _answer_before(db: sqlite3.Connection, condition: str, *values: int | str) -> Recorded | None:
    first = f"SELECT run_id, run_status, time FROM events WHERE {condition} ORDER BY id LIMIT 1"
    row = db.execute(first, values).fetchone()
    return None if row is None else Recorded(row[0], None if row[1] is None else Status(row[1]), row[2])
