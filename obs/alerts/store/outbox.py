"""The outbox: deliveries, each a message about incidents for one channel, from the incident to the receiver's answer.

A delivery is written in the transaction that opens or ends its incidents, and marked as sent after the receiver has
answered. So no alert is lost; one may arrive twice, with the same key. Within a channel, deliveries are sent in order.
An attempt is counted before it is made: nothing is added to a message that may have been sent. Times are milliseconds.
"""

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from functools import partial
from typing import Any, NamedTuple

from obs.alerts.store import incidents
from obs.alerts.store.channels import Channel
from obs.api import about
from obs.errors import existing
from obs.storage.connection import delete_oldest, first_value, save_row
from obs.times import DAY_MS, HOUR_MS, MAX_MS, MINUTE_MS, SECOND_MS

_GROUP_WAIT_MS = 10 * SECOND_MS  # incidents that begin so soon after the first one are in the same message
_GROUP_INTERVAL_MS = 5 * MINUTE_MS  # the shortest time between two messages about new incidents to one channel
_RETRIES_MS = (30 * SECOND_MS, *(minutes * MINUTE_MS for minutes in (1, 2, 5, 15, 30, 60)))  # the last one repeats
_GIVE_UP_MS = DAY_MS  # how long after the first attempt a delivery is tried again, and at least _LEAST_ATTEMPTS times:
_LEAST_ATTEMPTS = 12  # in that day the machine may have been suspended, or its clock set
_SETTLED_MS = HOUR_MS  # a job that was flapping has settled when it has had no new incident for so long
_MOST_IN_AN_HOUR = 5  # a job with more incidents of one kind is flapping
KNOWN_SQL = "NOT (deliveries.reminder AND deliveries.attempts = 0)"  # a reminder to come may never be sent
_REPORTED = "FROM incidents JOIN delivery_incidents ON incident_id = id WHERE delivery_id = ?"


class State(StrEnum):
    PENDING = "pending"
    SENT = "sent"
    GIVEN_UP = "given_up"


