"""The sweep: learning from what came, flagging what did not. Runs beside the requests, a look a second."""

import math
import sqlite3
import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from obs.heartbeat import pins
from obs.heartbeat.overdue import Expectation, excused, expect
from obs.heartbeat.store import expectations, maintenance
from obs.heartbeat.store.expectations import Changed
from obs.storage.databases import Databases

_JOBS_A_BATCH = 50
LEARNING_SECONDS = 0.25
"""How long a sweep learns from the heartbeats of one organization, and how long anew from all."""


class Watch:
    """Which organizations are to be swept, and when: those with new heartbeats, and those with something due."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed: set[str] = set()
        self._due: dict[str, int | None] = {}

    def note(self, org: str) -> None:
        """A heartbeat has come."""
        with self._lock:
            self._changed.add(org)

    def take(self, orgs: list[str], now_ms: int) -> list[str]:
        """Those of `orgs` that are to be swept now. One that was never swept, or whose last sweep failed, is."""
        with self._lock:
            changed, self._changed = self._changed, set()
            due = [
                org
                for org in orgs
                if org in changed or org not in self._due or (self._due[org] or now_ms + 1) <= now_ms
            ]
            # Until `swept` says otherwise an organization is due again: its file may be locked just now.
            for org in (self._due.keys() - set(orgs)) | set(due):
                self._due.pop(org, None)
        return due

    def swept(self, org: str, next_ms: int | None) -> None:
        """`org` was swept and has nothing due before `next_ms`."""
        with self._lock:
            self._due[org] = next_ms


class Incidents(Protocol):
    """Where spells of trouble are kept. Both are given a connection to the organization's file, and the moment."""

    def differ(self, db: sqlite3.Connection, now_ms: int) -> bool:
        """Whether the incidents that are open are not those that should be."""

    def reconcile(self, db: sqlite3.Connection, now_ms: int) -> None:
        """Open and close incidents, so that they are."""


def sweep(
    databases: Databases,
    org: str,
    now_ms: int,
    zones: Sequence[str],
    incidents: Incidents,
    up_since_ms: int = 0,
    anew_until: float = math.inf,
) -> int | None:
    """Learn from the new heartbeats of `org`, flag what is overdue, overrunning or lost by now, and keep incidents.

    Nothing becomes overdue before the service has been up, since `up_since_ms`, for as long as the job may be late.
    Jobs without new heartbeats are learned anew until `anew_until` (of `time.monotonic`), one at least. Returns the
    moment (milliseconds since the epoch) at which there will be something to do again without a new heartbeat, None for
    never. Raises ServiceError (503).
    """

    def flag(db: sqlite3.Connection) -> int | None:
        expectations.flag_overdue(db, now_ms)
        expectations.flag_overrunning(db, now_ms)
        expectations.lose_runs(db, now_ms)
        incidents.reconcile(db, now_ms)
        return expectations.next_moment(db, now_ms)

    finished = _learn(databases, org, zones, up_since_ms, anew_until)
    with databases.read(org) as db:
        moment = expectations.next_moment(db, now_ms)
        due = (moment is not None and moment <= now_ms) or incidents.differ(db, now_ms)
    if due:
        moment = databases.write(org, flag)
    return moment if finished else now_ms


def excuse_downtime(databases: Databases, org: str, up_since_ms: int) -> None:
    """Let no job of `org` become overdue before the service has been up for as long as the job may be late.

    What was learned by another version of the method is learned anew at the next sweep. Raises ServiceError (503).
    """

    def unit(db: sqlite3.Connection) -> None:
        expectations.learn_anew(db)
        expectations.excuse(db, 0, up_since_ms)

    databases.write(org, unit)


def _learn(databases: Databases, org: str, zones: Sequence[str], up_since_ms: int, anew_until: float) -> bool:
    """Learn from what has come, for a while, so that a flood does not starve requests; False when there is more."""
    end = time.monotonic() + LEARNING_SECONDS
    while True:
        with databases.read(org) as db:
            changed = expectations.changed_jobs(db, _JOBS_A_BATCH)
            windows = maintenance.windows(db) if changed else []
            silences = [(0, up_since_ms), *((window.start_time, window.end_time) for window in windows)]
            learned: list[tuple[Changed, Expectation]] = []
            for job in changed:
                if learned and time.monotonic() > (min(end, anew_until) if job.anew else end):
                    break
                learned.append((job, _expect(db, job, zones, silences)))
        if learned:
            databases.write(org, partial(_keep, learned))
        if len(learned) == len(changed) < _JOBS_A_BATCH:
            return True
        if len(learned) < len(changed) or time.monotonic() > end:
            return False


def _expect(db: sqlite3.Connection, job: Changed, zones: Sequence[str], silences: list[tuple[int, int]]) -> Expectation:
    if job.paused_at is not None and job.paused_until is not None:
        silences = [*silences, (job.paused_at, job.paused_until)]
    expected = expect(*expectations.history(db, job.job_id), zones, pins.from_json(job.pin), job.fit)
    return excused(expected, silences)


def _keep(learned: list[tuple[Changed, Expectation]], db: sqlite3.Connection) -> None:
    for job, expected in learned:
        expectations.keep(db, job, expected)
