"""What runs beside the requests, and how often: one APScheduler in the one process."""

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import tzlocal
from apscheduler.schedulers.background import BackgroundScheduler
from filelock import FileLock, Timeout

from obs.alerts import store as alerts
from obs.annotations import purge as annotations_purge
from obs.annotations import store as annotations
from obs.config import ConfigError
from obs.errors import ServiceError
from obs.heartbeat import messages, rollups
from obs.heartbeat import purge as heartbeats_purge
from obs.heartbeat.store import maintenance, troubles
from obs.heartbeat.sweep import LEARNING_SECONDS, Watch, excuse_downtime, sweep
from obs.server.middleware import Wsgi
from obs.storage.batches import BACKGROUND_SHARE, in_batches
from obs.tenancy.auth import Tenancy
from obs.times import DAY_MS

_CLOCK_STEP_SECONDS = 60
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Task:
    """Something done every `seconds`, the first time `first_after` seconds after the start."""

    name: str
    seconds: int
    first_after: int
    run: Callable[[], None]


class Incidents:
    """What the heartbeat area finds is kept by the alerts area, and shown by the annotations area."""

    def differ(self, db: sqlite3.Connection, now_ms: int) -> bool:
        return alerts.differ(db, troubles.troubles(db, now_ms), not maintenance.is_open(db, now_ms))

    def reconcile(self, db: sqlite3.Connection, now_ms: int) -> None:
        alerts.reconcile(
            db,
            troubles.troubles(db, now_ms),
            not maintenance.is_open(db, now_ms),
            now_ms,
            partial(troubles.last_heartbeat, db),
            self,
        )

    def open(self, db: sqlite3.Connection, job: str, kind: str, start: int, now_ms: int) -> int:
        return annotations.open_band(db, f"incident/{job}", f"{job} {_SAID[kind]}", start, now_ms)

    def close(self, db: sqlite3.Connection, annotation_id: int, end: int, now_ms: int) -> None:
        annotations.close_band(db, annotation_id, end, now_ms)


_SAID = {
    "overdue": "is overdue",
    "failing": "fails",
    "lost": "lost a run",
    "overrunning": "overruns",
    "too_often": "runs too often",
}


def time_zones(configured: str) -> list[str]:
    """The zones in which jobs may be scheduled, beside UTC. Raises ConfigError for one that is not known."""
    zones = list(dict.fromkeys([tzlocal.get_localzone_name(), *configured.split()]))  # the likelier first
    for zone in zones:
        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ConfigError(f"TIME_ZONES holds {zone!r}, which is not a known time zone") from error
    return zones


class Work:
    """The work itself. The clocks are the application's, so that a test can move them."""

    def __init__(self, tenancy: Tenancy, watch: Watch, settings: Mapping[str, Any]) -> None:
        self._tenancy = tenancy
        self._watch = watch
        self._monotonic: Callable[[], float] = settings["MONOTONIC"]
        self._retention_days = int(settings["RUN_RETENTION_DAYS"])
        self._zones = time_zones(str(settings["TIME_ZONES"]))
        self._clock_offset = self._offset()
        self._up_since_ms = 0

    def tasks(self) -> tuple[Task, ...]:
        """The table of all that runs by itself."""
        return (
            Task("sweep", 1, 1, self.sweep),
            Task("last use of keys", 10, 10, self._tenancy.keyring.flush_last_used),
            Task("index of messages", 30, 30, self.index_messages),
            Task("rollups", 60, 45, self.roll_up),
            Task("purge", 3600, 60, self.purge),
        )

    def excuse_downtime(self) -> None:
        """The service has just come up: what was due while it was down has its whole lateness once more."""
        self._up_since_ms = self._tenancy.clock()
        self._for_each(lambda org: excuse_downtime(self._tenancy.databases, org, self._up_since_ms))

    def sweep(self) -> None:
        """Learn, flag, and keep incidents, where there is something to do."""
        offset = self._offset()
        if abs(offset - self._clock_offset) > _CLOCK_STEP_SECONDS:
            _log.warning("the clock was set by %+.0f s", offset - self._clock_offset)
            self.excuse_downtime()
        self._clock_offset = offset
        now_ms = self._tenancy.clock()
        anew_until = time.monotonic() + LEARNING_SECONDS
        self._for_each(
            lambda org: self._sweep(org, now_ms, anew_until),
            self._watch.take(self._tenancy.keyring.organizations(), now_ms),
        )

    def index_messages(self) -> None:
        """Let the full-text index of messages catch up."""
        self._for_each(lambda org: messages.index(self._tenancy.databases, org))

    def roll_up(self) -> None:
        """Count the runs of hours that are over together, so that long windows are answered quickly."""
        now_ms = self._tenancy.clock()
        self._for_each(lambda org: rollups.roll_up(self._tenancy.databases, org, now_ms, self._retention_days))

    def purge(self) -> None:
        """Delete what is past its retention."""
        now_ms, databases = self._tenancy.clock(), self._tenancy.databases
        cutoff = now_ms - self._retention_days * DAY_MS
        self._for_each(lambda org: annotations_purge.purge(databases, org, now_ms))
        self._for_each(lambda org: heartbeats_purge.purge(databases, org, now_ms, self._retention_days))
        self._for_each(
            lambda org: in_batches(
                databases,
                org,
                lambda db, limit: alerts.delete_incidents_before(db, cutoff, limit),
                share=BACKGROUND_SHARE,
            )
        )

    def _sweep(self, org: str, now_ms: int, anew_until: float) -> None:
        databases, incidents = self._tenancy.databases, Incidents()
        moment = sweep(databases, org, now_ms, self._zones, incidents, self._up_since_ms, anew_until)
        self._watch.swept(org, moment)

    def _for_each(self, work: Callable[[str], object], orgs: Iterable[str] | None = None) -> None:
        for_each_organization(self._tenancy, work, self._tenancy.keyring.organizations() if orgs is None else orgs)

    def _offset(self) -> float:
        """Wall clock less monotonic clock, in seconds: it changes when the wall clock is set."""
        return self._tenancy.clock() / 1000 - self._monotonic()


