"""From an incident to its receiver: a delivery is tried until it is sent or given up, and recorded, whatever fails."""

import hashlib
import hmac
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from flask import Flask

from obs.errors import ServiceError
from obs.services import services
from obs.times import DAY_MS
from tests.alerts.receiver import Receiver
from tests.alerts.world import ATTEMPT_SECONDS, SECRET, World, titles
from tests.conftest import Clock, KeyClient


def test_a_failure_and_its_recovery_are_two_signed_messages(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver)
    world.end("photos", "fail&exit_code=3")
    world.pass_time(seconds=1)
    assert receiver.requests == [], "incidents of the next 10 seconds belong to the same message"
    world.pass_time(seconds=10)
    ((headers, body),) = receiver.requests
    seconds, signature = (part.partition("=")[2] for part in headers["X-Obs-Signature"].split(","))
    assert signature == hmac.new(SECRET.encode(), f"{seconds}.".encode() + body, hashlib.sha256).hexdigest()
    (message,) = receiver.messages()
    assert message["version"] == 1
    assert message["event"] == "failed"
    assert message["title"].startswith("photos failed at ")
    assert message["title"].endswith(" (exit code 3)")
    (incident,) = message["incidents"]
    assert (incident["job"], incident["kind"], incident["ended_at"]) == ("photos", "failed", None)
    (delivery,) = world.deliveries()
    assert (delivery["state"], delivery["attempts"], delivery["answer"]) == ("sent", 1, "200 thanks")
    assert message["delivery"] == headers["Idempotency-Key"]

    world.end("photos", "ok")
    world.pass_time(seconds=1)
    world.pass_time(minutes=5)
    assert titles(receiver)[1:] == ["photos is OK again, after 11 s"]
    assert [one["state"] for one in world.deliveries()] == ["sent", "sent"]


def test_a_message_that_is_sent_during_a_sweep_begins_the_five_minutes(world: World, receiver: Receiver) -> None:
    """The sweep read its clock a moment before the attempt."""
    world.add_channel(receiver)
    world.end("photos", "fail")
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)
    world.clock.advance(ms=-3)
    world.end("mail", "fail")
    world.sweep()
    world.pass_time(seconds=30)
    assert len(receiver.requests) == 1
    world.pass_time(minutes=5)
    assert [one["job"] for one in receiver.messages()[1]["incidents"]] == ["mail"]


def test_a_failed_attempt_is_repeated_with_the_same_key(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver)
    receiver.answers = [500, 503]
    world.end("photos", "fail")
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)
    (delivery,) = world.deliveries()
    assert (delivery["state"], delivery["attempts"], delivery["answer"]) == ("pending", 1, "500 thanks")
    world.pass_time(seconds=29)
    assert len(receiver.requests) == 1, "the first retry comes after 30 s"
    world.pass_time(seconds=1)
    assert len(receiver.requests) == 2
    world.pass_time(seconds=59)
    assert len(receiver.requests) == 2, "the second one comes a minute later"
    world.pass_time(seconds=1)
    assert len(receiver.requests) == 3
    assert len({headers["Idempotency-Key"] for headers, _ in receiver.requests}) == 1
    assert [one["state"] for one in world.deliveries()] == ["sent"]


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [("10", 30), ("900", 900), ("9" * 5_000, 3_600), ("-5", 30), ("Fri, 31 Dec 2100 23:59:59 GMT", 30)],
)
def test_a_receiver_says_when_to_try_again(world: World, receiver: Receiver, asked: str, seconds: int) -> None:
    world.add_channel(receiver)
    receiver.answers, receiver.retry_after = [429], asked
    world.end("photos", "fail")
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)
    world.pass_time(seconds=seconds - 1)
    assert len(receiver.requests) == 1
    world.pass_time(seconds=1)
    assert len(receiver.requests) == 2
    assert [one["state"] for one in world.deliveries()] == ["sent"]


def test_a_message_that_changes_between_attempts_has_another_key(world: World, receiver: Receiver) -> None:
    """A receiver that drops known keys must not miss the recovery."""
    world.add_channel(receiver)
    receiver.answers = [500, 500]
    world.end("photos", "fail")
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)
    world.pass_time(seconds=30)
    world.end("photos", "ok")
    world.pass_time(seconds=1)
    world.pass_time(minutes=1)
    first, second, third = (headers["Idempotency-Key"] for headers, _ in receiver.requests)
    assert first == second
    assert first != third


def test_a_channel_gets_only_what_its_filter_lets_through(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver, host="nas01", job_prefix="backup/", recoveries=False)
    for job, host in (("backup/photos", "nas01"), ("backup/mail", "nas02"), ("sync", "nas01")):
        world.end(job, "fail", host)
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)
    world.end("backup/photos", "ok", "nas01")
    world.pass_time(minutes=1)
    world.pass_time(minutes=10)
    assert [one["job"] for message in receiver.messages() for one in message["incidents"]] == ["backup/photos"]


