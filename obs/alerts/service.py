"""Changes to channels and deliveries. Every route, page and command goes through here."""

import json
import secrets
import sqlite3
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict
from threading import BoundedSemaphore
from typing import Any

from obs.alerts import message
from obs.alerts.courier import ATTEMPT_SECONDS, Answer, Courier, failure
from obs.alerts.store import channels, incidents, outbox
from obs.alerts.store.channels import FILTER_DEFAULTS, Channel
from obs.errors import ServiceError, existing, invalid_field, invalid_fields
from obs.storage.databases import Org
from obs.tenancy import audit
from obs.tenancy.audit import Action
from obs.tenancy.auth import Caller, Tenancy

_TEST = "This is a test message\nThe channel {} works. Messages about your jobs will look like this one."
_IS_MASKED = "Enter the whole address. *** stands for secret parts, which are not shown."
_DECIDE_WHEN = ("reminder_hours", "quiet_hours", "always_loud")  # the fields of a channel by which messages are planned
_MOST_CHANNELS = 100  # of an organization
_TURNS = BoundedSemaphore(8)  # requests that wait for an answer, each in a thread that serves heartbeats too


class AlertService:
    """The use cases of channels and deliveries. `woken` are organizations whose deliveries are to be looked at."""

    def __init__(self, tenancy: Tenancy) -> None:
        self.tenancy, self.courier = tenancy, Courier(tenancy.allows_private)
        self.woken: set[Org] = set()

    def channels(self, org: Org) -> list[Channel]:
        return self.tenancy.control.fetch(lambda db: channels.channels_of(db, org))

    def channel(self, org: Org, channel_id: int) -> Channel:
        """A channel of an organization. Raises ServiceError (404)."""
        return existing("channel", channel_id, (one for one in self.channels(org) if one.id == channel_id))

    def warning(self, caller: Caller) -> tuple[str, str]:
        """What every page says when nobody would be notified, and what to do; both are empty if there is no reason."""
        enabled = [one for one in self.channels(caller.org) if one.enabled]
        with suppress(ServiceError), caller.read() as db:  # the page itself reports it
            if not enabled and (count := incidents.count_open(db)):
                return f"{count:,} open incident{'s' if count > 1 else ''} and nobody is notified.", "Add a channel"
            silent = outbox.silent_channels(db) if enabled else ()
            if names := ", ".join(one.name for one in enabled if one.id in silent):
                return f"Messages to {names} were given up.", "See the answers under Deliveries"
        return "", ""

    def save(self, caller: Caller, fields: Mapping[str, Any], channel_id: int | None = None) -> Channel:
        """Create a channel from the fields of ChannelRequestSchema, or change some fields of one.

        An address that is sent as it is shown stays. Raises ServiceError (404, 409, 422).
        """
        was = None if channel_id is None else self.channel(caller.org, channel_id)
        known: dict[str, Any] = {"enabled": True} if was is None else asdict(was)
        if was is None and len(self.channels(caller.org)) >= _MOST_CHANNELS:
            raise ServiceError("conflict", f"There are already {_MOST_CHANNELS} channels.")
        chosen = {name: fields[name] for name in FILTER_DEFAULTS if name in fields}
        given = fields if was else {**known, **fields}
        values = {**given, "id": channel_id, "organization_id": caller.org.id, "filter": chosen}
        webhook = fields.get("webhook")
        if ("url" in fields) + ("webhook" in fields) != 1 and (channel_id is None or webhook):
            raise invalid_field("json", "url", "Send either url or webhook.")
        kind, address = ("webhook", webhook["url"]) if webhook else ("apprise", fields.get("url"))
        if address is not None and (kind, address) != (known.get("kind"), known.get("masked")):
            order = {"op": "check", "kind": kind, "address": address}
            answer = {"answer": _IS_MASKED} if "***" in address else _answer_of(self.courier.submit, order)
            if "masked" not in answer:
                problem = {"url": [str(answer["answer"])]}
                raise invalid_fields({"json": {"webhook": problem} if webhook else problem})
            values |= {"kind": kind, "address": address, "masked": answer["masked"], "secret": None}
        if webhook:
            values["secret"] = webhook.get("secret") or known.get("secret") or secrets.token_urlsafe(32)
        try:
            saved_id = self.tenancy.control.write(lambda db: channels.save(db, values))
        except sqlite3.IntegrityError as error:
            raise ServiceError("conflict", f"There is already a channel named {values['name']!r}.") from error
        saved = self.channel(caller.org, saved_id)
        if was is not None and any(saved.filter[name] != was.filter[name] for name in _DECIDE_WHEN):
            caller.write(lambda db: outbox.plan_again(db, was, saved, caller.now_ms))
            self.woken.add(caller.org)
        action = Action.CREATE_CHANNEL if channel_id is None else Action.CHANGE_CHANNEL
        audit.note(caller.tenancy.databases, caller.org, caller.actor, caller.now_ms, action, saved.name)
        return saved

    def delete(self, caller: Caller, channel_id: int) -> Channel:
        """Delete a channel; what it was still to be sent is given up. Raises ServiceError (404)."""
        known = self.channel(caller.org, channel_id)
        self.tenancy.control.write(lambda db: channels.delete(db, channel_id))
        audit.note(caller.tenancy.databases, caller.org, caller.actor, caller.now_ms, Action.DELETE_CHANNEL, known.name)
        return known

    def test(self, org: Org, channel_id: int) -> Answer:
        """Send a test message now; returns the result. Raises ServiceError (404)."""
        channel = self.channel(org, channel_id)
        text = message.notice(_TEST.format(channel.name), "")
        return _answer_of(self.send, channel, text, f"test-{secrets.token_hex(8)}")

    def retry(self, caller: Caller, delivery_id: int) -> outbox.Delivery:
        """Send a delivery again that was given up, or waits. Raises ServiceError (404)."""
        delivery = caller.write(lambda db: outbox.retry(db, delivery_id, caller.now_ms))
        self.woken.add(caller.org)
        return delivery

    def send(self, channel: Channel, text: message.Message, key: str) -> Future[Answer]:
        """Send a message. `key` is the same in each attempt to send it."""
        body = {"version": 1, "delivery": key, "event": text.event, "title": text.title, "text": text.render("plain")}
        order = {name: getattr(channel, name) for name in ("kind", "address", "masked", "secret")}
        titled = text._replace(blocks=[("text", text.title), *text.blocks])
        order["message"] = {"title": text.title, **{style: text.render(style) for style in message.STYLES}}
        order["message"]["titled"] = {style: titled.render(style) for style in message.STYLES}
        order["payload"] = json.dumps({**body, "incidents": text.incidents})
        return self.courier.submit({**order, "op": "send", "key": key, "is_good": text.event == "recovered"})


def _answer_of(send: Callable[..., Future[Answer]], *order: Any) -> Answer:
    """The answer to an order, or that there is none."""
    if not _TURNS.acquire(blocking=False):
        return failure("Too many messages are being tested at this moment. Try again later.")
    try:
        return send(*order).result(2 * ATTEMPT_SECONDS)
    except TimeoutError:
        return failure("The process that sends messages does not answer.")
    finally:
        _TURNS.release()


def result_of_test(answer: Answer) -> str:
    return f"The test message was {'' if answer['delivered'] else 'not '}delivered: {answer['answer']}"
