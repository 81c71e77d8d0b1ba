"""From pending deliveries to messages, and what became of them. Times are milliseconds since the epoch."""

import logging
import sqlite3
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from itertools import islice, takewhile
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from obs.alerts import message
from obs.alerts.courier import Answer, failure
from obs.alerts.service import AlertService
from obs.alerts.store import incidents, outbox, rules
from obs.alerts.store.channels import Channel
from obs.annotations import store as annotations
from obs.errors import ServiceError
from obs.heartbeat import pins
from obs.heartbeat.schedule.words import Description
from obs.heartbeat.store import jobs
from obs.heartbeat.store.expectations import streams_of
from obs.storage.databases import Org
from obs.sweep import for_each_organization, time_zones
from obs.tenancy import instance
from obs.tenancy.auth import Tenancy
from obs.times import DAY_MS, HOUR_MS, MAX_MS, MINUTE_MS, SECOND_MS, WEEK_MS, duration_words

_MOST_AT_ONCE = 64
_MOST_TO_A_HOST = 2
_FINISH_SECONDS = 2.0  # of the 5 in which the service stops
_LOG_LINES = 10
_MOST_COUNTED = 50_000  # missed runs: counting more takes too long
_RUN_OF = {"failed": "failed", "lost": "lost", "overrunning": None}  # the run whose log is shown; None: of any status
_log = logging.getLogger(__name__)


class Notifier:
    def __init__(self, tenancy: Tenancy, alerts: AlertService, settings: Mapping[str, Any]) -> None:
        self._tenancy, self._alerts = tenancy, alerts
        self._base_url = instance.base_url(settings)
        self._zone = ZoneInfo(time_zones("")[0])
        self._pending: dict[Org, outbox.Pending] = {}
        self._sent: dict[tuple[Org, int], tuple[str, Callable[..., None], Future[Answer]]] = {}

    def given_up(self) -> int:
        return sum(one.given_up for one in list(self._pending.values()))

    def oldest_seconds(self) -> int:
        """The age of the oldest delivery that is still to be sent, in seconds; 0 if there is none."""
        since = min((one.waits_since for one in list(self._pending.values())), default=MAX_MS)
        return max(0, self._tenancy.clock() - since) // SECOND_MS

    def run(self) -> None:
        """Record the answers that have come, and hand over what is due."""
        organizations = dict.fromkeys(self._tenancy.keyring.organizations())
        now_ms = self._tenancy.clock()
        self._sent = {key: sent for key, sent in self._sent.items() if key[0] in organizations}
        self._pending = {org: known for org, known in self._pending.items() if org in organizations}
        waits = {org for org, known in self._pending.items() if known.next_due_at > now_ms}
        waits -= {org for org, _ in self._sent}
        due = [org for org in organizations if org in self._alerts.woken or org not in waits]
        for_each_organization(self._tenancy, partial(self._send_due, now_ms=now_ms), due)

    def finish(self) -> None:
        """Wait for the answers to what is on its way, and record them: what has none is sent again after the start."""
        wait([answer for _, _, answer in self._sent.values()], _FINISH_SECONDS)
        for org in {org for org, _ in self._sent}:
            with suppress(ServiceError):  # of the file, which is logged where it is opened
                self._send_due(org, self._tenancy.clock())  # sends nothing any more

    def _send_due(self, org: Org, now_ms: int) -> None:
        self._alerts.woken.discard(org)  # first: what is added from now on wakes it again
        self._pending.pop(org, None)  # if the file cannot be used now, it is visited again
        for (owner, number), (_, record, answer) in list(self._sent.items()):
            if owner == org and answer.done():
                self._record(org, record, answer.result())
                del self._sent[owner, number]
        with self._tenancy.databases.read(org) as db:
            self._pending[org] = outbox.pending(db)
            due = [one for one in outbox.due(db, now_ms) if (org, one.id) not in self._sent]
        channels = {channel.id: channel for channel in self._alerts.channels(org)} if due else {}
        for delivery in due:
            try:
                self._send(org, channels.get(delivery.channel_id), delivery, now_ms)
            except ServiceError:
                raise
            except Exception as error:  # noqa: BLE001 - logged; it must not block the deliveries after it
                _log.exception("organization %s: delivery %d cannot be made", org, delivery.id)
                self._give_up(org, delivery, str(error))

    def _send(self, org: Org, channel: Channel | None, delivery: outbox.Delivery, now_ms: int) -> None:
        """Hand a delivery to the courier; later, if it is busy with the same host or with others, or about to end."""
        if channel is None or not channel.enabled:
            return self._give_up(org, delivery, f"The channel {'is disabled' if channel else 'was deleted'}.")
        hosts = [host for host, _, answer in self._sent.values() if not answer.done()]
        is_busy = len(hosts) >= _MOST_AT_ONCE or hosts.count(channel.masked) >= _MOST_TO_A_HOST
        if is_busy or self._tenancy.databases.winding_down.is_set():
            return None
        news = self._tenancy.databases.write(org, partial(outbox.start, delivery_id=delivery.id, now_ms=now_ms))
        facts = list[message.Fact]()
        with self._tenancy.databases.read(org) as db:
            troubled = {job_id for job_id, _, _ in incidents.open_incidents(db)}
            for place, one in enumerate(incidents.incidents_by_id(db, news)):  # only the worst ones in full
                details = _details(db, one, news[one.id], now_ms) if place < message.MOST_NAMED else {}
                page = "alerts" if one.job_id is None else f"job?{urlencode({'name': one.job})}"
                is_ok = one.job_id not in troubled
                facts.append(message.Fact(one, news[one.id], f"{self._base_url}/{page}", is_ok, **details))
            overdue = {one.host or "" for one, *_ in facts if one.kind.event == "overdue" and one.ended_at is None}
            silent = {host: since for host in overdue if (since := jobs.silent_since(db, host, now_ms)) is not None}
        if delivery.notice is not None:
            text = message.notice(delivery.notice, f"{self._base_url}/", delivery.event)
        elif facts:
            text = message.compose(facts, silent, self._zone, now_ms, f"{self._base_url}/")
        else:  # its jobs were deleted, or what it was to report again is over
            return self._alerts.woken.add(org)
        lasting = [fact.one.id for fact in facts if fact.one.ended_at is None and fact.news is not outbox.News.FLAPPING]
        ended = sum(fact.one.ended_at is not None for fact in facts)
        # A message that says that more incidents have ended is another message for the receiver.
        key = f"{org}-{delivery.id}-{delivery.created_at}" + (f"-{ended}" if ended else "")
        record = partial(outbox.record, delivery=delivery, title=text.title, lasting=lasting)
        self._sent[org, delivery.id] = channel.masked, record, self._alerts.send(channel, text, key)
        return None

    def _give_up(self, org: Org, delivery: outbox.Delivery, reason: str) -> None:
        record = partial(outbox.record, delivery=delivery, title=delivery.title, lasting=())
        self._record(org, record, failure(reason, refused=True))

    def _record(self, org: Org, record: Callable[..., None], answer: Answer) -> None:
        """Record the answer to an attempt. Raises ServiceError (503)."""
        channels, now_ms = self._alerts.channels(org), self._tenancy.clock()
        self._tenancy.databases.write(org, partial(record, channels=channels, answer=answer, now_ms=now_ms))


