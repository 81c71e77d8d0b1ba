"""Changes to jobs and maintenance windows, rolling up runs, and which organizations the sweep visits."""

import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import islice, pairwise, takewhile
from typing import Any, get_args
from uuid import uuid4

from obs.errors import ServiceError, existing, invalid_field
from obs.heartbeat import pins
from obs.heartbeat.store import expectations, jobs, maintenance, rollups
from obs.heartbeat.store.record import Attribution, find_attribution
from obs.storage.databases import BACKGROUND_SHARE, Databases, Org, in_batches
from obs.tenancy import audit, keys, service as tenancy_service
from obs.tenancy.auth import Caller
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, duration_words

_DELETING_SECONDS = 20.0  # about how long one request deletes jobs: proxies end a request that takes a minute
_DELETING_SHARE = 0.5
_ROWS_A_BATCH = 250  # which kind of rows it deletes differs, and so does the time for one
_ROLLING_UP_SECONDS = 2.0  # at most in one call, so that one organization's years do not delay the others
SETTLED_MS = 15 * MINUTE_MS  # how long after its end an hour is rolled up: until then many of its runs may still end


class SweepQueue:
    """The organizations that are due for a sweep, by a change or by the time. Thread-safe; times are milliseconds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._due_at: dict[Org, int | None] = {}
        self.refused: dict[Org, tuple[int, int]] = {}  # when heartbeats could not be stored: the first and the last one

    def note(self, org: Org) -> None:
        with self._lock:
            self._due_at[org] = 0

    def note_refused(self, org: Org, now_ms: int) -> None:
        """Note that a heartbeat could not be stored: nobody can know which jobs run until it is sent again."""
        with self._lock:
            self.refused[org] = self.refused.get(org, (now_ms, now_ms))[0], now_ms

    def excused(self, org: Org, refused: tuple[int, int]) -> None:
        """Forget that heartbeats were refused, unless another one was since."""
        with self._lock:
            if self.refused.get(org) == refused:
                del self.refused[org]

    def take(self, orgs: Iterable[Org], now_ms: int) -> list[Org]:
        """Take those of `orgs` that are due. Organizations that were never swept, or whose last sweep failed, are."""
        with self._lock:
            due_at = {org: self._due_at.get(org, 0) for org in orgs}
            due = [org for org, moment in due_at.items() if moment is not None and moment <= now_ms]
            # Until `swept` is called an organization stays due: its file may be locked at the moment.
            for org in (self._due_at.keys() - due_at.keys()) | set(due):
                self._due_at.pop(org, None)
        return due

    def swept(self, org: Org, due_at: int | None) -> None:
        """Note when `org` is due again, None for not before something changes; now if it has changed since `take`."""
        with self._lock:
            self._due_at.setdefault(org, due_at)


class HeartbeatService:
    def __init__(self, queue: SweepQueue, rename_bands: Callable[..., None], end_bands: Callable[..., None]) -> None:
        """With the two, the annotations of incidents follow their job: see `obs.annotations.store`."""
        self.queue, self._rename_bands, self._end_bands = queue, rename_bands, end_bands

    def change_job(
        self, caller: Caller, name: str, changes: Mapping[str, Any], *, adds: bool = False
    ) -> tuple[jobs.Job, bool]:
        """The job and whether it is new: only if it `adds` a job, which must be new where `changes` have its name.

        `changes` come from JobFieldsSchema. Raises ServiceError: 404, 409 for a name or UUID that is taken, 422, 507.
        """
        if changes.get("paused_until", caller.now_ms + 1) <= caller.now_ms:
            raise invalid_field("json", "paused_until", "Must be in the future.")
        if (changes.get("schedule_changed_at") or 0) > caller.now_ms:
            raise invalid_field("json", "schedule_changed_at", "Must not be in the future.")
        uuid = (changes["ping_uuid"] or str(uuid4())).lower() if "ping_uuid" in changes else None

        def check(db: sqlite3.Connection) -> bool:
            job_id = jobs.job_id(db, name)
            if job_id is None and not adds:
                raise no_job(name)
            named = jobs.job_id(db, changes["name"]) if "name" in changes else None
            if named is not None and (adds or named != job_id):
                raise ServiceError("conflict", f"There is already a job named {changes['name']!r}.")
            owner = None if uuid is None else jobs.name_of_uuid(db, uuid)
            if owner is not None and jobs.job_id(db, owner) != job_id:
                raise ServiceError("conflict", "Another job has this UUID.")
            if job_id is None:
                caller.tenancy.quotas.check_new(caller.org, "max_jobs", jobs.count_jobs(db) + 1)
            return job_id is None

        def unit(db: sqlite3.Connection) -> tuple[jobs.Job, bool]:
            if is_new := check(db):
                jobs.add_job(db, name, caller.now_ms)
                audit.add(db, caller.actor, caller.now_ms, audit.Action.CREATE_JOB, name)
            job = known_job(db, name, caller.now_ms)
            new_name = changes.get("name", job.name)
            if uuid is not None and uuid != (known := jobs.ping_uuid(db, job.id)):
                jobs.set_ping_uuid(db, job.id, uuid, replaces=known)
                audit.add(db, caller.actor, caller.now_ms, audit.Action.CHANGE_JOB, f"{name}: ping_uuid")
            columns = _columns(db, job, changes, caller.now_ms)
            moves = not job.overdue and (new_name != job.name or "attribution_id" in columns)  # to or from windows
            is_rescheduled = moves or bool(columns.keys() & {"pin", "paused_at", "paused_until", "schedule_changed_at"})
            if moves:
                maintenance.keep_past(db, job.id, job.last_heartbeat_at or 0, caller.now_ms)
            jobs.change(db, job.id, columns, is_rescheduled)
            if is_rescheduled:  # the response shows what is expected
                expectations.expect_for_now(db, job.id, caller.now_ms)
            if (is_rescheduled or new_name != job.name) and not (is_new and changes.keys() == {"name"}):
                words = {"name": f"name {new_name}", "paused": "paused" if changes.get("paused") else "resumed"}
                words["pin"] = "pin" if changes.get("pin") else "pin removed"
                differ = [field for field, value in changes.items() if value != getattr(job, field, ...)]  # PUT has all
                what = ", ".join(words.get(field, field) for field in differ or changes)
                audit.add(db, caller.actor, caller.now_ms, audit.Action.CHANGE_JOB, f"{name}: {what}")
            if new_name != job.name:
                self._rename_bands(db, job.name, caller.now_ms, new_name)
            return known_job(db, new_name, caller.now_ms), is_new

        if uuid is not None:
            caller.fetch(check)  # a change that is refused must not claim the UUID
            tenancy_service.claim_ping_url(caller.tenancy, caller.org, uuid)
        changed = caller.write(unit)
        self.queue.note(caller.org)
        return changed

    def ping_url(self, caller: Caller, job_id: int, *, creates: bool = True) -> str | None:
        """None if the caller may not send heartbeats, or there is no URL and none is created. Raises ServiceError."""
        if not keys.allows(caller.scopes, "heartbeat:write"):
            return None

        def unit(db: sqlite3.Connection) -> str | None:
            # In a copy of an organization, the UUIDs belong to the original.
            jobs.set_ping_uuid(db, job_id, str(uuid4()), replaces=uuid if owner else None)
            return jobs.ping_uuid(db, job_id)

        uuid = caller.fetch(lambda db: jobs.ping_uuid(db, job_id))
        owner = uuid and caller.tenancy.keyring.organization_of_ping_url(uuid)
        if owner != caller.org:
            try:
                uuid = caller.write(unit) if creates else None
                if uuid is not None:
                    tenancy_service.claim_ping_url(caller.tenancy, caller.org, uuid)
            except ServiceError:
                return None  # a job can be read while nothing can be written
        return f"{caller.tenancy.ingest.url(caller.org.slug)}/ping/{uuid}" if uuid else None

    def delete_job(self, caller: Caller, name: str) -> None:
        """Delete the job `name` with its runs and events. Raises ServiceError (404)."""

        def unit(db: sqlite3.Connection) -> int:
            job = known_job(db, name, caller.now_ms)
            self._end_bands(db, job.name, caller.now_ms)
            audit.add(db, caller.actor, caller.now_ms, audit.Action.DELETE_JOB, name)
            return job.id

        in_batches(caller.tenancy.databases, caller.org, partial(jobs.delete_jobs, ids=[caller.write(unit)]))
        self.queue.note(caller.org)

    def delete_jobs(self, caller: Caller, prefix: str, *, dry_run: bool = False) -> dict[str, int]:
        """Delete for a limited time; returns how many were ``deleted`` and ``remaining``. Raises ServiceError (422)."""
        if not prefix:
            raise invalid_field("query", "prefix", "Must not be empty.")

        def delete(db: sqlite3.Connection, limit: int) -> int:
            few = min(limit, _ROWS_A_BATCH)
            chosen = jobs.with_prefix(db, prefix, few)
            for name in chosen.values():
                self._end_bands(db, name, caller.now_ms)
            return jobs.delete_jobs(db, few, list(chosen))

        found = remaining = len(caller.fetch(lambda db: jobs.with_prefix(db, prefix)))
        if not dry_run:
            caller.write(lambda db: audit.add(db, caller.actor, caller.now_ms, audit.Action.DELETE_JOBS, f"{prefix}*"))
            in_batches(caller.tenancy.databases, caller.org, delete, share=_DELETING_SHARE, seconds=_DELETING_SECONDS)
            self.queue.note(caller.org)
            remaining = len(caller.fetch(lambda db: jobs.with_prefix(db, prefix)))
        return {"deleted": max(0, found - remaining), "remaining": remaining}

    def open_windows(self, caller: Caller) -> list[maintenance.MaintenanceWindow]:
        return caller.fetch(lambda db: maintenance.windows(db, caller.now_ms))

    def add_window(self, caller: Caller, fields: Mapping[str, Any]) -> maintenance.MaintenanceWindow:
        """Add a maintenance window with the fields of MaintenanceWindowSchema. Raises ServiceError (422)."""
        values = dict(fields)
        if values.get("cron"):
            zone, length_ms = values.get("timezone") or "UTC", values["duration_seconds"] * SECOND_MS
            times, end = pins.cron_times(values["cron"], zone, caller.now_ms - length_ms), caller.now_ms + 366 * DAY_MS
            try:
                starts = [next(times)]
                starts += takewhile(lambda time: time < end, islice(times, 9_000))  # hourly for a year, DST too
            except StopIteration as error:
                raise invalid_field("json", "cron", "It begins too seldom.") from error
            values |= {"timezone": zone, "start_time": starts[0], "end_time": starts[0] + length_ms}
            least_ms = min((later - start for start, later in pairwise(starts)), default=DAY_MS * 366)
            if least_ms < HOUR_MS or least_ms <= length_ms:
                message = f"It begins again after {duration_words(least_ms)}. This must be longer than the window"
                raise invalid_field("json", "cron", f"{message}, and at least an hour.")

        def unit(db: sqlite3.Connection) -> maintenance.MaintenanceWindow:
            audit.add(db, caller.actor, caller.now_ms, audit.Action.ADD_WINDOW, values["title"])
            return maintenance.save(db, values)

        window = caller.write(unit)
        self.queue.note(caller.org)
        return window

    def delete_window(self, caller: Caller, window_id: int) -> None:
        """Delete a maintenance window. Raises ServiceError (404)."""

        def unit(db: sqlite3.Connection) -> None:
            window = existing("window", window_id, (one for one in maintenance.windows(db) if one.id == window_id))
            audit.add(db, caller.actor, caller.now_ms, audit.Action.DELETE_WINDOW, window.title)
            maintenance.delete(db, window_id, caller.now_ms)

        caller.write(unit)
        self.queue.note(caller.org)


def roll_up(databases: Databases, org: Org, now_ms: int, retention_days: int) -> int:
    """Roll up past hours of `org`, the latest day first, then longer units, for a limited time.

    Returns how many. Hours before the retention are left alone. Raises ServiceError (503).
    """
    oldest, settled = max(0, (now_ms - retention_days * DAY_MS) // HOUR_MS), (now_ms - SETTLED_MS) // HOUR_MS
    end, attempts, done = time.monotonic() + _ROLLING_UP_SECONDS, 0, 0
    for unit in get_args(rollups.Unit):
        with databases.read(org) as db:
            numbers = rollups.hours_to_roll_up(db, oldest, settled) if unit == "hour" else rollups.missing(db, unit)
        for number in takewhile(lambda _: time.monotonic() < end, numbers):
            attempts, attempt = attempts + 1, secrets.randbits(62)
            databases.write(org, partial(rollups.note_attempt, unit=unit, number=number, attempt=attempt))
            cells = databases.fetch(org, partial(rollups.read, unit=unit, number=number))
            done += databases.write(org, partial(rollups.keep, unit=unit, number=number, cells=cells, attempt=attempt))
    if attempts and time.monotonic() < end:
        in_batches(databases, org, lambda db, limit: rollups.forget_before(db, oldest, limit), share=BACKGROUND_SHARE)
    return done


def no_job(name: str) -> ServiceError:
    return ServiceError("job_not_found", f"There is no job named {name!r}.", hint="List them with GET /api/v1/jobs.")


def known_job(db: sqlite3.Connection, name: str, now_ms: int) -> jobs.Job:
    """The job with that name. Raises ServiceError (404)."""
    if (job := jobs.job(db, name, now_ms)) is None:
        raise no_job(name)
    return job


def _columns(db: sqlite3.Connection, job: jobs.Job, changes: Mapping[str, Any], now_ms: int) -> dict[str, Any]:
    """The columns of `job` that `changes` set. What it has already stays as it is."""
    columns = {name: changes[name] for name in ("name", "failure_tolerance") if name in changes}
    columns |= {"pinned_by_person": 1} if "pin" in changes else {}
    if changes.get("pin", job.pin) != job.pin:
        columns |= {"pin": pins.to_json(changes["pin"]), "overdue_since": None, "waits": None}
    if changes.get("paused") is False:
        columns |= {"paused_until": now_ms} if job.paused else {}
    elif "paused" in changes or "paused_until" in changes:
        until_ms = changes.get("paused_until")
        if not job.paused or until_ms != job.paused_until:
            columns |= {"paused_at": now_ms, "paused_until": until_ms, "overdue_since": None}
    if changes.get("schedule_changed_at", job.schedule_changed_at) != job.schedule_changed_at:
        columns |= {"schedule_changed_at": changes["schedule_changed_at"], "overdue_since": None, "waits": None}
    place = Attribution(*(changes.get(name, getattr(job, name)) for name in Attribution._fields))
    if place != (job.host, job.service, job.project):
        columns["attribution_id"] = find_attribution(db, place)
    return columns
