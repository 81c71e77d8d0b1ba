"""What an instance holds on disk, held against what was acknowledged and against what can be true of runs at all."""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from obs.heartbeat.store.record import RECENT_RUNS
from tests.crash.senders import KINDS, Ledger, Mark, Sent
from tests.crash.served import file_of

STATUSES = ("open", "success", "failed", "lost")
OPEN, SUCCESS, FAILED, LOST = range(4)
START, LOG, END, PING = range(4)
_EVENTS = """
    SELECT e.id, j.name AS job, e.kind, e.run_id, e.run_status, e.time, e.message, e.idempotency_key,
           r.run_id AS own_id, r.job_id AS job_of_run, e.job_id
    FROM events AS e JOIN jobs AS j ON j.id = e.job_id LEFT JOIN runs AS r ON r.id = e.run_id ORDER BY e.id
"""


def problems(instance: Path, ledger: Ledger, orgs: Iterable[str], until: float = float("inf")) -> list[str]:
    """What is wrong with the files of an instance that a service may have open; nothing is changed in them.

    `until` is the moment of the monotonic clock at which the files were as they are: what was acknowledged later need
    not be in them.
    """
    acknowledged = ledger.acknowledged(until)
    found = []
    orgs = list(orgs)
    missing = [
        path for path in (instance / "control.db", *(file_of(instance, org) for org in orgs)) if not path.exists()
    ]
    if missing:
        return [f"{path} is gone" for path in missing]
    with closing(_open(instance / "control.db")) as control:
        found += [f"control: {problem}" for problem in damages(control)]
        known = {row[0] for row in control.execute("SELECT slug FROM organizations")} if orgs else set()
    for org in orgs:
        if org not in known:
            found.append(f"{org}: the organization is gone")
            continue
        with closing(_open(file_of(instance, org))) as db:
            db.execute("BEGIN")
            of_org = [f"{problem}" for problem in damages(db)]
            if not of_org:
                mine = {mark: sent for mark, sent in acknowledged.items() if mark.org == org}
                sent = {mark: sent for mark, sent in ledger.sent.items() if mark.org == org}
                of_org = [*_lost_or_double(db, org, sent, mine), *impossible(db)]
        found += [f"{org}: {problem}" for problem in of_org]
    return found


