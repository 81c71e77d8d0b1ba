"""Outcomes that arrive late, with their own time, as a client sends them after an outage: a newer one decides."""

from datetime import timedelta
from typing import Any

import pytest

from obs.times import format_ms
from tests.alerts.receiver import Receiver
from tests.alerts.world import World, titles
from tests.conftest import Clock, KeyClient

JOB = "/api/v1/jobs/backup"


def _end(client: KeyClient, clock: Clock, status: str, **ago: int) -> None:
    """The end of a run that long ago, which is reported now."""
    at = format_ms(clock() - round(timedelta(**ago) / timedelta(milliseconds=1)))
    sent = {"status": status} | ({"time": at} if ago else {})
    assert client.post("/api/v1/heartbeat/backup/end", query_string=sent).status_code == 200


def _end_of(client: KeyClient, clock: Clock, run_id: str, status: str, **ago: int) -> None:
    at = format_ms(clock() - round(timedelta(**ago) / timedelta(milliseconds=1)))
    sent = {"name": "backup", "run_id": run_id, "status": status, "time": at}
    assert client.post("/api/v1/heartbeat/end", json=sent).status_code == 200


def _kinds(client: KeyClient) -> list[str]:
    """The kinds of the open incidents, the newest first."""
    found = (client.get("/api/v1/incidents?state=open").json or {})["incidents"]
    return [one["kind"] for one in found]


def _job(client: KeyClient) -> dict[str, Any]:
    return dict(client.get(JOB).json or {})


def test_an_older_success_does_not_hide_a_failure(world: World, receiver: Receiver, clock: Clock) -> None:
    world.add_channel(receiver)
    _end(world.client, clock, "fail")
    _end(world.client, clock, "ok", days=1)
    world.pass_time(seconds=1)
    world.pass_time(seconds=10)
    assert [title.partition(" at ")[0] for title in titles(receiver)] == ["backup failed"]
    job = _job(world.client)
    assert (job["status"], job["last_outcome"], job["failures_in_row"]) == ("failed", "failed", 1)
    assert (job["run_count"], job["success_count"], job["failed_count"]) == (2, 1, 1)
    _end(world.client, clock, "ok", hours=2)
    world.pass_time(hours=1)
    assert len(titles(receiver)) == 1
    _end(world.client, clock, "ok")
    world.pass_time(seconds=1)
    world.pass_time(minutes=6)
    assert titles(receiver)[1:] == ["backup is OK again, after 1 h"]


@pytest.mark.parametrize("status", ["ok", "fail"])
def test_an_older_outcome_does_not_hide_a_lost_run(world: World, clock: Clock, status: str) -> None:
    for _ in range(2):
        assert world.client.post("/api/v1/heartbeat/backup/start").status_code == 200
        clock.advance(hours=1)
    _end_of(world.client, clock, "other", status, hours=3)
    world.sweep()
    assert _kinds(world.client) == ["lost"]
    assert _job(world.client)["last_outcome"] == "lost"
    _end(world.client, clock, "ok")
    world.sweep()
    assert _kinds(world.client) == []


def test_the_end_of_a_lost_run_that_was_sent_late_is_its_outcome(world: World, clock: Clock) -> None:
    world.client.post("/api/v1/heartbeat/backup/start", query_string={"run_id": "a"})
    clock.advance(days=8)
    world.sweep()
    assert _kinds(world.client) == ["lost"]
    _end_of(world.client, clock, "a", "ok", days=2)
    world.sweep()
    assert (_kinds(world.client), _job(world.client)["last_outcome"]) == ([], "success")


@pytest.mark.parametrize("seconds", [1, 3, 599])
def test_a_client_whose_clock_is_ahead_fails_now(world: World, receiver: Receiver, clock: Clock, seconds: int) -> None:
    world.add_channel(receiver)
    _end(world.client, clock, "fail", seconds=-seconds)
    world.pass_time(seconds=0)
    assert _kinds(world.client) == ["failing"]
    world.pass_time(seconds=10)
    assert len(titles(receiver)) == 1
    world.client.post("/api/v1/heartbeat/mail/start")
    ahead = format_ms(clock() + seconds * 1_000)
    world.client.post("/api/v1/heartbeat/start", json={"name": "mail", "time": ahead})
    world.sweep()
    assert _kinds(world.client) == ["lost", "failing"]


def test_a_success_between_two_failures_does_not_end_the_incident(client: KeyClient, clock: Clock) -> None:
    _end(client, clock, "fail")
    clock.advance(hours=2)
    _end(client, clock, "fail")
    _end(client, clock, "ok", hours=1)
    assert (_job(client)["status"], _job(client)["failures_in_row"]) == ("failed", 2)


def test_an_older_failure_is_a_failed_run_of_a_job_that_is_ok(client: KeyClient, clock: Clock) -> None:
    _end(client, clock, "ok")
    _end(client, clock, "fail", hours=3)
    job = _job(client)
    assert (job["last_outcome"], job["failures_in_row"], job["failed_count"]) == ("success", 0, 1)
    runs = (client.get(f"{JOB}/runs").json or {})["runs"]
    assert [run["status"] for run in runs] == ["success", "failed"]


def test_failures_since_the_last_success_count_in_any_order(client: KeyClient, clock: Clock) -> None:
    _end(client, clock, "ok", hours=4)
    for hours in (0, 2, 1, 3, 5):
        _end(client, clock, "fail", hours=hours)
    assert (_job(client)["failures_in_row"], _job(client)["failed_count"]) == (4, 5)


@pytest.mark.parametrize("seconds", [0, 30, 60])
def test_within_a_minute_the_order_of_arrival_decides(client: KeyClient, clock: Clock, seconds: int) -> None:
    """The clocks of two hosts that report one job differ by some seconds."""
    _end(client, clock, "ok")
    _end(client, clock, "fail", seconds=seconds)
    assert _job(client)["last_outcome"] == "failed"
    _end(client, clock, "ok", seconds=seconds)
    assert _job(client)["last_outcome"] == "success"


def test_a_failure_counts_while_the_clock_of_the_server_is_behind(client: KeyClient, clock: Clock) -> None:
    _end(client, clock, "ok")
    clock.advance(days=-300)
    _end(client, clock, "fail")
    assert _job(client)["last_outcome"] == "failed"
    _end(client, clock, "ok")
    assert _job(client)["last_outcome"] == "success"