def _details(db: sqlite3.Connection, one: incidents.Incident, news: outbox.News, now_ms: int) -> dict[str, Any]:
    """The fields of a Fact that take a query each."""
    often = incidents.how_often(db, [one.id], HOUR_MS if news is outbox.News.FLAPPING else WEEK_MS)
    details: dict[str, Any] = {"often": often[one.id]}
    at = one.started_at
    for note in annotations.page(db, at, start=at - DAY_MS, end=at, by_service=False, limit=1):
        if note.start_time >= at - DAY_MS:  # not a band that began earlier
            details["before"] = f"{note.name} ({note.title}), {duration_words(at - note.start_time)} earlier"
    if one.alert_id is not None:
        for alert in rules.alerts(db, one.alert_id):
            details["expected"] = f"Fires when {alert.operator} {alert.threshold:.15g}: {alert.query}"
    job = None if one.job_id is None else jobs.job(db, one.job, now_ms)
    if job is None:
        return details
    silent = next((each for each in streams_of(db, job.id) if each.host == one.host), job)
    if job.pin is not None:
        details["expected"] = f"Set manually: {pins.in_words(job.pin)}"
    elif silent.learned is not None:
        sentences = filter(None, (silent.learned.summary, silent.learned.evidence, silent.learned.expected))
        details["expected"] = ". ".join(one[0].upper() + one[1:] for one in sentences)
    if one.ended_at is not None and one.kind.event == "overdue":
        interval_ms = silent.interval_ms if isinstance(silent, jobs.Job) else silent.fit.interval_ms
        grace_ms = silent.overdue_at - silent.expected_at if silent.overdue_at and silent.expected_at else 0
        grace_ms = grace_ms if job.pin else min(grace_ms, interval_ms or 0)  # other schedules may have been possible
        details["missed"] = _missed(job.pin or silent.learned, interval_ms, one.started_at - grace_ms, one.ended_at)
    if one.kind.event in _RUN_OF:
        for run in jobs.runs_of(db, job.id, limit=1, status=_RUN_OF[one.kind.event], end_ms=one.ended_at):
            details |= {"exit_code": run.exit_code, "log": tuple(jobs.last_lines(db, run.id, _LOG_LINES))}
    return details


def _missed(schedule: pins.Pin | Description | None, interval_ms: int | None, due_at: int, until: int) -> int:
    """How many runs were missed since one was due: as many as were due later, as the run that came was the last."""
    match schedule:
        case pins.Interval(interval_ms):
            pass
        case pins.Cron(cron, zone) | Description(state="regular", cron=str(cron), zone=zone):
            until += min(MINUTE_MS, (interval_ms or DAY_MS) // 4)  # the run may have come a little early
            slots = islice(pins.cron_times(cron, zone, due_at), _MOST_COUNTED)
            missed = sum(1 for _ in takewhile(lambda slot_ms: slot_ms <= until, slots))
            return missed if missed < _MOST_COUNTED else 0
        case Description(lacks_expression=True):
            return 0  # nobody knows
    return 0 if interval_ms is None else round((until - due_at) / interval_ms)
