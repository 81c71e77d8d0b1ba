"""The background tasks: what runs, and how often. One APScheduler in the process that writes."""

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.interval import IntervalTrigger

from obs.alerts.service import AlertService
from obs.alerts.store import incidents, outbox
from obs.annotations import store as annotations
from obs.errors import ServiceError
from obs.heartbeat import service as heartbeats
from obs.heartbeat.service import SweepQueue
from obs.heartbeat.store import upkeep
from obs.notify import Notifier
from obs.storage.databases import BACKGROUND_SHARE, Org, in_batches
from obs.sweep import Sweeper, for_each_organization
from obs.tenancy import store as tenancy_store
from obs.tenancy.auth import Tenancy
from obs.times import DAY_MS, HOUR_MS

_INDEXING_SECONDS = 20.0  # at most for one organization, so that a burst in it does not delay the others
_HEALTHY_SECONDS = 60  # the sweep and the deliveries work if they have finished in this time
_CLOCK_SECONDS = 1.0  # how often the wall clock is checked for having been set back
_PURGES = (upkeep.delete_before, tenancy_store.delete_audit_before, incidents.delete_before, outbox.delete_before)
_log = logging.getLogger(__name__)


class Task(NamedTuple):
    """Something that runs every `seconds`, for the first time `first_after` seconds after the start."""

    seconds: int
    first_after: int  # soon for work that takes long, so that it is also done by a service that is restarted often
    run: Callable[[], None]


def _tasks(tenancy: Tenancy, sweeper: Sweeper, notifier: Notifier, retention_days: int) -> dict[str, Task]:
    """The table of all tasks, by name. Runs and heartbeats are kept for `retention_days`."""
    databases = tenancy.databases
    visits: dict[tuple[str, Org], tuple[int, int]] = {}

    def for_changed(name: str, work: Callable[[Org, int], object]) -> None:
        """Call `work` for what was written to since the last call, for others once an hour; not while space is low."""
        if tenancy.quotas.space.is_low:
            return
        now_ms = tenancy.clock()

        def visit(org: Org) -> None:
            last_write = databases.last_write(org)
            known, visited_at = visits.get((name, org), (None, 0))
            if last_write != known or abs(now_ms - visited_at) >= HOUR_MS:
                work(org, now_ms)
                visits[name, org] = last_write, now_ms

        for_each_organization(tenancy, visit, tenancy.keyring.organizations())

    def index(org: Org, _: int) -> None:
        in_batches(databases, org, upkeep.index_messages, share=BACKGROUND_SHARE, seconds=_INDEXING_SECONDS)

    def purge(org: Org) -> None:
        now_ms = sweeper.clock.retention_ms()
        cutoff = now_ms - retention_days * DAY_MS
        in_batches(databases, org, partial(annotations.delete_past_retention, cutoff=now_ms), share=BACKGROUND_SHARE)
        for delete in _PURGES:  # jobs stay, so silent ones are seen
            in_batches(databases, org, partial(delete, cutoff=cutoff), share=BACKGROUND_SHARE)

    roll_up = partial(heartbeats.roll_up, databases, retention_days=retention_days)
    return {
        "sweep": Task(1, 1, sweeper.run),
        "deliveries": Task(1, 1, notifier.run),
        "last use of keys": Task(10, 10, tenancy.keyring.flush_last_used),
        "quotas and disk space": Task(5, 5, tenancy.quotas.watch),
        "index of messages": Task(30, 3, partial(for_changed, "index", index)),
        "rollups": Task(60, 5, partial(for_changed, "rollups", roll_up)),
        "purge": Task(3600, 7, lambda: for_each_organization(tenancy, purge, tenancy.keyring.organizations())),
    }


class Background:
    """The scheduler of one application. `obs serve` makes sure that there is one server of an instance."""

    def __init__(self, tenancy: Tenancy, queue: SweepQueue, alerts: AlertService, settings: Mapping[str, Any]) -> None:
        """Raises ConfigError for an unknown time zone in `settings`."""
        self.sweeper = Sweeper(tenancy, queue, alerts, settings)
        self.notifier = Notifier(tenancy, alerts, settings)
        self.tasks = _tasks(tenancy, self.sweeper, self.notifier, int(settings["RUN_RETENTION_DAYS"]))
        self.tasks["courier"] = Task(5, 5, partial(alerts.courier.close, only_if_idle=True))  # `deliveries` may hang
        self._starting = threading.Lock()
        self._winding_down = tenancy.databases.winding_down
        self.scheduler: Any = BackgroundScheduler(timezone=UTC, job_defaults={"misfire_grace_time": None})
        self._done_at: dict[str, float] = {}
        if settings["HEARTBEAT_URL"]:
            report = partial(self._report_health, tenancy, alerts, str(settings["HEARTBEAT_URL"]))
            self.tasks["heartbeat"] = Task(60, 60, report)

    def start(self) -> None:
        """Start the scheduler unless it runs. Call it after any fork: threads do not survive one. Not after `stop`."""
        with self._starting:
            if self.scheduler.running:
                return
            self.sweeper.excuse_downtime()
            for name, task in self.tasks.items():
                first = datetime.now(UTC) + timedelta(seconds=task.first_after)
                every = _Every(seconds=task.seconds)
                self.scheduler.add_job(partial(self.run, name), every, next_run_time=first, id=name)
            self.scheduler.start()
            threading.Thread(target=self._watch_clock, daemon=True).start()

    def stop(self) -> None:
        """Stop the scheduler and wait for the task that is running, which ends soon, and for answers to messages."""
        self._winding_down.set()
        with self._starting:
            if self.scheduler.running:
                self.scheduler.shutdown()
        self.notifier.finish()

    def _watch_clock(self) -> None:
        """Have all tasks run at once when the wall clock was set back, by which APScheduler plans them."""
        before = datetime.now(UTC)
        while not self._winding_down.wait(_CLOCK_SECONDS):
            now = datetime.now(UTC)
            self.sweeper.tick()
            if now < before:
                for job in self.scheduler.get_jobs():
                    job.modify(next_run_time=now)
            before = now

    def _report_health(self, tenancy: Tenancy, alerts: AlertService, url: str) -> None:
        """Have the courier fetch `url`, if everything works that is needed to notify somebody."""
        has_problem = tenancy.unusable_files() or tenancy.quotas.space.write_problem()
        done_at = min(self._done_at.get(name, -math.inf) for name in ("sweep", "deliveries"))
        if time.monotonic() - done_at < _HEALTHY_SECONDS and not has_problem:
            alerts.courier.submit({"op": "fetch", "kind": "webhook", "address": url, "allow_private": True})

    def run(self, name: str) -> None:
        """Run a task, and note when it was done. A problem with the control file is logged."""
        try:
            self.tasks[name].run()
            self._done_at[name] = time.monotonic()
        except ServiceError as error:
            _log.warning("%s: %s", name, error.message)


class _Every(IntervalTrigger):  # type: ignore[misc]  # APScheduler has no types
    """Runs a job again and again. When the wall clock was set forward, the runs in between are not computed."""

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        following: datetime = (previous_fire_time or now) + self.interval
        return following if following > now else now + self.interval
