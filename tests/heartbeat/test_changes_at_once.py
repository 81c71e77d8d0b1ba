"""The response to a change of a job shows what is expected of it from now on; the sweep comes to the same result."""

from collections.abc import Callable
from typing import Any

import pytest

from obs.times import parse_iso
from tests.conftest import Clock, KeyClient

JOB = "/api/v1/jobs/backup"
PING = "/api/v1/heartbeat/backup/ping"
SHOWN = ("status", "expected_at", "overdue_at", "overdue", "paused")
Sweep = Callable[[], None]


def shown(job: dict[str, Any]) -> dict[str, Any]:
    return {name: job[name] for name in SHOWN}


def change(admin: KeyClient, sweep: Sweep, **fields: Any) -> dict[str, Any]:
    """Change the job; the response, a read, and a read after the sweep have to show the same."""
    answer = admin.patch(JOB, json=fields)
    assert answer.status_code == 200
    at_once = shown(answer.json)
    assert shown(admin.get(JOB).json) == at_once
    sweep()
    assert shown(admin.get(JOB).json) == at_once
    return at_once


def test_a_pin_on_a_job_with_a_single_heartbeat(client: KeyClient, admin: KeyClient, sweep: Sweep) -> None:
    client.post(PING)
    job = change(admin, sweep, pin={"interval_seconds": 600, "grace_seconds": 30})
    assert (job["expected_at"], job["overdue_at"]) == ("2026-06-21T10:10:00.000Z", "2026-06-21T10:10:30.000Z")
    job = change(admin, sweep, pin={"cron": "0 12 * * *"})
    assert (job["expected_at"], job["overdue_at"]) == ("2026-06-21T12:00:00.000Z", "2026-06-21T12:01:00.000Z")
    assert change(admin, sweep, pin={"never": True})["expected_at"] is None
    assert change(admin, sweep, pin=None)["status"] == "new"


def test_a_job_that_is_overdue_by_its_new_pin(client: KeyClient, admin: KeyClient, clock: Clock, sweep: Sweep) -> None:
    client.post(PING)
    sweep()
    clock.advance(hours=1)
    assert change(admin, sweep, pin={"interval_seconds": 600})["status"] == "overdue"
    assert change(admin, sweep, pin={"interval_seconds": 7200})["status"] == "ok"


@pytest.mark.parametrize("is_pinned", [False, True])
def test_pausing_resuming_and_unpinning_a_learned_job(
    client: KeyClient, admin: KeyClient, clock: Clock, sweep: Sweep, is_pinned: bool
) -> None:
    for _ in range(50):
        clock.advance(hours=1)
        client.post(PING)
        sweep()
    learned = shown(admin.get(JOB).json)
    assert learned["expected_at"] == "2026-06-23T13:00:00.000Z"
    if is_pinned:
        change(admin, sweep, pin={"interval_seconds": 60})
        assert change(admin, sweep, pin=None) == learned
    paused = change(admin, sweep, paused_until="2026-06-24T10:00:00Z")
    assert paused["status"] == "paused"
    clock.advance(hours=3, minutes=1)
    resumed = change(admin, sweep, paused=False)
    assert (resumed["status"], resumed["expected_at"]) == ("ok", "2026-06-23T16:00:00.000Z")
    assert parse_iso(resumed["overdue_at"]) > parse_iso(resumed["expected_at"])


def test_a_change_while_a_heartbeat_is_not_learned_yet_does_not_keep_it_from_being_learned(
    client: KeyClient, admin: KeyClient, clock: Clock, sweep: Sweep
) -> None:
    for _ in range(5):
        clock.advance(hours=1)
        client.post(PING)
    assert admin.patch(JOB, json={"pin": {"interval_seconds": 600}}).json["expected_at"] == "2026-06-21T15:10:00.000Z"
    sweep()
    assert admin.get(JOB).json["interval_ms"] == 3_600_000
    assert admin.get(JOB).json["learned"]["state"] == "regular"


def test_a_pinned_job_that_only_logs_becomes_overdue(
    client: KeyClient, admin: KeyClient, clock: Clock, sweep: Sweep
) -> None:
    client.post("/api/v1/heartbeat/backup/log", data="hello")
    for pin in ({"interval_seconds": 600}, {"cron": "*/10 * * * *"}):
        assert change(admin, sweep, pin=pin)["expected_at"] == "2026-06-21T10:10:00.000Z"
    clock.advance(minutes=5)
    client.post("/api/v1/heartbeat/backup/log", data="hello")
    assert change(admin, sweep, pin={"interval_seconds": 600})["expected_at"] == "2026-06-21T10:15:00.000Z"
    clock.advance(minutes=11)
    sweep()
    assert admin.get(JOB).json["status"] == "overdue"
    client.post("/api/v1/heartbeat/backup/log", data="back")
    sweep()
    assert admin.get(JOB).json["status"] == "ok"


def test_messages_during_a_run_keep_an_interval_but_not_a_cron_expression(
    client: KeyClient, admin: KeyClient, clock: Clock, sweep: Sweep
) -> None:
    client.post("/api/v1/heartbeat/backup/start")
    clock.advance(minutes=8)
    client.post("/api/v1/heartbeat/backup/log", data="halfway")
    assert change(admin, sweep, pin={"interval_seconds": 600})["expected_at"] == "2026-06-21T10:18:00.000Z"
    assert change(admin, sweep, pin={"cron": "*/5 * * * *"})["expected_at"] == "2026-06-21T10:05:00.000Z"


def test_a_host_whose_clock_is_a_little_ahead_is_watched_too(
    client: KeyClient, admin: KeyClient, clock: Clock, sweep: Sweep
) -> None:
    ahead = {"name": "backup", "message": "hello", "time": "2026-06-21T10:00:20Z"}
    assert client.post("/api/v1/heartbeat/log", json=ahead).status_code == 200
    assert change(admin, sweep, pin={"interval_seconds": 600})["expected_at"] == "2026-06-21T10:10:20.000Z"
    clock.advance(minutes=12)
    sweep()
    assert admin.get(JOB).json["status"] == "overdue"
