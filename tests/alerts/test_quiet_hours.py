"""In quiet hours a channel gets only what is loud; the rest comes together when they end."""

from typing import Any

import pytest

from tests.alerts.receiver import Receiver
from tests.alerts.world import World, titles
from tests.dashboard.conftest import Visitor


def test_messages_of_quiet_hours_come_together_when_they_end(
    world: World, receiver: Receiver, visitor: Visitor
) -> None:
    world.clock.set("2026-06-21T22:30:00Z")
    quiet = {"from": "22:00", "until": "07:00", "timezone": "UTC"}
    world.add_channel(receiver, quiet_hours=quiet, always_loud=["lost"])
    for job in ("photos", "mail"):
        world.end(job, "fail")
        world.pass_time(hours=1)
    world.end("mail", "ok")
    world.pass_time(hours=1)
    assert receiver.requests == []
    assert "Waiting to be sent" in visitor.get("/alerts").text
    world.clock.set("2026-06-22T07:00:00Z")
    world.pass_time(seconds=0)
    (message,) = receiver.messages()
    assert {(one["job"], one["ended_at"] is None) for one in message["incidents"]} == {
        ("photos", True),
        ("mail", False),
    }


def test_quiet_hours_keep_reminders_and_messages_that_are_due_in_them(world: World, receiver: Receiver) -> None:
    quiet = {"from": "22:00", "until": "07:00", "timezone": "UTC"}
    world.add_channel(receiver, quiet_hours=quiet, reminder_hours=1)
    world.clock.set("2026-06-21T21:30:00Z")
    world.end("photos", "fail")
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)
    assert len(receiver.requests) == 1
    world.clock.set("2026-06-21T21:59:55Z")
    world.end("mail", "fail")
    world.pass_time(seconds=0)
    for _ in range(8):
        world.pass_time(hours=1)
    assert len(receiver.requests) == 1
    assert "oldest_delivery_seconds" not in (world.app.test_client().get("/readyz").json or {})
    world.clock.set("2026-06-22T07:00:00Z")
    world.deliver()
    world.deliver()
    assert [title.partition(" at ")[0].partition(" since ")[0] for title in titles(receiver)[1:]] == [
        "photos is still failing",
        "mail failed",
    ]


def test_an_attempt_that_failed_is_not_repeated_in_quiet_hours(world: World, receiver: Receiver) -> None:
    quiet = {"from": "22:00", "until": "07:00", "timezone": "UTC"}
    world.add_channel(receiver, quiet_hours=quiet, always_loud=["lost"])
    world.clock.set("2026-06-21T21:40:00Z")
    receiver.answers = [500] * 5
    world.end("photos", "fail")
    world.pass_time(seconds=1)
    for _ in range(60):
        world.pass_time(minutes=1)
    assert len(receiver.requests) == 5
    assert world.deliveries()[0]["next_attempt_at"] == "2026-06-22T07:00:00.000Z"
    world.clock.set("2026-06-22T07:00:00Z")
    world.deliver()
    assert (len(receiver.requests), world.deliveries()[0]["state"]) == (6, "sent")


@pytest.mark.parametrize(("failed_at", "answers"), [("21:59:30", [500]), ("23:00:00", [])])
def test_what_waits_for_the_end_of_quiet_hours_does_not_delay_what_is_loud(
    world: World, receiver: Receiver, failed_at: str, answers: list[int]
) -> None:
    quiet = {"from": "22:00", "until": "07:00", "timezone": "UTC"}
    world.add_channel(receiver, quiet_hours=quiet, always_loud=["lost"])
    world.clock.set(f"2026-06-21T{failed_at}Z")
    receiver.answers = list(answers)
    world.end("photos", "fail")
    for seconds in (1, 10):
        world.pass_time(seconds=seconds)
    world.clock.set("2026-06-21T23:00:20Z")
    for _ in range(2):
        assert world.client.post("/api/v1/heartbeat/mail/start").status_code == 200
    for seconds in (1, 10):
        world.pass_time(seconds=seconds)
    assert [title.partition(" at ")[0] for title in titles(receiver)[len(answers) :]] == ["mail lost a run"]
    world.clock.set("2026-06-22T07:00:00Z")
    world.deliver()
    assert titles(receiver)[-1].startswith("photos failed at ")


def test_messages_follow_the_quiet_hours_that_a_channel_has_now(world: World, receiver: Receiver) -> None:
    quiet = {"from": "22:00", "until": "07:00", "timezone": "UTC"}
    channel = f"/api/v1/channels/{world.add_channel(receiver, quiet_hours=quiet, reminder_hours=1)}"

    def change(**fields: Any) -> None:
        assert world.client.put(channel, json=fields).status_code == 200

    world.clock.set("2026-06-21T22:30:00Z")
    world.end("photos", "fail")
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)
    change(always_loud=["lost"])
    world.pass_time(seconds=1)
    assert titles(receiver) == []
    change(quiet_hours=None)
    world.deliver()
    assert [title.partition(" at ")[0] for title in titles(receiver)] == ["photos failed"]
    change(quiet_hours=quiet | {"until": "23:45"})  # in which the reminder would be sent
    world.clock.set("2026-06-21T23:44:00Z")
    world.deliver()
    assert len(titles(receiver)) == 1
    world.pass_time(minutes=1)
    assert titles(receiver)[1].startswith("photos is still failing")
    world.end("mail", "fail")
    world.sweep()
    change(quiet_hours=quiet)
    world.pass_time(seconds=10)
    world.pass_time(hours=2)
    assert len(titles(receiver)) == 2
    assert {one["next_attempt_at"] for one in world.deliveries()} == {None, "2026-06-22T07:00:00.000Z"}