class _Scheduler(BackgroundScheduler):  # type: ignore[misc]
    """APScheduler plans by the wall clock: when that is set back, tasks would rest until it has caught up."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._looked_at = datetime.now(UTC)

    def _process_jobs(self) -> Any:
        """Called at least once a second, by the monotonic clock, because the sweep is due that often."""
        now = datetime.now(UTC)
        if now < self._looked_at:
            for job in self.get_jobs():
                job.modify(next_run_time=now)
        self._looked_at = now
        return super()._process_jobs()


class Background:
    """The scheduler of one application. Only one process of an instance runs its tasks; a file lock sees to that."""

    def __init__(self, tenancy: Tenancy, watch: Watch, settings: Mapping[str, Any], instance: Path) -> None:
        """`instance` is the instance's folder. With TESTING in `settings`, only `start` starts it."""
        self.work = Work(tenancy, watch, settings)
        self.tasks = {task.name: task for task in self.work.tasks()}
        self._lock = FileLock(instance / ".background.lock", thread_local=False)
        self._starting = threading.Lock()
        self._winding_down = tenancy.databases.winding_down
        self._starts_by_itself = not settings.get("TESTING")
        self._scheduler: Any = None

    def start(self) -> None:
        """Begin, unless this has begun already. Called after any fork: threads do not survive one."""
        with self._starting:
            if self._scheduler is not None:
                return
            self._winding_down.clear()
            self.work.excuse_downtime()
            self._scheduler = _Scheduler(
                timezone=UTC, job_defaults={"coalesce": True, "misfire_grace_time": 3600, "max_instances": 1}
            )
            for task in self.tasks.values():
                self._scheduler.add_job(
                    partial(self._run, task),
                    "interval",
                    seconds=task.seconds,
                    next_run_time=datetime.now(UTC) + timedelta(seconds=task.first_after),
                    id=task.name,
                )
            self._scheduler.start()

    def stop(self) -> None:
        """End; a task that is running is waited for, and has to end soon."""
        self._winding_down.set()
        with self._starting:
            if self._scheduler is not None:
                self._scheduler.shutdown()
                self._scheduler = None
        self._lock.release()

    def is_alive(self) -> bool:
        """Whether the scheduler runs."""
        return self._scheduler is not None and bool(self._scheduler.running)

    def start_on_first_request(self, inner: Wsgi) -> Wsgi:
        """The WSGI application that starts the background work with the first request, where nothing else has."""

        def starts(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            if not self.is_alive():
                self.start()
            return inner(environ, start_response)

        return starts if self._starts_by_itself else inner

    def _run(self, task: Task) -> None:
        if not self._lock.is_locked:
            try:
                self._lock.acquire(blocking=False)
            except Timeout:
                return  # another process of this instance does the work
        try:
            task.run()
        except ServiceError as error:  # of the control file
            _log.warning("%s: %s", task.name, error.message)


def for_each_organization(tenancy: Tenancy, work: Callable[[str], object], orgs: Iterable[str]) -> None:
    """Do `work` for each of `orgs`, unless the instance is about to be closed.

    Trouble with one organization's file, which that has logged, stops no other's.
    """
    for org in orgs:
        if tenancy.databases.winding_down.is_set():
            return
        try:
            work(org)
        except ServiceError as error:
            tenancy.databases.problems.failed(org, "write", error)
        except Exception:  # noqa: BLE001 - logged; whatever is wrong with one file, the others are served
            _log.exception("organization %s", org)
