"""The background tasks: what runs, and how often. One APScheduler in one process of the instance."""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from apscheduler.schedulers.background import BackgroundScheduler
from filelock import FileLock, Timeout

from obs.alerts import store as alerts
from obs.annotations import service as annotations
from obs.errors import ServiceError
from obs.heartbeat import rollups
from obs.heartbeat import service as heartbeats
from obs.heartbeat.queue import SweepQueue
from obs.server.middleware import Wsgi
from obs.storage.batches import BACKGROUND_SHARE, in_batches
from obs.storage.org import Org
from obs.sweep import Sweeper, for_each_organization
from obs.tenancy import audit
from obs.tenancy.auth import Tenancy
from obs.times import DAY_MS

_CLOCK_SECONDS = 1.0
"""How often the wall clock is checked for having been set back."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Task:
    """Something that runs every `seconds`, for the first time `first_after` seconds after the start."""

    name: str
    seconds: int
    first_after: int
    run: Callable[[], None]


def _tasks(tenancy: Tenancy, sweeper: Sweeper, retention_days: int) -> tuple[Task, ...]:
    """The table of all tasks. Runs and heartbeats are kept for `retention_days`."""
    databases = tenancy.databases

    def for_each(work: Callable[[Org], object]) -> None:
        for_each_organization(tenancy, work, tenancy.keyring.organizations())

    def roll_up() -> None:
        now_ms = tenancy.clock()
        for_each(lambda org: rollups.roll_up(databases, org, now_ms, retention_days))

    def purge() -> None:
        now_ms = tenancy.clock()
        delete = partial(alerts.delete_incidents_before, cutoff=now_ms - retention_days * DAY_MS)
        for_each(lambda org: annotations.purge(databases, org, now_ms))
        for_each(lambda org: heartbeats.purge(databases, org, now_ms, retention_days))
        for_each(lambda org: in_batches(databases, org, delete, share=BACKGROUND_SHARE))
        for_each(lambda org: audit.purge(databases, org, now_ms - retention_days * DAY_MS))

    return (
        Task("sweep", 1, 1, sweeper.run),
        Task("last use of keys", 10, 10, tenancy.keyring.flush_last_used),
        Task("index of messages", 30, 30, lambda: for_each(partial(heartbeats.index_messages, databases))),
        Task("rollups", 60, 45, roll_up),
        Task("purge", 3600, 60, purge),
    )


class Background:
    """The scheduler of one application. A file lock makes sure that one process of an instance runs the tasks."""

    def __init__(self, tenancy: Tenancy, queue: SweepQueue, settings: Mapping[str, Any], instance: Path) -> None:
        """`instance` is the instance's folder. With TESTING in `settings`, only `start` starts the scheduler.

        Raises ConfigError for an unknown time zone in `settings`.
        """
        self.sweeper = Sweeper(tenancy, queue, settings)
        self.tasks = {task.name: task for task in _tasks(tenancy, self.sweeper, int(settings["RUN_RETENTION_DAYS"]))}
        self._lock = FileLock(instance / ".background.lock", thread_local=False)
        self._starting = threading.Lock()
        self._winding_down = tenancy.databases.winding_down
        self._starts_by_itself = not settings.get("TESTING")
        self._scheduler: Any = None
        self._clock_watch: _ClockWatch | None = None

    def start(self) -> None:
        """Start the scheduler unless it runs. Call it after any fork: threads do not survive one."""
        with self._starting:
            if self._scheduler is not None:
                return
            self._winding_down.clear()
            self.sweeper.excuse_downtime()
            self._scheduler = BackgroundScheduler(
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
            self._clock_watch = _ClockWatch(self._scheduler)
            self._clock_watch.start()

    def stop(self) -> None:
        """Stop the scheduler and wait for the task that is running, which ends soon."""
        self._winding_down.set()
        with self._starting:
            if self._clock_watch is not None:
                self._clock_watch.stop()
                self._clock_watch = None
            if self._scheduler is not None:
                self._scheduler.shutdown()
                self._scheduler = None
        self._lock.release()

    def is_alive(self) -> bool:
        """Whether the scheduler runs."""
        return self._scheduler is not None and bool(self._scheduler.running)

    def start_on_first_request(self, inner: Wsgi) -> Wsgi:
        """A WSGI application that starts the background tasks with the first request, unless they run already."""

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
                return  # another process of this instance runs the tasks
        try:
            task.run()
        except ServiceError as error:  # of the control file
            _log.warning("%s: %s", task.name, error.message)


class _ClockWatch(threading.Thread):
    """Keeps the tasks running when the wall clock is set back.

    APScheduler plans by the wall clock, so its tasks would wait until the clock has caught up. This thread waits by the
    monotonic clock and has all tasks run at once when the wall clock has gone back.
    """

    def __init__(self, scheduler: Any) -> None:
        super().__init__(name="clock-watch", daemon=True)
        self._scheduler = scheduler
        self._stopped = threading.Event()

    def run(self) -> None:
        """Check the clock until `stop` is called."""
        before = datetime.now(UTC)
        while not self._stopped.wait(_CLOCK_SECONDS):
            now = datetime.now(UTC)
            if now < before:
                for job in self._scheduler.get_jobs():
                    job.modify(next_run_time=now)
            before = now

    def stop(self) -> None:
        """Stop, and wait until the thread has ended."""
        self._stopped.set()
        self.join()
