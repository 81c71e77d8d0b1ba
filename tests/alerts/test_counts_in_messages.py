"""How many runs a message says were missed, and how many failures there were: no more than there have been."""

import re
from typing import Any

import pytest

from obs.times import HOUR_MS, format_ms
from tests.alerts.receiver import Receiver
from tests.alerts.world import World

WEEKDAYS = {"cron": "0 2 * * 1-5", "timezone": "UTC", "grace_seconds": 600}
HOURS = {"cron": "5 7-17 * * 1-5", "timezone": "UTC"}
PATIENT = {"cron": "*/5 * * * *", "timezone": "UTC", "grace_seconds": 1_800}
EVERY_FIVE_MINUTES = {"interval_seconds": 300, "grace_seconds": 1_800}
EVERY_DAY = {"interval_seconds": 86_400, "grace_seconds": 600}


@pytest.mark.parametrize(
    ("pin", "last", "back", "missed"),
    [
        (WEEKDAYS, "2026-06-18T02:00:00Z", "2026-06-22T02:00:00Z", "1 run was missed"),
        (WEEKDAYS, "2026-06-18T02:00:00Z", "2026-06-22T01:59:30Z", "1 run was missed"),
        (WEEKDAYS, "2026-06-16T02:00:00Z", "2026-06-19T02:00:00Z", "2 runs were missed"),
        (WEEKDAYS, "2026-06-18T02:00:00Z", "2026-06-19T09:00:00Z", ""),
        (HOURS, "2026-06-19T14:05:00Z", "2026-06-22T07:05:10Z", "3 runs were missed"),
        (HOURS, "2026-05-01T17:05:00Z", "2026-06-22T07:05:10Z", "385 runs were missed"),
        (PATIENT, "2026-06-19T02:00:00Z", "2026-06-19T03:00:00Z", "11 runs were missed"),
        (EVERY_FIVE_MINUTES, "2026-06-19T02:00:00Z", "2026-06-19T03:00:00Z", "11 runs were missed"),
        (EVERY_DAY, "2026-06-16T02:00:00Z", "2026-06-19T02:00:00Z", "2 runs were missed"),
        (EVERY_DAY, "2026-06-16T02:00:00Z", "2026-06-17T09:00:00Z", ""),
    ],
)
def test_missed_runs_are_those_that_were_due(
    world: World, receiver: Receiver, pin: dict[str, Any], last: str, back: str, missed: str
) -> None:
    world.add_channel(receiver)
    world.clock.set(last)
    world.client.post("/api/v1/heartbeat/report/ping")
    assert world.client.patch("/api/v1/jobs/report", json={"pin": pin}).status_code == 200
    world.clock.set(back)
    world.clock.advance(seconds=-20)
    world.sweep()
    world.pass_time(seconds=20)
    world.client.post("/api/v1/heartbeat/report/ping")
    for _ in range(10):
        world.pass_time(minutes=1)
    told = "\n".join(message["text"] for message in receiver.messages())
    assert "It was overdue from" in told
    assert re.findall(r"[\w ]+missed", told) == ([f" and {missed}"] if missed else [])


def test_a_failure_in_which_a_job_was_paused_is_one(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver)
    world.end("photos", "fail")
    for _ in range(2):
        world.pass_time(seconds=10)
    until = format_ms(world.clock() + HOUR_MS)
    assert world.client.patch("/api/v1/jobs/photos", json={"paused_until": until}).status_code == 200
    for _ in range(12):
        world.pass_time(minutes=6)
    assert [message["title"].partition(" at ")[0] for message in receiver.messages()][-1] == "photos failed"
    assert len(world.client.get("/api/v1/incidents").json["incidents"]) == 2
    assert "This happened" not in "".join(message["text"] for message in receiver.messages())
