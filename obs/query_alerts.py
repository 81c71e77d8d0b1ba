"""Alerts on queries: changes to them, and their evaluation, from a number to an incident. Times are milliseconds."""

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from obs.alerts.rules import Alert, evaluate
from obs.alerts.service import AlertService
from obs.alerts.store import rules as store
from obs.alerts.store.channels import Channel
from obs.alerts.store.incidents import IncidentKind
from obs.errors import ServiceError, invalid_field
from obs.heartbeat.store import maintenance
from obs.query.service import QueryService
from obs.storage.databases import Org
from obs.sweep import for_each_organization, open_and_close
from obs.tenancy import audit
from obs.tenancy.auth import Caller, Tenancy

_MOST_ALERTS = 1_000  # of an organization
MOST_GROUPS = 100  # of an alert
_LONGEST_SUBJECT = 190
_RUN_SECONDS = 2.0  # of an organization at a time, so that slow statements do not delay the alerts of others
_READER = frozenset({"query:read"})
_PREVIEW_SECONDS = 3.0  # about how long a preview takes: it evaluates a slow statement less often


class QueryAlerts:
    def __init__(self, tenancy: Tenancy, queries: QueryService, alerts: AlertService, now: Callable[[], float]) -> None:
        self._tenancy, self._queries, self._alerts, self._monotonic = tenancy, queries, alerts, now
        self._known: dict[Org, tuple[int, list[Alert]]] = {}  # with the last write to the file before they were read
        self._due_at: dict[tuple[Org, int | None], int] = {}

    def save(self, caller: Caller, fields: Mapping[str, Any], alert_id: int | None = None) -> Alert:
        """Create an alert from the fields of AlertRequestSchema, or change some fields of one.

        Its incidents end if anything changes; they begin again if need be. Raises ServiceError (404, 409, 422).
        """
        if "query" in fields:
            self._check(caller, fields["query"])

        def unit(db: sqlite3.Connection, channels: Sequence[Channel]) -> Alert:
            known = None if alert_id is None else store.alert(db, alert_id)
            alert = replace(known, pending={}, last_error=None, **fields) if known else Alert(**fields)
            if known and replace(known, **fields) == known:
                return known
            if known:
                open_and_close(db, (), [*known.firing.values()], channels, caller.now_ms)
            elif len(store.alerts(db)) >= _MOST_ALERTS:
                raise ServiceError("conflict", f"There are already {_MOST_ALERTS} alerts.")
            action = audit.Action.CHANGE_ALERT if known else audit.Action.CREATE_ALERT
            audit.add(db, caller.actor, caller.now_ms, action, alert.name)
            return store.alert(db, store.save(db, alert))

        try:
            saved = self._write(caller.org, unit)
        except sqlite3.IntegrityError as error:
            raise ServiceError("conflict", f"There is already an alert named {fields['name']!r}.") from error
        self._due_at.pop((caller.org, saved.id), None)
        return saved

    def delete(self, caller: Caller, alert_id: int) -> Alert:
        """Delete an alert, and end its incidents. Raises ServiceError (404)."""

        def unit(db: sqlite3.Connection, channels: Sequence[Channel]) -> Alert:
            known = store.alert(db, alert_id)
            open_and_close(db, (), [*known.firing.values()], channels, caller.now_ms)
            store.delete(db, alert_id)
            audit.add(db, caller.actor, caller.now_ms, audit.Action.DELETE_ALERT, known.name)
            return known

        return self._write(caller.org, unit)

    def preview(self, caller: Caller, fields: Mapping[str, Any], length_ms: int) -> dict[str, Any]:
        """When an alert would have fired in the time before now, as PreviewSchema dumps it. Raises ServiceError (422).

        Also the ``numbers`` by group that it would have compared, each with its moment, and that of ``absent`` groups.
        """
        alert = Alert(**fields)
        self._check(caller, alert.query)  # this one may have to start a process
        started = time.monotonic()
        self._queries.run(caller, alert.query)  # counts against the rate limit
        moments = min(max(10, int(_PREVIEW_SECONDS / (time.monotonic() - started))), 100)
        step_ms = max(alert.every_ms, -(-length_ms // (moments * 1_000)) * 1_000)  # whole seconds
        if step_ms > alert.every_ms:  # what is met at one moment counts as met until the next one
            alert = replace(alert, every_ms=step_ms, for_ms=alert.for_ms // step_ms * step_ms)
        numbers, periods, firing = [], list[dict[str, Any]](), dict[str, Any]()
        for moment in range(caller.now_ms - length_ms // step_ms * step_ms, caller.now_ms + 1, step_ms):
            found, absent = self._numbers(replace(caller, now_ms=moment), alert.query)
            begin, end, pending = evaluate(alert, found, absent, moment)
            for group in end:
                firing.pop(group)["ended_at"] = moment
            for group, since in begin.items():
                value = found.get(group, absent)
                firing[group] = {"group": group, "value": value, "started_at": since, "ended_at": None}
                periods.append(firing[group])
            alert = replace(alert, pending=pending, firing=firing)
            numbers.append((moment, found))
        return {"step_ms": step_ms, "numbers": numbers, "absent": absent, "periods": periods}

    def run(self) -> None:
        for_each_organization(self._tenancy, self._evaluate_due, self._tenancy.keyring.organizations())

    def _evaluate_due(self, org: Org) -> None:
        last_write = self._tenancy.databases.last_write(org)
        if org not in self._known or self._known[org][0] != last_write:
            self._known[org] = last_write, self._tenancy.databases.fetch(org, store.alerts)
        until = self._monotonic() + _RUN_SECONDS
        for alert in sorted(self._known[org][1], key=lambda one: self._due_at.get((org, one.id), 0)):
            now_ms, due_at = self._tenancy.clock(), self._due_at.get((org, alert.id), 0)
            waits = now_ms < due_at <= now_ms + alert.every_ms  # else the clock was set
            if not alert.enabled or waits or self._monotonic() > until or self._tenancy.databases.winding_down.is_set():
                continue
            self._due_at[org, alert.id] = now_ms + alert.every_ms
            self._evaluate(org, alert, now_ms)

    def _evaluate(self, org: Org, alert: Alert, now_ms: int) -> None:
        """Run the statement of an alert, and store what follows. Maintenance of all jobs suspends it."""
        windows = self._tenancy.databases.fetch(org, lambda db: maintenance.windows(db, now_ms))
        is_maintenance = not all(one.job_prefix or one.host or one.service or one.project for one in windows)
        begin, end, pending, error = dict[str, int](), list[str](), alert.pending, None
        try:
            numbers, absent = self._numbers(Caller(org, 0, _READER, now_ms, self._tenancy), alert.query)
            if not is_maintenance:
                begin, end, pending = evaluate(alert, numbers, absent, now_ms)
                most = MOST_GROUPS + len(end) - len(alert.firing)
                begin, pending = dict(islice(begin.items(), max(0, most))), dict(islice(pending.items(), MOST_GROUPS))
        except ServiceError as problem:
            error = problem.message
        if not begin and not end and (pending, error) == (alert.pending, alert.last_error):
            return

        def unit(db: sqlite3.Connection, channels: Sequence[Channel]) -> Alert:
            if store.alerts(db, alert.id) != [alert]:
                return alert  # it was changed or deleted meanwhile
            to_open = []
            for group, since in begin.items():
                subject = f"{alert.name}: {group}"[:_LONGEST_SUBJECT] if group else alert.name
                about = {"alert_id": alert.id, "alert_group": group, "value": numbers.get(group, absent)}
                to_open.append({**about, "kind": IncidentKind.ALERT, "subject": subject, "started_at": since})
            open_and_close(db, to_open, [alert.firing[group] for group in end], channels, now_ms)
            store.save(db, replace(alert, pending=pending, last_error=error))
            return alert

        self._write(org, unit)

    def _check(self, caller: Caller, query: str) -> None:
        """Raises ServiceError (422, 503) for a statement that an alert cannot run, or that returns too many groups."""
        numbers, _ = self._numbers(caller, query)
        if len(numbers) > MOST_GROUPS:
            message = f"It returns {len(numbers)} groups. An alert has at most {MOST_GROUPS}."
            hint = "Group by something with fewer values, such as the host."
            raise invalid_field("json", "query", message, hint=hint)

    def _numbers(self, caller: Caller, query: str) -> tuple[dict[str, float | None], float | None]:
        """As `QueryService.numbers`, of what readers may read. Raises ServiceError (422, 503)."""
        try:
            return self._queries.numbers(replace(caller, scopes=_READER), query)
        except ServiceError as error:
            if error.status >= 500 or error.error == "invalid_field":
                raise
            hints = {"oql_bad_parameter": "An alert takes no parameters: write the value."}
            hints["missing_scope"] = "An alert is shown to readers too, so it reads only what they may read."
            raise invalid_field("json", "query", error.message, hint=hints.get(error.error, error.hint)) from error

    def _write(self, org: Org, unit: Callable[[sqlite3.Connection, Sequence[Channel]], Alert]) -> Alert:
        channels = self._alerts.channels(org)
        written = self._tenancy.databases.write(org, lambda db: unit(db, channels))
        self._alerts.woken.add(org)
        return written
