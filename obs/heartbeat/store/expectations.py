"""What is expected of jobs: storing what was learned; what is overdue, overrunning or lost. Times are milliseconds."""

import json
import sqlite3
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median_high
from time import monotonic
from typing import Any, NamedTuple, cast

from obs.heartbeat import hosts, overdue, pins
from obs.heartbeat.hosts import Stream
from obs.heartbeat.overdue import LONGEST_RUN_MS, Expectation, Wait, waits_from_json
from obs.heartbeat.runs import FUTURE_MS, Status
from obs.heartbeat.schedule import VERSION, Fit, Memory, describe, is_retry
from obs.heartbeat.schedule.fit import NOT_LEARNED
from obs.heartbeat.source import PAUSED_SQL, UNSEEN_MS_SQL
from obs.storage.connection import first_value, open_reader
from obs.tenancy.clock import Reading
from obs.times import DAY_MS, HOUR_MS, MAX_MS, MINUTE_MS

HISTORY = 256  # how many of the last runs of a job are read whenever it is learned
JOBS_A_BATCH = 50
_REMEMBERED_MS = 137 * DAY_MS  # runs that started before are older than the days that the learner remembers
_IS_LEARNED = "learned_event_id = last_event_id"
_NOT_PAUSED_INDEFINITELY = "(paused_at IS NULL OR paused_until IS NOT NULL)"
_OPEN_RUNS = f"SELECT id FROM runs INDEXED BY runs_open WHERE status = {Status.OPEN:d}"  # not a scan of all runs
_UNKNOWN = """
    SELECT start_time, end_time FROM unknown_times_by_job WHERE job_id = :job_id AND end_time > :since
    UNION ALL SELECT value ->> 1, value ->> 2 FROM jobs, json_each(waits) WHERE jobs.id = :job_id
    UNION ALL SELECT paused_at, ifnull(paused_until, :now) FROM jobs WHERE id = :job_id AND paused_at IS NOT NULL
    ORDER BY 1
"""
"""When nobody can know whether a job ran: during maintenance, its pauses, false alarms, and downtime."""
_ITS_JOB = f"FROM jobs WHERE jobs.id = runs.job_id AND NOT {PAUSED_SQL}"  # no run is given up during a pause
_OVERRUNS_AT = f"started_at + (SELECT overrun_after_ms {_ITS_JOB})"
_FLAG_OVERDUE = (
    "UPDATE jobs SET overdue_since = overdue_at, changed = 0 WHERE id IN (SELECT id FROM jobs"
    f" WHERE overdue_at <= :now AND {_IS_LEARNED} AND overdue_since IS NULL AND {_NOT_PAUSED_INDEFINITELY}"
    " ORDER BY overdue_at, id LIMIT :limit)"
)
_FLAG_OVERRUNNING = (
    f"UPDATE runs SET overrunning_since = {_OVERRUNS_AT} + {UNSEEN_MS_SQL} WHERE id IN ({_OPEN_RUNS}"
    f" AND overrunning_since IS NULL AND {_OVERRUNS_AT} <= :now AND {_OVERRUNS_AT} + {UNSEEN_MS_SQL} <= :now"
    " ORDER BY job_id, id LIMIT :limit)"
)


@dataclass(frozen=True, slots=True)
class Changed:
    """A job whose expectation has to be computed again. `fit` is what was learned before, from `memory`."""

    job_id: int
    event_id: int
    learned_event_id: int | None
    revision: int
    last_heartbeat_at: int
    schedule_changed_at: int | None
    pin: pins.Pin | None
    waits: Sequence[Wait]
    fit: Fit | None
    memory: Memory | None