class News(IntEnum):
    """What a delivery says about an incident. The value is the number in the database."""

    BEGAN = 0
    ENDED = 1
    LASTS = 2
    FLAPPING = 3
    SETTLED = 4


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery. `answer` is what the receiver said last, or why it could not be reached."""

    id: int
    channel_id: int
    channel: str = field(metadata={"example": "phone"})
    state: str = field(metadata={"enum": list(State)})
    reminder: int  # 1 if what it says is decided when it is due: that incidents last, or that a job has settled
    title: str | None = field(metadata=about("Its title; null before the first attempt."))
    notice: str | None  # the text of one without incidents
    event: str | None  # the event of one without incidents
    created_at: int
    attempts: int
    first_attempt_at: int | None
    last_attempt_at: int | None
    next_attempt_at: int | None  # None once it is sent or given up
    sent_at: int | None
    answer: str | None = field(metadata=about("What the receiver answered last."))


class Pending(NamedTuple):
    """When the next delivery is due, since when the oldest one is (MAX_MS for none), and how many were given up."""

    next_due_at: int
    waits_since: int
    given_up: int


def began(db: sqlite3.Connection, channels: Iterable[Channel], new: Sequence[incidents.Incident], now_ms: int) -> None:
    """Add incidents that have just begun to the messages of the channels that want them.

    Of a job that flaps, only the last one is added: to the message that says whether the job has settled.
    """
    no_longer_settling = (
        f"DELETE FROM delivery_incidents WHERE news = :news AND incident_id IN (SELECT i.id FROM {incidents.SAME}"
        f" WHERE this.id = :id AND i.started_at > this.started_at - {DAY_MS + 2 * HOUR_MS})"  # with quiet hours
        " AND (SELECT channel_id = :channel AND attempts = 0 FROM deliveries WHERE id = delivery_id)"
    )
    often = incidents.how_often(db, [one.id for one in new], HOUR_MS) if channels else {}
    flapping = {incident_id for incident_id, count in often.items() if count > _MOST_IN_AN_HOUR}
    for channel in channels:
        wanted = [one for one in new if channel.wants(one.kind.event, one.job, one)]
        flap = [one for one in wanted if one.id in flapping]
        values = {"channel": channel.id, "news": News.SETTLED}
        first = [one for one in flap if db.execute(no_longer_settling, {"id": one.id, **values}).rowcount == 0]
        _add(db, channel, [one for one in wanted if one.id not in flapping], News.BEGAN, now_ms)
        _add(db, channel, first, News.FLAPPING, now_ms)
        _add(db, channel, flap, News.SETTLED, now_ms)


def ended(db: sqlite3.Connection, channels: Iterable[Channel], over: Sequence[incidents.Incident], now_ms: int) -> None:
    """Tell the channels that were notified of incidents that they have ended; what is still to be sent says both."""
    reported = (
        "SELECT di.incident_id FROM delivery_incidents AS di JOIN deliveries AS d ON d.id = di.delivery_id"
        " WHERE d.channel_id = ? AND di.incident_id IN (SELECT value FROM json_each(?)) AND di.news <> ?"
        f" GROUP BY di.incident_id HAVING max(d.state = '{State.SENT}')"
        f" AND NOT max(di.news = {News.ENDED:d} OR (d.state = '{State.PENDING}' AND di.news <> {News.LASTS:d}))"
    )
    ids = json.dumps([one.id for one in over])
    for channel in (each for each in channels if each.filter["recoveries"] and each.enabled):
        notified = {row[0] for row in db.execute(reported, (channel.id, ids, News.FLAPPING))}
        _add(db, channel, [one for one in over if one.id in notified], News.ENDED, now_ms)


def due(db: sqlite3.Connection, now_ms: int) -> list[Delivery]:
    """The deliveries to send now: of each channel the first one that is due, unless an earlier one is being retried."""
    earlier = (  # one whose next attempt is in more than an hour waits for the end of quiet hours
        "SELECT 1 FROM deliveries AS e WHERE e.channel_id = d.channel_id AND e.id < d.id"
        f" AND e.next_attempt_at <= iif(e.attempts, max(:now, e.last_attempt_at + {_RETRIES_MS[-1] + MINUTE_MS}), :now)"
    )
    return _found(db, f"AS d WHERE next_attempt_at <= :now AND NOT EXISTS ({earlier}) ORDER BY id", {"now": now_ms})


def pending(db: sqlite3.Connection) -> Pending:
    row = db.execute(
        "SELECT coalesce(min(next_attempt_at), :none) AS next_due_at,"
        " coalesce(min(coalesce(first_attempt_at, next_attempt_at)), :none) AS waits_since,"
        f" (SELECT count(*) FROM deliveries WHERE state = :given_up AND attempts AND {KNOWN_SQL}) AS given_up"
        " FROM deliveries WHERE next_attempt_at IS NOT NULL",
        {"none": MAX_MS, "given_up": State.GIVEN_UP},
    ).fetchone()
    return Pending(**dict(row))


def start(db: sqlite3.Connection, delivery_id: int, now_ms: int) -> dict[int, News]:
    """Count an attempt that is about to be made: from now on, nothing is added to the message.

    Returns what it says, by the id of the incident. A delivery that has nothing to say any more is deleted.
    """
    over = "SELECT id FROM incidents WHERE ended_at IS NOT NULL OR acknowledged_at IS NOT NULL"
    no_longer = f"DELETE FROM delivery_incidents WHERE delivery_id = ? AND news = ? AND incident_id IN ({over})"
    db.execute(no_longer, (delivery_id, News.LASTS))
    counted = "attempts = attempts + 1, first_attempt_at = coalesce(first_attempt_at, ?1), last_attempt_at = ?1"
    db.execute(f"UPDATE deliveries SET {counted} WHERE id = ?2", (now_ms, delivery_id))
    rows = db.execute("SELECT incident_id, news FROM delivery_incidents WHERE delivery_id = ?", (delivery_id,))
    said = {row["incident_id"]: News(row["news"]) for row in rows}
    if not said:
        db.execute("DELETE FROM deliveries WHERE id = ? AND notice IS NULL", (delivery_id,))
    return said


def record(
    db: sqlite3.Connection,
    channels: Sequence[Channel],
    delivery: Delivery,
    title: str | None,
    lasting: Collection[int],
    answer: Mapping[str, Any],
    now_ms: int,
) -> None:
    """Record the answer to an attempt (see `obs.alerts.courier.Order`), and add the messages that follow from it.

    `channels` are all channels of the organization, and `delivery` is as it was before the attempt. `lasting` are the
    incidents of which the message said that they last.
    """
    state, sent_at, next_at = State.PENDING, None, None
    enabled = {channel.id: channel for channel in channels if channel.enabled}
    channel = enabled.pop(delivery.channel_id, None)
    is_old = delivery.first_attempt_at is not None and delivery.first_attempt_at + _GIVE_UP_MS <= now_ms
    if answer["delivered"]:
        state, sent_at = State.SENT, now_ms
    elif answer["refused"] or (is_old and delivery.attempts >= _LEAST_ATTEMPTS):
        state = State.GIVEN_UP
    else:
        asked_ms = min(answer.get("wait_seconds", 0) * SECOND_MS, _RETRIES_MS[-1])
        next_at = now_ms + max(asked_ms, _RETRIES_MS[min(delivery.attempts, len(_RETRIES_MS) - 1)])
        if channel is not None:
            next_at = channel.quiet_until(_events(db, delivery.id) or [delivery.event or "notice"], next_at)
    recorded = {"state": state, "sent_at": sent_at, "next_attempt_at": next_at, "answer": answer["answer"]}
    save_row(db, "deliveries", {"id": delivery.id, "title": title, **recorded})
    if channel is not None and state is not State.PENDING:
        which = "SELECT id FROM incidents WHERE id IN (SELECT value FROM json_each(?)) AND ended_at IS NOT NULL"
        over = [row["id"] for row in db.execute(which, (json.dumps(list(lasting)),))]  # while it was on its way
        ended(db, [channel], incidents.incidents_by_id(db, over), now_ms)
        _plan_reminder(db, channel, delivery.id, now_ms)
    if channel is not None and state is State.GIVEN_UP and delivery.notice is None and enabled:
        notice = f"The channel {channel.name} does not work\n{answer['answer']}\nNot sent: {title or 'a message'}"
        tried = "SELECT sent_at IS NULL FROM deliveries WHERE channel_id = ? AND attempts > 0 ORDER BY id DESC LIMIT 1"
        other = min(enabled.values(), key=lambda each: first_value(db, tried, (each.id,)) or 0)  # it may work
        report(db, other, "notice", notice, now_ms)


def _events(db: sqlite3.Connection, delivery_id: int, condition: str = "1") -> list[str]:
    kinds = db.execute(f"SELECT DISTINCT kind {_REPORTED} AND {condition}", (delivery_id,))
    return [incidents.IncidentKind(row["kind"]).event for row in kinds]


def plan_again(db: sqlite3.Connection, was: Channel, channel: Channel, now_ms: int) -> None:
    """Plan all messages to a channel again, and its reminders from now on, because its hours have changed."""
    for one in _found(db, f"WHERE channel_id = ? AND next_attempt_at > ? AND {KNOWN_SQL}", (channel.id, now_ms)):
        events, due_at = _events(db, one.id) or [one.event or "notice"], one.next_attempt_at
        if due_at is None or was.quiet_until(events, due_at - 1) == due_at:  # it waits for the end of quiet hours
            due_at = now_ms
        save_row(db, "deliveries", {"id": one.id, "next_attempt_at": channel.quiet_until(events, due_at)})
    last = "SELECT DISTINCT max(d.id) FROM deliveries AS d JOIN delivery_incidents ON delivery_id = d.id"
    last += " JOIN incidents AS i ON i.id = incident_id WHERE ended_at IS NULL AND channel_id = ? AND state <> ?"
    for (delivery_id,) in db.execute(f"{last} GROUP BY i.id", (channel.id, State.PENDING)).fetchall():
        _plan_reminder(db, channel, delivery_id, now_ms)


def _plan_reminder(db: sqlite3.Connection, channel: Channel, delivery_id: int, now_ms: int) -> None:
    """Plan the reminder of those incidents of a delivery that last, if the channel wants one."""
    same = f"news = {News.LASTS:d} AND incident_id IN (SELECT id {_REPORTED})"  # if a person has sent it again
    planned = "SELECT id FROM deliveries WHERE channel_id = ? AND attempts = 0"
    db.execute(f"DELETE FROM delivery_incidents WHERE {same} AND delivery_id IN ({planned})", (delivery_id, channel.id))
    lasts = f"ended_at IS NULL AND news <> {News.FLAPPING:d}"
    hours, events = channel.filter["reminder_hours"], _events(db, delivery_id, lasts)
    if hours is None or not events:
        return
    reminder = _insert(db, channel, now_ms, channel.quiet_until(events, now_ms + hours * HOUR_MS), reminder=1)
    add = f"INSERT INTO delivery_incidents SELECT {reminder}, id, {News.LASTS:d} {_REPORTED} AND {lasts}"
    db.execute(add, (delivery_id,))


def report(db: sqlite3.Connection, channel: Channel, event: str, text: str, now_ms: int) -> None:
    """Have a channel report something else than an incident; the first line of `text` is the title."""
    _insert(db, channel, now_ms, channel.quiet_until([event], now_ms), notice=text, event=event)


def retry(db: sqlite3.Connection, delivery_id: int, now_ms: int) -> Delivery:
    """Send a delivery that is not sent yet as soon as possible, for another day. Raises ServiceError (404)."""
    db.execute(
        "UPDATE deliveries SET state = ?, next_attempt_at = ?, first_attempt_at = NULL WHERE id = ? AND state <> ?",
        (State.PENDING, now_ms, delivery_id, State.SENT),
    )
    return existing("delivery", delivery_id, _found(db, "WHERE id = ?", (delivery_id,)))


def page(db: sqlite3.Connection, limit: int, **filters: int | str | None) -> list[Delivery]:
    """The newest deliveries: with an id below `after`, in a `state`, of a channel. No reminders to come."""
    which = (
        "WHERE (:after IS NULL OR id < :after) AND (:state IS NULL OR state = :state)"
        f" AND (:channel IS NULL OR channel_id = :channel) AND {KNOWN_SQL} ORDER BY id DESC LIMIT :limit"
    )
    return _found(db, which, {"after": None, "state": None, "channel": None, **filters, "limit": limit})


def _found(db: sqlite3.Connection, which: str, values: Any) -> list[Delivery]:
    return [Delivery(**dict(row)) for row in db.execute(f"SELECT * FROM deliveries {which}", values)]


def silent_channels(db: sqlite3.Connection) -> list[int]:
    """The ids of the channels whose last message was given up."""
    rows = db.execute(
        f"SELECT DISTINCT channel_id FROM deliveries WHERE state = :given_up AND {KNOWN_SQL} AND id > (SELECT"
        " coalesce(max(e.id), 0) FROM deliveries AS e WHERE e.channel_id = deliveries.channel_id AND e.state = :sent)",
        {"given_up": State.GIVEN_UP, "sent": State.SENT},
    )
    return [row["channel_id"] for row in rows]


def correct_times(db: sqlite3.Connection, correction: Mapping[str, int]) -> None:
    """Have deliveries that were added or tried by a wrong clock, in the future, sent now, with the key they had."""
    db.execute(
        "UPDATE deliveries SET created_at = iif(attempts, created_at, min(created_at, :latest_ms)),"
        " first_attempt_at = NULL, next_attempt_at = min(next_attempt_at, :latest_ms)"
        " WHERE max(created_at, coalesce(last_attempt_at, 0)) > :latest_ms AND next_attempt_at IS NOT NULL",
        correction,
    )


_OF_OPEN = "SELECT delivery_id FROM incidents AS i JOIN delivery_incidents ON incident_id = i.id WHERE ended_at IS NULL"
_IS_OLD = f"created_at < :cutoff AND next_attempt_at IS NULL AND id NOT IN ({_OF_OPEN})"  # their end is reported, too
delete_before = partial(delete_oldest, table="deliveries", time="created_at", condition=_IS_OLD)


def _add(db: sqlite3.Connection, channel: Channel, some: Sequence[incidents.Incident], news: News, now_ms: int) -> None:
    """Add incidents to the next message of a channel that has not been tried yet, or to a new one."""
    for event in sorted({one.kind.event for one in some}):
        message = (_settling if news is News.SETTLED else _next_message)(db, channel, event, now_ms)
        ids = json.dumps([one.id for one in some if one.kind.event == event])
        add = "INSERT OR IGNORE INTO delivery_incidents SELECT ?, value, ? FROM json_each(?)"
        db.execute(add, (message, news, ids))


def _next_message(db: sqlite3.Connection, channel: Channel, event: str, now_ms: int) -> int:
    kind = "channel_id = ? AND NOT reminder AND notice IS NULL"
    began = f"EXISTS (SELECT 1 FROM delivery_incidents WHERE delivery_id = id AND news <> {News.ENDED:d})"
    tried = f"SELECT max(last_attempt_at) FROM deliveries WHERE {kind} AND attempts > 0 AND {began}"
    last = first_value(db, f"{tried} AND last_attempt_at <= ?", (channel.id, now_ms + MINUTE_MS)) or 0
    due_at = channel.quiet_until([event], max(now_ms + _GROUP_WAIT_MS, last + _GROUP_INTERVAL_MS))
    waiting = f"SELECT max(id) FROM deliveries WHERE {kind} AND attempts = 0 AND next_attempt_at <= ?"
    return first_value(db, waiting, (channel.id, due_at)) or _insert(db, channel, now_ms, due_at)


def _settling(db: sqlite3.Connection, channel: Channel, event: str, now_ms: int) -> int:
    """The message that says which jobs have settled: one for those that began to wait for it in the same minute."""
    due_at = channel.quiet_until([event], -(-(now_ms + _SETTLED_MS) // MINUTE_MS) * MINUTE_MS)
    same = "SELECT max(id) FROM deliveries WHERE channel_id = ? AND next_attempt_at = ? AND attempts = 0 AND reminder"
    return first_value(db, same, (channel.id, due_at)) or _insert(db, channel, now_ms, due_at, reminder=1)


def _insert(db: sqlite3.Connection, channel: Channel, now_ms: int, due_at: int, **others: str | int) -> int:
    known = {"channel_id": channel.id, "channel": channel.name, "state": State.PENDING, "reminder": 0}
    return save_row(db, "deliveries", {**known, "created_at": now_ms, "next_attempt_at": due_at, **others})