def _open(path: Path) -> sqlite3.Connection:
    """A connection that cannot write rows, though it may recover the file's log."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=60)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA query_only = ON")
    return connection


def damages(db: sqlite3.Connection) -> list[str]:
    """What SQLite itself finds wrong with a file."""
    try:
        found = [f"integrity_check: {row[0]}" for row in db.execute("PRAGMA integrity_check") if row[0] != "ok"]
        return found + [f"foreign_key_check: {tuple(row)}" for row in db.execute("PRAGMA foreign_key_check")]
    except sqlite3.DatabaseError as error:
        return [f"unreadable: {error}"]


def _lost_or_double(
    db: sqlite3.Connection, org: str, sent: Mapping[Mark, Sent], acknowledged: Mapping[Mark, Sent]
) -> list[str]:
    """Events that were acknowledged and are not there as they were answered, or that are there and should not be."""
    found = []
    stored: Counter[Mark] = Counter()
    for row in db.execute(_EVENTS):
        mark = _mark(org, row)
        stored[mark] += 1
        if row["job_of_run"] not in (None, row["job_id"]):
            found.append(f"event {row['id']} belongs to a run of another job")
        told = acknowledged.get(mark)
        if told is not None:
            status = None if row["run_status"] is None else STATUSES[row["run_status"]]
            if (told.answer["run_id"], told.answer["run_status"]) != (row["run_id"], status):
                found.append(f"{mark} is stored as run {row['run_id']} {status}, and was answered {told.answer}")
    for (title,) in db.execute("SELECT title FROM annotations WHERE NOT by_service"):
        stored[Mark(org, "deploy", "annotation", "key", title)] += 1
    found += [f"{mark} was acknowledged and is lost" for mark in acknowledged if not stored[mark]]
    found += [f"{mark} is there {count} times" for mark, count in stored.items() if count > 1]
    for mark in stored:
        if mark not in sent:
            found.append(f"{mark} is there and was never sent")
        elif sent[mark].status == 503:
            found.append(f"{mark} is there and was refused")
    return found


def _mark(org: str, row: sqlite3.Row) -> Mark:
    kind = KINDS[row["kind"]]
    if row["idempotency_key"] is not None:
        return Mark(org, row["job"], kind, "key", row["idempotency_key"])
    if row["message"] is not None:
        return Mark(org, row["job"], kind, "message", row["message"])
    if row["own_id"] is not None and row["kind"] in (START, END):
        return Mark(org, row["job"], kind, "run", row["own_id"])
    at = datetime.fromtimestamp(row["time"] // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{row['time'] % 1000:03d}Z"
    return Mark(org, row["job"], kind, "time", at)


def impossible(db: sqlite3.Connection) -> list[str]:
    """Runs in a state that no sequence of heartbeats leads to, and jobs whose counters are not what their rows say.

    For heartbeats near now: nothing was purged, and no run was given up for its length.
    """
    events: dict[int, list[int]] = defaultdict(list)
    last_event: dict[int, int] = {}
    last_heartbeat: dict[int, int] = {}
    outcomes: dict[int, list[int]] = defaultdict(list)
    for row in db.execute("SELECT id, job_id, run_id, kind, run_status, time FROM events ORDER BY id"):
        job = row["job_id"]
        if row["kind"] == END or (row["kind"] == PING and row["run_id"] and not events[row["run_id"]]):
            outcomes[job].append(row["run_status"])
        if row["run_id"] is not None:
            events[row["run_id"]].append(row["kind"])
        last_event[job] = row["id"]
        last_heartbeat[job] = max(last_heartbeat.get(job, 0), row["time"])

    found = []
    counts: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    open_without_id: Counter[int] = Counter()
    for row in db.execute("SELECT * FROM runs"):
        told = events[row["id"]]
        count = counts[row["job_id"]]
        count[0] += 1
        if row["status"] == SUCCESS:
            count[1] += row["duration_ms"] is not None
            count[2] += row["duration_ms"] or 0
        wrong = _wrong_with_run(row, told)
        if row["status"] == OPEN and row["run_id"] is None:
            open_without_id[row["job_id"]] += 1
        if wrong:
            found.append(f"run {row['id']} {wrong}: {dict(row)}, told by {[KINDS[kind] for kind in told]}")
    found += [
        f"job {job} has {number} open runs without an id" for job, number in open_without_id.items() if number > 1
    ]

    for row in db.execute("SELECT * FROM jobs"):
        job = row["id"]
        failures = 0
        for outcome in outcomes[job]:
            failures = failures + 1 if outcome == FAILED else 0
        expected = {
            "run_count": counts[job][0],
            "timed_run_count": min(RECENT_RUNS, counts[job][1]),
            **({"total_duration_ms": counts[job][2]} if counts[job][1] <= RECENT_RUNS else {}),
            "last_event_id": last_event.get(job),
            "last_heartbeat_at": last_heartbeat.get(job),
            "failures_in_row": failures,
        }
        differing = {name: (row[name], value) for name, value in expected.items() if row[name] != value}
        if differing:
            found.append(f"job {row['name']} says other than its rows (says, rows): {differing}")
        if row["failing_since"] is None and failures > 0:
            found.append(f"job {row['name']} has {failures} failures in a row and fails since {row['failing_since']}")
    return found


def _wrong_with_run(row: sqlite3.Row, told: list[int]) -> str | None:
    status = row["status"]
    if status in (OPEN, LOST):
        if row["ended_at"] is not None or END in told:
            return "has an end and is open or lost"
        if told.count(START) != 1:
            return "is open or lost and did not start once"
        if status == LOST and row["run_id"] is not None:
            return "has an id of its own and is lost to another's start"
        return None
    if row["ended_at"] is None or row["ended_at"] < row["started_at"]:
        return "ended at no time, or before it started"
    if told.count(END) > 1 or told.count(START) > 1 or not told:
        return "started or ended more than once"
    if END not in told and told[0] != PING:
        return "ended without an end"
    if row["duration_ms"] is not None and row["duration_ms"] < 0:
        return "took less than no time"
    return None