def changed_jobs(db: sqlite3.Connection, limit: int, job_id: int | None = None, skipped: int = 0) -> Iterator[Changed]:
    """At most `limit` jobs to learn, or one: with new heartbeats, longest waiting first, then those to learn again."""
    rows = db.execute(  # the limit comes before the join, so that sorting does not carry the fits of all jobs
        "SELECT found.*, fits.fit, memories.memory FROM ("
        " SELECT id AS job_id, last_event_id AS event_id, learned_event_id, revision, schedule_changed_at,"
        " pin, waits, last_heartbeat_at FROM jobs"
        " WHERE (last_event_id IS NOT learned_event_id OR revision <> learned_revision) AND id BETWEEN ?3 AND ?4"
        " ORDER BY last_event_id IS learned_event_id, learned_event_id LIMIT ?2 OFFSET ?5"
        ") AS found LEFT JOIN fits ON fits.job_id = found.job_id AND fits.version = ?1"
        " LEFT JOIN memories ON memories.job_id = found.job_id"
        " ORDER BY event_id IS found.learned_event_id, found.learned_event_id",
        (VERSION, limit, *((0, 2**63 - 1) if job_id is None else (job_id, job_id)), skipped),
    )
    for row in rows:  # decoded as it is asked for: the fit of a new job has many candidates, and is slow to decode
        memory = None if row["memory"] is None else Memory.decode(row["memory"])
        decoded = {"pin": pins.from_json(row["pin"]), "waits": waits_from_json(row["waits"])}
        yield Changed(**{**row, **decoded, "fit": Fit.decode(row["fit"]), "memory": memory})


def history(db: sqlite3.Connection, job_id: int, now_ms: int) -> tuple[list[tuple[int, str]], list[int]]:
    """Of the last HISTORY runs of a job, none in the future: the first heartbeats with their hosts, and the durations.

    A failed run that took less than usual is left out of the latter: many failures end at once.
    """
    last = "SELECT heartbeat_at, status, duration_ms, host FROM runs LEFT JOIN attributions AS a"
    last += " ON a.id = attribution_id WHERE job_id = ? AND heartbeat_at <= ? ORDER BY started_at DESC LIMIT ?"
    rows = db.execute(last, (job_id, now_ms + FUTURE_MS, HISTORY)).fetchall()
    timed = [(row["status"], row["duration_ms"]) for row in reversed(rows) if row["duration_ms"] is not None]
    usual = median_high([each for status, each in timed if status == Status.SUCCESS] or [MAX_MS])
    durations = [each for status, each in timed if status == Status.SUCCESS or each >= usual]
    return sorted((row["heartbeat_at"], row["host"] or "unknown host") for row in rows), durations


def _new_heartbeats(db: sqlite3.Connection, job: Changed, recent: Sequence[int], now_ms: int) -> set[int]:
    """The heartbeats since the job was last learned, and perhaps some that the memory has.

    If nothing is known of the job: the `recent` ones, and of all in the file the first one of each hour.
    """
    latest_ms = now_ms + FUTURE_MS
    if job.memory is None or job.fit is None:
        sql = "SELECT min(heartbeat_at) FROM runs WHERE job_id = ? AND started_at > ? AND heartbeat_at <= ?"
        rows = db.execute(f"{sql} GROUP BY heartbeat_at / {HOUR_MS}", (job.job_id, now_ms - _REMEMBERED_MS, latest_ms))
        return {time for (time,) in rows}.union(recent)
    found, known = list[int](), job.memory.times
    # From a minute before, because concurrent requests are not stored in the order in which they arrived. When the job
    # was changed since, it is from the latest heartbeat that the memory has, by the clock of a host.
    rows = db.execute(
        "SELECT heartbeat_at, (SELECT status FROM runs AS r WHERE r.job_id = runs.job_id"
        " AND r.started_at < runs.started_at ORDER BY r.started_at DESC LIMIT 1) FROM runs"
        " WHERE heartbeat_at <= ? AND id IN (SELECT run_id FROM events WHERE job_id = ?"
        f" AND received_at >= coalesce((SELECT received_at FROM events WHERE id = ?), ?) - {MINUTE_MS})"
        " ORDER BY heartbeat_at",
        (latest_ms, job.job_id, job.learned_event_id, max(known, default=0) - FUTURE_MS),
    )
    for time, status_before in rows:
        if status_before in (Status.FAILED, Status.LOST):  # this may be a retry, which belongs to the run before
            place = bisect_left(known, time)
            before = max([*known[max(0, place - 1) : place], *found[-1:]], default=None)
            if is_retry(job.fit, before, time):
                continue
        found.append(time)
    return set(found)