def test_a_hanging_receiver_does_not_delay_another_channel(
    world: World, receiver: Receiver, other_receiver: Receiver
) -> None:

    world.add_channel(receiver, "hangs")
    world.add_channel(other_receiver, "works")
    receiver.hang = threading.Event()
    world.end("photos", "fail")
    world.sweep()
    world.clock.advance(seconds=11)
    end = time.monotonic() + ATTEMPT_SECONDS
    while not other_receiver.requests:
        services(world.app).background.notifier.run()
        assert time.monotonic() < end
    assert receiver.requests == []
    receiver.hang.set()


def _fail_for_thirty_hours(world: World) -> None:
    """Report one failure, and wait until its message is given up where the receiver does not work."""
    world.end("photos", "fail")
    world.pass_time(seconds=1)
    for _ in range(60):
        world.pass_time(minutes=30)


def test_a_delivery_is_given_up_after_a_day_and_reported_through_another_channel(
    world: World, receiver: Receiver, other_receiver: Receiver
) -> None:
    world.add_channel(receiver, "broken")
    world.add_channel(other_receiver, "works", events=["lost"])
    receiver.answers = [500] * 100
    _fail_for_thirty_hours(world)
    first, second = world.deliveries()
    assert (first["state"], first["channel"]) == ("given_up", "broken")
    assert (second["state"], second["channel"]) == ("sent", "works")
    assert 20 < len(receiver.requests) < 40
    assert titles(other_receiver) == ["The channel broken does not work"]

    receiver.answers = []
    assert world.client.post(f"/api/v1/deliveries/{first['id']}/retry").status_code == 200
    world.pass_time(seconds=0)
    assert world.deliveries()[0]["state"] == "sent"


def test_a_channel_that_fails_itself_does_not_report_another(
    world: World, receiver: Receiver, other_receiver: Receiver
) -> None:
    for name in ("a", "b"):
        world.add_channel(receiver, name)
    world.add_channel(other_receiver, "c", events=["lost"])
    receiver.answers = [500] * 200
    _fail_for_thirty_hours(world)
    assert sorted(titles(other_receiver)) == [f"The channel {name} does not work" for name in ("a", "b")]


def test_messages_to_a_deleted_or_disabled_channel_are_given_up(world: World, receiver: Receiver) -> None:
    ids = [world.add_channel(receiver, name) for name in ("deleted", "disabled")]
    world.add_channel(receiver, "other", events=["lost"])
    world.end("photos", "fail")
    world.sweep()
    world.client.delete(f"/api/v1/channels/{ids[0]}")
    world.client.put(f"/api/v1/channels/{ids[1]}", json={"enabled": False})
    world.pass_time(seconds=10)
    answers = [(one["state"], one["answer"]) for one in world.deliveries()]
    assert answers == [("given_up", "The channel was deleted."), ("given_up", "The channel is disabled.")]
    world.client.put(f"/api/v1/channels/{ids[1]}", json={"enabled": True})
    world.end("photos", "ok")
    world.pass_time(seconds=1)
    world.pass_time(minutes=10)
    assert receiver.requests == []  # it was told of no failure


def test_deliveries_are_listed_in_pages_and_by_state_and_channel(world: World, receiver: Receiver) -> None:
    first, second = (world.add_channel(receiver, name) for name in ("first", "second"))
    receiver.answers = [500]
    world.end("photos", "fail")
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)

    def listed(query: str) -> dict[str, Any]:
        answer = world.client.get(f"/api/v1/deliveries?{query}")
        assert answer.status_code == 200
        return dict(answer.json)

    page = listed("limit=1")
    (newest,) = page["deliveries"]
    rest = listed(f"limit=1&cursor={page['next_cursor']}")
    assert rest["next_cursor"] is None
    (oldest,) = rest["deliveries"]
    assert {newest["channel_id"], oldest["channel_id"]} == {first, second}
    assert {one["state"] for one in (newest, oldest)} == {"pending", "sent"}
    assert listed(f"channel={newest['channel_id']}")["deliveries"] == [newest]
    assert listed(f"state={oldest['state']}")["deliveries"] == [oldest]
    for query in ("state=lost", "cursor=nonsense", "limit=0", "channel=x", "channel=9223372036854775808", "unknown=1"):
        assert world.client.get(f"/api/v1/deliveries?{query}").status_code == 422
    answer = world.client.post("/api/v1/dsl", json={"query": "SELECT channel, state FROM deliveries LAST 1h"})
    assert sorted(answer.json["rows"]) == sorted([one["channel"], one["state"]] for one in (newest, oldest))


def test_a_delivery_survives_the_end_of_the_service(
    world: World, receiver: Receiver, make_app: Callable[..., Flask]
) -> None:
    world.add_channel(receiver)
    world.end("photos", "fail")
    world.sweep()
    world.use(make_app())
    world.pass_time(seconds=11)
    assert len(receiver.requests) == 1


