"""The sweep: from silence to incident.

Once a second, for each organization that is due: learn from new heartbeats, flag what is overdue, overrunning or lost,
and open and close incidents with the annotations that show them. Times are milliseconds since the epoch.
"""

import json
import logging
import math
import random
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import tzlocal

from obs.alerts.service import AlertService
from obs.alerts.store import incidents, outbox
from obs.alerts.store.channels import Channel
from obs.alerts.store.incidents import FALSE_ALARM, Incident, IncidentKind
from obs.annotations import store as annotations
from obs.config import ConfigError
from obs.errors import ServiceError
from obs.heartbeat.overdue import Wait
from obs.heartbeat.runs import FUTURE_MS
from obs.heartbeat.schedule.history import RETRIED_MS
from obs.heartbeat.service import SweepQueue, known_job
from obs.heartbeat.store import expectations, jobs, maintenance, upkeep
from obs.heartbeat.store.expectations import JOBS_A_BATCH, Learned
from obs.storage.databases import Org, in_batches
from obs.tenancy import audit, store
from obs.tenancy.auth import Caller, Tenancy
from obs.tenancy.clock import STEP_MS, Reading, ServerClock
from obs.times import MAX_MS, MINUTE_MS, find_zone

_STARTING_SECONDS = 0.5  # how long a start waits for the files of organizations
LEARNING_SECONDS = 0.85  # how long a sweep learns in all organizations together, so that it soon finds problems
ALONE_SECONDS = 0.02  # how long it learns in each organization, whatever the others take, and without another process
_INCIDENTS_A_BATCH = 50  # each with a message to every channel
Lend = Callable[[Sequence[Callable[[], Any]]], list[Any]]  # what other processes return that call these
_log = logging.getLogger(__name__)


class Sweeper:
    """Sweeps the organizations of an instance. The clocks are the application's, so that a test can move them."""

    def __init__(self, tenancy: Tenancy, queue: SweepQueue, alerts: AlertService, settings: Mapping[str, Any]) -> None:
        """Raises ConfigError for an unknown time zone in `settings`."""
        self._tenancy, self._queue, self._alerts = tenancy, queue, alerts
        self.lend: Lend = lambda works: []
        self._zones = time_zones(str(settings["TIME_ZONES"]))
        self._monotonic: Callable[[], float] = settings["MONOTONIC"]
        self.clock = ServerClock(tenancy.control, tenancy.clock, settings)
        self._clock_offset = self._offset()
        self._ticked, self._stood_still = time.monotonic(), False

    def tick(self) -> None:
        """Notice that this process stood still, as in a container that was paused. To be called every second."""
        now = time.monotonic()
        if now - self._ticked > STEP_MS / 1000:
            self._stood_still = True
        self._ticked = now

    def excuse_downtime(self) -> None:
        """Wait for no run that was expected while the service was down; learn again what another version has learned.

        Of many organizations, some follow when their files are first used. Raises ServiceError (503).
        """
        self._excuse(self.clock.look(is_kept=False), _STARTING_SECONDS)

    def run(self) -> None:
        """Sweep each organization that is due. Raises ServiceError (503)."""
        seen = self.clock.look(is_kept=not self._tenancy.databases.first_units)
        offset = self._offset()
        self.tick()
        # The two clocks also move apart while the machine is suspended.
        if seen.needs_correction or self._stood_still or abs(offset - self._clock_offset) * 1000 > STEP_MS:
            self._excuse(seen)
        self._clock_offset, self._stood_still = offset, False

        def sweep_one(org: Org) -> None:
            if refused := self._queue.refused.get(org):  # clients send again within a minute
                end = min(refused[1] + MINUTE_MS, seen.now_ms)
                self._tenancy.databases.write(org, partial(expectations.note_downtime, start=refused[0], end=end))
                self._queue.excused(org, refused)
            zones = [self._zones[0], viewer_zones.get(org.id, "UTC"), *self._zones[1:]]
            now = seen._replace(now_ms=round((self._monotonic() + offset) * 1000))  # others may have taken long
            self._queue.swept(org, sweep(self._alerts, org, now, zones, self.lend, until))

        until = time.monotonic() + LEARNING_SECONDS
        if due := self._queue.take(self._tenancy.keyring.organizations(), seen.now_ms):
            random.shuffle(due)
            viewer_zones = self._tenancy.control.fetch(store.viewer_zones)
            for_each_organization(self._tenancy, sweep_one, due)

    def judge(self, caller: Caller, incident_id: int, verdict: str | None) -> dict[str, Any]:
        """Note the verdict of a person on an overdue incident, or without a verdict, have no more reminders of it sent.

        Returns the ``incident``, and the ``effect`` in words, None for none. Raises ServiceError (404, 409).
        """
        channels, now_ms = self._alerts.channels(caller.org), caller.now_ms

        def unit(db: sqlite3.Connection) -> dict[str, Any]:
            one = incidents.incident(db, incident_id)
            if verdict is None and one.acknowledged_at is None:
                if one.ended_at is not None:
                    raise ServiceError("conflict", "The incident has ended.")
                who = {"acknowledged_at": now_ms, "acknowledged_by": caller.actor.name}
                incidents.save(db, values={"id": one.id, **who})
                audit.add(db, caller.actor, now_ms, audit.Action.ACKNOWLEDGE_INCIDENT, one.job)
            elif verdict is not None and one.kind is not IncidentKind.OVERDUE:
                raise ServiceError("conflict", "Only incidents of the kind overdue can be judged.")
            elif verdict not in (None, one.verdict):
                incidents.save(db, values={"id": one.id, "verdict": verdict})
                audit.add(db, caller.actor, now_ms, audit.Action.JUDGE_INCIDENT, f"{one.job}: {verdict}")
                _wait(db, one, verdict == FALSE_ALARM, now_ms)
                _open_and_close(db, [one.job_id or 0], channels, Reading(now_ms))
            waits = [] if (job := jobs.job(db, one.job, now_ms)) is None else job.waits
            effect = next((wait.words for wait in waits if wait.incident_id == one.id), None)
            return {"incident": incidents.incident(db, incident_id), "effect": effect}

        judged = caller.write(unit)
        self._queue.note(caller.org)
        self._alerts.woken.add(caller.org)
        return judged

    def _excuse(self, seen: Reading, seconds: float = math.inf) -> None:
        """Call `_correct` for all organizations, and have them swept; after so many `seconds`, at their first use."""
        databases, correct, end = self._tenancy.databases, partial(_correct, seen=seen), self._monotonic() + seconds

        def excuse_one(org: Org) -> None:
            if self._monotonic() < end:
                databases.write(org, correct)
            else:
                databases.write_first(org, correct)
            self._queue.note(org)
            self._alerts.woken.add(org)

        with suppress(ServiceError):  # logged
            for_each_organization(self._tenancy, excuse_one, self._tenancy.keyring.organizations())

    def _offset(self) -> float:
        """Wall clock minus monotonic clock, in seconds: it changes when the wall clock is set."""
        return self._tenancy.clock() / 1000 - self._monotonic()


