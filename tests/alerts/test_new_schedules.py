"""Channels that want it are told when the learned schedule of a job has become another one."""

from typing import Any

import pytest

from obs.times import DAY_MS, parse_iso
from tests.alerts.receiver import Receiver
from tests.alerts.world import World, titles
from tests.conftest import KeyClient

WANTS: dict[str, Any] = {"events": ["failed", "schedule_changed"]}


def _ping(world: World, times: int, host: str = "", **interval: int) -> None:
    for _ in range(times):
        world.clock.advance(**interval)
        headers = {"X-Platform-Host": host} if host else {}
        assert world.client.post("/api/v1/heartbeat/photos/ping", headers=headers).status_code == 200
        world.sweep()
        world.deliver()


def test_a_channel_that_wants_it_is_told_both_schedules(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver, **WANTS)
    _ping(world, 72, hours=1)
    _ping(world, 12, days=1)
    ((message),) = receiver.messages()
    assert (message["event"], message["incidents"]) == ("schedule_changed", [])
    assert message["title"] == "photos has a new schedule: Every day at 10:00, UTC"
    assert "Before: Hourly at :00, UTC." in message["text"]
    assert world.deliveries()[0]["event"] == "schedule_changed"


@pytest.mark.parametrize("fields", [{}, {**WANTS, "job_prefix": "music"}, {**WANTS, "host": "nas"}])
def test_other_channels_are_not(world: World, receiver: Receiver, fields: dict[str, Any]) -> None:
    world.add_channel(receiver, **{**fields, "recoveries": False})
    _ping(world, 72, host="laptop", hours=1)
    _ping(world, 12, host="laptop", days=1)
    assert [title for title in titles(receiver) if "schedule" in title] == []


def test_a_pinned_schedule_does_not_change(world: World, receiver: Receiver, admin: KeyClient) -> None:
    world.add_channel(receiver, **WANTS)
    _ping(world, 72, hours=1)
    admin.patch("/api/v1/jobs/photos", json={"pin": {"interval_seconds": 7200}})
    _ping(world, 12, days=1)
    assert titles(receiver) == []


def test_a_new_schedule_waits_for_the_end_of_quiet_hours(world: World, receiver: Receiver) -> None:
    always = {"from": "00:00", "until": "23:59", "timezone": "UTC"}
    world.add_channel(receiver, quiet_hours=always, **WANTS)
    _ping(world, 72, hours=1)
    _ping(world, 12, days=1)
    (delivery,) = world.deliveries()
    assert parse_iso(delivery["sent_at"]) - parse_iso(delivery["created_at"]) == DAY_MS
    assert len(receiver.messages()) == 1