def test_a_file_that_cannot_be_read_for_a_moment_loses_no_alert(
    world: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.add_channel(receiver)
    world.deliver()
    world.end("photos", "fail")
    world.sweep()

    def locked(_: object) -> nullcontext[sqlite3.Connection]:
        raise ServiceError("storage_busy")

    with monkeypatch.context() as patch:
        patch.setattr(services(world.app).tenancy.databases, "read", locked)
        world.deliver()
    world.pass_time(seconds=10)
    assert [one["state"] for one in world.deliveries()] == ["sent"]


def test_answers_that_cannot_be_recorded_delay_no_other_organization(
    world: World, receiver: Receiver, new_client: Callable[..., KeyClient]
) -> None:
    for name in ("first", "second"):
        world.add_channel(receiver, name)
    world.deliver()
    world.end("photos", "fail")
    world.sweep()
    world.clock.advance(seconds=10)
    notifier = services(world.app).background.notifier
    notifier.run()
    assert len(world.on_their_way) == 2, "as many as one host gets at a time"
    while world.on_their_way:
        world.on_their_way.pop().result(ATTEMPT_SECONDS)
    services(world.app).tenancy.control.write(lambda db: db.execute("UPDATE channels SET filter = 'not JSON'"))

    other = World(world.app, new_client("globex", "admin"), world.clock)
    other.add_channel(receiver)
    other.end("mail", "fail")
    other.pass_time(seconds=1)
    other.pass_time(seconds=10)
    assert [one["state"] for one in other.deliveries()] == ["sent"]
    services(world.app).tenancy.control.write(lambda db: db.execute("UPDATE channels SET filter = '{}'"))
    notifier.run()
    assert [one["state"] for one in world.deliveries()] == ["sent", "sent"]
    assert len(receiver.requests) == 3


def test_a_delivery_is_not_given_up_because_the_machine_was_suspended(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver)
    receiver.answers = [500, 500]
    world.end("photos", "fail")
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)
    world.pass_time(days=3)
    assert [(one["state"], one["attempts"]) for one in world.deliveries()] == [("pending", 2)]
    world.pass_time(minutes=1)
    assert [one["state"] for one in world.deliveries()] == ["sent"]


def test_a_delivery_tried_by_a_wrong_clock_is_tried_again_when_the_clock_is_right(
    make_app: Callable[..., Flask], new_client: Callable[..., KeyClient], clock: Clock, receiver: Receiver
) -> None:
    error_ms = 0
    app = make_app(CLOCK=lambda: clock() + error_ms, MONOTONIC=lambda: clock() / 1000)
    world = World(app, new_client("acme", "admin", app=app), clock)
    services(app).background.sweeper.excuse_downtime()
    world.add_channel(receiver)
    receiver.answers = [500]
    world.end("photos", "fail")
    world.sweep()
    error_ms = 400 * DAY_MS
    world.pass_time(seconds=1)
    assert [one["attempts"] for one in world.deliveries()] == [1]
    error_ms = 0
    world.pass_time(seconds=1)
    world.pass_time(seconds=11)
    assert [one["state"] for one in world.deliveries()] == ["sent"]


def test_a_delivery_of_a_wrong_clock_is_sent_when_the_clock_is_right(
    make_app: Callable[..., Flask], new_client: Callable[..., KeyClient], clock: Clock, receiver: Receiver
) -> None:
    error_ms = 0
    app = make_app(CLOCK=lambda: clock() + error_ms, MONOTONIC=lambda: clock() / 1000)
    world = World(app, new_client("acme", "admin", app=app), clock)
    services(app).background.sweeper.excuse_downtime()
    world.add_channel(receiver)
    error_ms = 400 * DAY_MS
    world.pass_time(seconds=1)
    world.end("photos", "fail")
    world.sweep()
    error_ms = 0
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)
    assert len(receiver.requests) == 1


def test_an_attempt_after_a_correction_of_the_clock_has_the_same_key(
    make_app: Callable[..., Flask], new_client: Callable[..., KeyClient], clock: Clock, receiver: Receiver
) -> None:
    error_ms = 0
    app = make_app(CLOCK=lambda: clock() + error_ms, MONOTONIC=lambda: clock() / 1000)
    world = World(app, new_client("acme", "admin", app=app), clock)
    services(app).background.sweeper.excuse_downtime()
    world.add_channel(receiver)
    receiver.answers = [500]
    error_ms = 400 * DAY_MS
    world.end("photos", "fail")
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)
    assert [one["attempts"] for one in world.deliveries()] == [1]
    error_ms = 0
    world.pass_time(seconds=1)
    world.pass_time(seconds=11)
    first, second = (headers["Idempotency-Key"] for headers, _ in receiver.requests)
    assert first == second