def sweep(alerts: AlertService, org: Org, seen: Reading, zones: Sequence[str], lend: Lend, until: float) -> int | None:
    """Sweep `org`: learn, flag problems, open and close incidents. `zones` are the likely time zones of jobs.

    It learns for ALONE_SECONDS, and then `until` a moment of `time.monotonic`. Returns when the next sweep is due if no
    heartbeat comes before, None for never. Raises ServiceError (503).
    """
    databases, now_ms = alerts.tenancy.databases, seen.now_ms
    with databases.read(org) as db:
        has_wrong_times = not seen.is_behind and expectations.has_heartbeat_after(db, now_ms + FUTURE_MS)
        recurs = db.execute(maintenance.OVER, (now_ms,)).fetchone()
    if has_wrong_times:
        databases.write(org, partial(_correct, seen=Reading(now_ms)))
    if recurs:
        databases.write(org, partial(maintenance.renew, now_ms=now_ms))
    begun, is_left, learned = time.monotonic(), True, list[Learned]()
    work = partial(expectations.learn_in_file, databases.path(org), zones, seen, LEARNING_SECONDS)
    while is_left:
        with databases.read(org) as db:  # or the other process would be the last to close the file
            skips = (0, JOBS_A_BATCH)[: 1 + len(learned) // JOBS_A_BATCH]  # in two processes after a full batch
            lent = lend([partial(work, each) for each in skips]) if time.monotonic() > begun + ALONE_SECONDS else []
            parts = lent or [expectations.learn(db, zones, seen, ALONE_SECONDS)]
        learned = [one for part, _ in parts for one in part]
        is_left = len(parts) < len(skips) or any(is_left for _, is_left in parts)
        if learned:  # which forgets failed and lost runs after which the jobs have succeeded
            as_of_now = seen._replace(now_ms=alerts.tenancy.clock())
            _update_incidents(alerts, org, as_of_now, [one.job_id for one in learned])
            channels = alerts.channels(org) if any(one.news for one in learned) else ()
            databases.write(org, partial(_keep, learned, channels=channels, now_ms=now_ms))
            if channels:
                alerts.woken.add(org)
        if time.monotonic() > until:
            break
    due_at = databases.fetch(org, lambda db: expectations.next_moment(db, now_ms))
    if due_at is not None and due_at <= now_ms:
        in_batches(databases, org, partial(expectations.flag, now_ms=now_ms))
    _update_incidents(alerts, org, seen)
    return now_ms if is_left else databases.fetch(org, lambda db: expectations.next_moment(db, now_ms))


def _update_incidents(alerts: AlertService, org: Org, seen: Reading, job_ids: Sequence[int] | None = None) -> None:
    """Open and close incidents. With `job_ids`, only of those whose failed or lost run has no incident yet."""
    databases = alerts.tenancy.databases
    to_open, to_close = databases.fetch(org, lambda db: _incident_changes(db, seen, job_ids))
    if job_ids is not None:
        to_open, to_close = [one for one in to_open if one.kind in ("failing", "lost")], []
    concerned = sorted({one.job_id for one in to_open} | {job_id for job_id, _ in to_close})
    channels = alerts.channels(org) if concerned else ()
    for start in range(0, len(concerned), _INCIDENTS_A_BATCH):
        batch = concerned[start : start + _INCIDENTS_A_BATCH]
        databases.write(org, partial(_open_and_close, job_ids=batch, channels=channels, seen=seen))
        alerts.woken.add(org)


def _correct(db: sqlite3.Connection, seen: Reading) -> None:
    """Note the time that was not seen, correct all times of a wrong wall clock, and learn from what is left."""
    expectations.note_downtime(db, seen.unseen_start_ms, seen.unseen_end_ms)
    correction = {**seen._asdict(), "latest_ms": MAX_MS if seen.is_behind else seen.now_ms}
    for correct in (upkeep.correct_times, incidents.correct_times, outbox.correct_times, annotations.correct_times):
        correct(db, correction)
    maintenance.renew(db, seen.now_ms)
    expectations.learn_again(db)


def _keep(learned: Iterable[Learned], db: sqlite3.Connection, channels: Sequence[Channel], now_ms: int) -> None:
    """Store what was learned, and report new schedules to the channels that want it."""
    for one in [each for each in learned if expectations.keep(db, each) and each.news]:
        for job in jobs.jobs_by_id(db, [one.job_id], now_ms).values():
            for channel in (each for each in channels if each.wants("schedule_changed", job.name, job)):
                outbox.report(db, channel, "schedule_changed", f"{job.name} has a new schedule: {one.news}", now_ms)


def _incident_changes(
    db: sqlite3.Connection, seen: Reading, job_ids: Sequence[int] | None = None
) -> tuple[list[expectations.Problem], list[tuple[int, int]]]:
    """The problems that have no incident, and the (job id, id) of the incidents to close; of all jobs, or of some.

    No incident is opened during maintenance of its job. While the clock is behind, incidents of hosts stay open.
    """
    problems = {(one.job_id, one.kind, one.host): one for one in expectations.problems(db, seen, job_ids)}
    known = incidents.open_incidents(db, job_ids)
    to_close = [(key[0], known[key]) for key in known.keys() - problems.keys() if not (seen.is_behind and key[2])]
    opened = sorted(problems.keys() - known.keys())
    covered = maintenance.covered_jobs(db, seen.now_ms) if opened else ()
    return [problems[key] for key in opened if key[0] not in covered], sorted(to_close)


def _open_and_close(db: sqlite3.Connection, job_ids: Sequence[int], channels: Sequence[Channel], seen: Reading) -> None:
    """Open and close incidents of some jobs, as it is now."""
    problems, to_close = _incident_changes(db, seen, job_ids)
    to_open = [{**one._asdict(), "kind": IncidentKind[one.kind.upper()]} for one in problems]
    closed = incidents.incidents_by_id(db, [incident_id for _, incident_id in to_close])
    open_and_close(db, to_open, closed, channels, seen.now_ms)


def open_and_close(
    db: sqlite3.Connection,
    to_open: Sequence[Mapping[str, Any]],
    to_close: Sequence[Incident],
    channels: Sequence[Channel],
    now_ms: int,
) -> None:
    """Open incidents with these columns, and close others, with their bands and the messages to `channels`."""
    opened = []
    for values in to_open:
        prefix = "alert" if values["kind"] is IncidentKind.ALERT else "incident"
        title = values["kind"].title(values["subject"] + (f" on {values['host']}" if values.get("host") else ""))
        band = {"name": f"{prefix}/{values['subject']}", "title": title, "start_time": values["started_at"]}
        band |= {"created_at": now_ms, "updated_at": now_ms, "by_service": True}
        opened.append(incidents.save(db, values={**values, "annotation_id": annotations.save(db, values=band)}))
    outbox.began(db, channels, incidents.incidents_by_id(db, opened), now_ms)
    for incident in to_close:
        ended_at = incident.heartbeat_at
        if ended_at is None or not incident.started_at < ended_at <= now_ms:
            ended_at = max(now_ms, incident.started_at)  # no heartbeat came after its start
        incidents.save(db, values={"id": incident.id, "ended_at": ended_at})
        annotations.save(db, values={"id": incident.annotation_id, "end_time": ended_at, "updated_at": now_ms})
    outbox.ended(db, channels, to_close, now_ms)


def _wait(db: sqlite3.Connection, one: Incident, is_false_alarm: bool, now_ms: int) -> None:
    """Wait longer for a job in the situation of an incident if that was a false alarm, else as long as was learned."""
    job = known_job(db, one.job, now_ms)
    waits = [wait for wait in job.waits if wait.incident_id != one.id]
    if is_false_alarm and job.pin is not None:
        raise ServiceError("conflict", "The schedule was set by hand.", hint="Set a longer grace period.")
    is_host = one.subject != one.job and one.ended_at is None  # which is not learned any more, by a trigger
    silent_until = one.ended_at or max(now_ms, one.started_at + RETRIED_MS + 1)  # in less, no slot is left out
    added = [Wait(one.id, one.started_at, silent_until)] if is_false_alarm and not is_host else []
    if [*waits, *added] == list(job.waits):
        return
    columns = {"waits": json.dumps([*waits, *added])} | ({} if one.ended_at else {"overdue_since": None})
    jobs.change(db, job.id, columns, is_rescheduled=True)
    for wait in added:  # while the job is silent, until the next run is overdue
        (changed,) = expectations.changed_jobs(db, 1, job.id)
        next_at = None if one.ended_at else expectations.expectation(db, changed, None, now_ms).overdue_at
        extended = wait.extended(changed.fit, next_at)
        jobs.change(db, job.id, {"waits": json.dumps([*waits, extended])}, is_rescheduled=False)
    expected = expectations.expect_for_now(db, job.id, now_ms)
    if one.ended_at and (expected.overdue_at or 0) > now_ms:  # the job may be overdue again, in the same situation
        jobs.change(db, job.id, {"overdue_since": None}, is_rescheduled=False)


def time_zones(configured: str) -> list[str]:
    """The time zones in which jobs may be scheduled, the likeliest first: that of the machine, then UTC.

    `configured` are names separated by spaces; an unknown one raises ConfigError. A machine may have none: then UTC.
    """
    machine = tzlocal.get_localzone_name() or "UTC"
    machine = machine.replace("Etc/UTC", "UTC") if find_zone(machine) else "UTC"
    zones = list(dict.fromkeys([machine, "UTC", *configured.split()]))
    for zone in zones:
        if find_zone(zone) is None:
            raise ConfigError(f"TIME_ZONES contains {zone!r}, which is not a known time zone")
    return zones


def for_each_organization(tenancy: Tenancy, work: Callable[[Org], object], orgs: Iterable[Org]) -> None:
    """Call `work` for each of `orgs`, until the instance is about to be closed. Pause while many heartbeats arrive.

    An error with one organization is logged and does not affect the others. Raises ServiceError (500) after the last
    one if there were others than those of storage, so that the task does not count as done.
    """
    stopped, failed = tenancy.databases.winding_down, 0
    for org in orgs:
        if stopped.is_set():
            return
        begun = time.monotonic()
        try:
            work(org)
        except ServiceError as error:
            tenancy.databases.problems.failed(org, "write", error)
        except Exception:  # noqa: BLE001 - logged; an error with one file must not stop the others
            _log.exception("organization %s", org)
            failed += 1
        if pause := tenancy.quotas.pause_seconds(time.monotonic() - begun):
            stopped.wait(pause)
    if failed:
        raise ServiceError("internal_error", f"{failed} of the organizations failed")