def has_heartbeat_after(db: sqlite3.Connection, moment: int) -> bool:
    return db.execute("SELECT 1 FROM events WHERE received_at > ? LIMIT 1", (moment,)).fetchone() is not None


def expectation(
    db: sqlite3.Connection, job: Changed, zones: Sequence[str] | None, now_ms: int, *, clock_is_behind: bool = False
) -> Expectation:
    """What is expected of a job. Without `zones` nothing new is learned."""
    reported, durations_ms = history(db, job.job_id, now_ms)
    recent = [time for time, _ in reported]
    values = {"job_id": job.job_id, "now": now_ms, "since": min([*recent[:1], job.last_heartbeat_at])}
    unknown = [(row["start_time"], row["end_time"]) for row in db.execute(_UNKNOWN, values)]
    last_at = None if job.last_heartbeat_at > now_ms + FUTURE_MS else job.last_heartbeat_at
    before = job.memory or Memory()
    if isinstance(job.pin, pins.Cron) and (started := recent or before.times):  # also of runs that nothing learns from
        last_at = started[-1]
    elif last_at is None and recent:
        last_at = recent[-1]
    if clock_is_behind and job.fit is not None and job.fit.interval_ms is not None:  # what it says is not learned
        pin = job.pin or pins.Interval(job.fit.interval_ms, job.fit.grace_ms or 0)
        return replace(overdue.expect(recent, durations_ms, None, pin, None, last_at, unknown), fit=job.fit)
    new = _new_heartbeats(db, job, recent, now_ms).difference(before.times)
    memory = before.add(new) if new else before
    # A heartbeat that came late changes what was learned from those after it.
    late = [time for time in new if before.times and time < before.times[-1]]
    since = job.schedule_changed_at or 0
    is_outdated = job.fit is not None and (job.fit.first_at or since) < since
    known = None if is_outdated or (late and before.add(late) != before) else job.fit
    times = memory.times[bisect_left(memory.times, since) : bisect_right(memory.times, now_ms + FUTURE_MS)]
    expected = overdue.expect(times, durations_ms, zones, job.pin, known, last_at, unknown, job.waits)
    stored = streams_of(db, job.job_id)
    if job.pin is not None or (not stored and len({host for _, host in reported}) < 2):
        return replace(expected, memory=memory)

    def learn(times: Sequence[int], fit: Fit | None) -> Fit:
        seen = times[bisect_left(times, since) :]
        return overdue.expect(seen, (), zones, None, fit, max(seen, default=None), unknown, job.waits).fit

    found = hosts.streams(reported, stored, learn, now_ms)
    expected = replace(expected, memory=memory, streams=[one for one in found if one not in stored])
    first = min((one for one in found if one.overdue_at), key=lambda one: one.overdue_at or 0, default=None)
    if first is None:
        return expected
    expected = replace(expected, overdue_at=first.overdue_at, too_often=False, by_host=True)
    return replace(expected, expected_at=first.expected_at, grace_ms=first.fit.grace_ms)


class Learned(NamedTuple):
    """What is expected of a job, in the form in which it is stored: `values` of the job, and other `rows`."""

    job_id: int
    values: Mapping[str, int | None]
    rows: Sequence[tuple[str, tuple[Any, ...]]]  # statements with their parameters
    news: str = ""  # the new schedule of the job and the one before in words, if its schedule has changed


Batch = tuple[list[Learned], bool]  # what was learned, and whether jobs are left


def stored_form(changed: Changed, expected: Expectation, *, is_final: bool = True) -> Learned:
    """An expectation as it is stored, for now if it is not final."""
    all_values = {name: getattr(one, name) for one in (expected, changed) for name in one.__slots__}
    values = {name: value for name, value in all_values.items() if isinstance(value, int | None)}
    values |= {"interval_ms": expected.fit.interval_ms, "is_provisional": not is_final}
    rows: list[tuple[str, tuple[Any, ...]]] = []
    if expected.memory is not None and expected.memory != changed.memory:
        add = "INSERT OR REPLACE INTO memories (job_id, memory) VALUES (?, ?)"
        rows.append((add, (changed.job_id, expected.memory.encode())))
    if expected.fit != changed.fit and expected.fit is not NOT_LEARNED:
        words = json.dumps(asdict(describe(expected.fit, expected.reason)))
        add = "INSERT OR REPLACE INTO fits (job_id, version, fit, learned) VALUES (?, ?, ?, ?)"
        rows.append((add, (changed.job_id, VERSION, expected.fit.encode(), words)))
    for one in expected.streams:
        rows.append(("DELETE FROM host_schedules WHERE job_id = ? AND host = ?", (changed.job_id, one.host)))
        if one.memory.times:  # else it has ended
            row = (changed.job_id, one.host, VERSION, one.memory.encode(), one.fit.encode(), one.last_heartbeat_at)
            rows.append(("INSERT INTO host_schedules VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*row, *one[3:])))
    return Learned(changed.job_id, values, rows, _news(changed, expected))


def keep(db: sqlite3.Connection, learned: Learned) -> bool:
    """Store what is expected of a job. False if it has changed since: then it is learned again."""
    kept = db.execute(
        "UPDATE jobs SET learned_event_id = last_event_id, learned_revision = revision - :is_provisional,"
        " interval_ms = :interval_ms, expected_at = :expected_at, overdue_at = :overdue_at, grace_ms = :grace_ms,"
        " overrun_after_ms = :overrun_after_ms, lost_after_ms = :lost_after_ms, by_host = :by_host,"
        " failing_since = iif(failures_in_row OR :is_provisional, failing_since, NULL),"
        f" lost_since = iif(last_outcome = {Status.LOST:d} OR :is_provisional, lost_since, NULL), too_often_since ="
        " CASE :too_often WHEN 1 THEN coalesce(too_often_since, last_heartbeat_at) WHEN 0 THEN NULL"
        " ELSE too_often_since END"
        " WHERE id = :job_id AND last_event_id = :event_id AND learned_event_id IS :learned_event_id"
        " AND revision = :revision",
        learned.values,
    )
    for sql, row in learned.rows if kept.rowcount else ():
        db.execute(sql, row)
    return kept.rowcount > 0


def learn(db: sqlite3.Connection, zones: Sequence[str], seen: Reading, seconds: float, skipped: int = 0) -> Batch:
    """Learn some jobs in about so many `seconds`, at least one, but not the first `skipped` ones."""
    learned, end = list[Learned](), monotonic() + seconds
    for job in changed_jobs(db, JOBS_A_BATCH, skipped=skipped):
        learned.append(stored_form(job, expectation(db, job, zones, seen.now_ms, clock_is_behind=seen.is_behind)))
        if monotonic() > end:
            return learned, True
    return learned, len(learned) == JOBS_A_BATCH


def learn_in_file(path: Path, *arguments: Any) -> Batch:
    """`learn` in a process that does not have the file open. Raises sqlite3.Error."""
    with closing(open_reader(path, 1)) as db:
        return learn(db, *arguments)


def streams_of(db: sqlite3.Connection, job_id: int) -> list[Stream]:
    """What was learned of the hosts of a job that keep a schedule each; none if it has a pin."""
    found = "SELECT host, memory, iif(version = ?, fit, NULL), expected_at, overdue_at FROM host_schedules"
    found += " WHERE job_id = (SELECT id FROM jobs WHERE id = ? AND pin IS NULL) ORDER BY host"
    rows = db.execute(found, (VERSION, job_id))
    return [Stream(host, Memory.decode(memory), Fit.decode(fit) or NOT_LEARNED, *at) for host, memory, fit, *at in rows]


def expect_for_now(db: sqlite3.Connection, job_id: int, now_ms: int) -> Expectation:
    """Store what is expected of a job that has changed, from what was learned; learning is left to the next sweep."""
    (changed,) = changed_jobs(db, 1, job_id)
    expected = expectation(db, changed, None, now_ms)
    keep(db, stored_form(changed, expected, is_final=False))
    return expected


def _news(changed: Changed, expected: Expectation) -> str:
    before, fit = changed.fit, expected.fit
    if before is None or changed.pin is not None or expected.by_host or fit.changed_at in (None, before.changed_at):
        return ""
    was, now = describe(before), describe(fit)
    return "" if was.summary == now.summary else f"{now.summary}\n{now.evidence}. Before: {was.summary}."


def flag(db: sqlite3.Connection, limit: int, now_ms: int) -> int:
    """Flag what is overdue or overrunning, mark as lost what will not end. At most `limit` of each; returns the sum."""
    values = {"now": now_ms, "limit": limit, "longest": LONGEST_RUN_MS}
    lost_at = f"started_at + (SELECT coalesce(lost_after_ms, :longest) {_ITS_JOB})"
    lost = f"{_OPEN_RUNS} AND {lost_at} <= :now AND {lost_at} + {UNSEEN_MS_SQL} <= :now"
    give_up = f"UPDATE runs SET status = {Status.LOST:d} WHERE id IN ({lost} ORDER BY job_id, id LIMIT :limit)"
    flagged = sum(db.execute(each, values).rowcount for each in (_FLAG_OVERDUE, _FLAG_OVERRUNNING))
    rows = db.execute(f"{give_up} RETURNING job_id", values).fetchall()
    lose = f"UPDATE jobs SET last_outcome = {Status.LOST:d}, lost_since = coalesce(lost_since, ?),"
    lose += " lost_count = lost_count + 1, changed = 0 WHERE id = ?"
    db.executemany(lose, [(now_ms, row["job_id"]) for row in rows])
    return flagged + len(rows)


class Problem(NamedTuple):
    """What is wrong with a job, or with one host of it, since when. `kind` is the word for the kind of its incident."""

    job_id: int
    kind: str
    host: str
    subject: str
    started_at: int


_PROBLEMS = (
    "SELECT jobs.id, 'overdue', '', name, overdue_since FROM jobs WHERE {which} AND overdue_since <= :latest"
    " AND NOT by_host",
    "SELECT jobs.id, 'overdue', host, name, one.overdue_at FROM jobs JOIN host_schedules AS one ON job_id = jobs.id"
    " WHERE {which} AND one.overdue_at <= :now AND by_host AND jobs.overdue_at IS NOT NULL",
    "SELECT jobs.id, 'lost', '', name, lost_since FROM jobs WHERE {which} AND lost_since <= :latest",
    "SELECT jobs.id, 'too_often', '', name, too_often_since FROM jobs WHERE {which} AND too_often_since <= :latest",
    "SELECT jobs.id, 'failing', '', name, failing_since FROM jobs WHERE {which} AND failing_since <= :latest"
    f" AND (failures_in_row >= failure_tolerance OR failing_since > :now - {MINUTE_MS} AND failure_tolerance = 1)",
    "SELECT jobs.id, 'overrunning', '', name, min(overrunning_since) FROM jobs JOIN runs ON job_id = jobs.id"
    f" WHERE {{which}} AND overrunning_since <= :latest AND status = {Status.OPEN:d} GROUP BY jobs.id",
)


def problems(db: sqlite3.Connection, seen: Reading, job_ids: Iterable[int] | None = None) -> list[Problem]:
    """The problems of all jobs, or of some, as far as they are flagged. Jobs that are paused have none."""
    which, values = f"NOT {PAUSED_SQL}", {"now": seen.now_ms, "ids": json.dumps([*(job_ids or ())])}
    values["latest"] = MAX_MS if seen.is_behind else seen.now_ms  # what is flagged may be in the future, then
    if job_ids is not None:
        which += " AND jobs.id IN (SELECT value FROM json_each(:ids))"
    return list(map(Problem._make, db.execute(" UNION ALL ".join(_PROBLEMS).format(which=which), values)))


def excuse(db: sqlite3.Connection, start: int, end: int, window_id: int | None = None) -> None:
    """Have the jobs learned again whose run may have come from `start` to `end`, which nobody can know.

    Until then they are expected after their usual interval. With `window_id`, only the jobs that this window covers.
    """
    excuse = "UPDATE jobs SET revision = revision + 1, expected_at = ?2 + coalesce(interval_ms, 0),"
    excuse += " overdue_at = ?2 + coalesce(interval_ms, 0) + coalesce(grace_ms, 0)"
    due = " WHERE overdue_at >= ?1 AND expected_at < ?2"
    due += " AND (?3 IS NULL OR {} IN (SELECT job_id FROM unknown_times_by_job WHERE window_id = ?3))"
    db.execute(f"{excuse}{due.format('id')} AND overdue_since IS NULL", (start, end, window_id))
    db.execute(f"UPDATE host_schedules SET overdue_at = NULL{due.format('job_id')}", (start, end, window_id))


def note_copied(db: sqlite3.Connection, now_ms: int) -> None:
    """Note that a restored or imported file knows nothing of what ran since its last heartbeat."""
    if (last := first_value(db, "SELECT max(received_at) FROM events")) is not None:
        note_downtime(db, last, now_ms)


def note_downtime(db: sqlite3.Connection, start: int, end: int) -> None:
    """Note that the service was down, or that its clock jumped, from `start` to `end`."""
    if start < end:
        db.execute("DELETE FROM unknown_times WHERE job_id IS NULL AND start_time >= ?", (start,))
        db.execute("INSERT INTO unknown_times (start_time, end_time) VALUES (?, ?)", (start, end))
        excuse(db, start, end)


def learn_again(db: sqlite3.Connection) -> None:
    """Have all jobs without a fit of this version of the learner learned again.

    Their expectations apply until then. One that is overdue waits for its next heartbeat: its incident stays open.
    """
    which = "learned_event_id IS NOT NULL AND overdue_since IS NULL AND revision = learned_revision"
    which += " AND NOT EXISTS (SELECT 1 FROM fits WHERE fits.job_id = jobs.id AND fits.version = ?)"
    db.execute(f"UPDATE jobs SET revision = revision + 1 WHERE {which}", (VERSION,))


def next_moment(db: sqlite3.Connection, now_ms: int) -> int | None:
    """When next something becomes overdue, overrunning or lost, or a pause or a maintenance window ends; or None."""
    return cast("int | None", first_value(db, _NEXT_MOMENT, {"longest": LONGEST_RUN_MS, "now": now_ms}))


_NEXT_MOMENT = f"""
    SELECT min(moment) FROM (
        SELECT min(overdue_at) AS moment FROM jobs
            WHERE {_IS_LEARNED} AND overdue_since IS NULL AND {_NOT_PAUSED_INDEFINITELY}
        UNION ALL
        SELECT min(runs.started_at + min(coalesce(jobs.lost_after_ms, :longest),
                                         coalesce(iif(overrunning_since IS NULL, overrun_after_ms, NULL), :longest)))
            FROM runs JOIN jobs ON jobs.id = runs.job_id WHERE runs.status = {Status.OPEN:d} AND NOT {PAUSED_SQL}
        UNION ALL SELECT min(overdue_at) FROM host_schedules WHERE overdue_at > :now
        UNION ALL SELECT min(paused_until) FROM jobs WHERE paused_until > :now
        UNION ALL SELECT min(end_time) FROM maintenance_windows WHERE end_time > :now
    )
"""
