"""A failed or lost run after which the job succeeds before the next sweep is an incident too, and is reported once."""

from collections.abc import Iterator
from typing import Any

import pytest

from obs.heartbeat.store import expectations
from obs.times import MINUTE_MS, format_ms
from tests.alerts.receiver import Receiver
from tests.alerts.world import World, titles
from tests.conftest import Clock, KeyClient


def _end(client: KeyClient, status: str, **query: str) -> None:
    sent = client.post("/api/v1/heartbeat/backup/end", query_string={"status": status, **query})
    assert sent.status_code == 200


def _incidents(client: KeyClient) -> list[tuple[str, bool]]:
    """The kinds of all incidents, the newest first, and whether they are open."""
    found = (client.get("/api/v1/incidents").json or {})["incidents"]
    return [(one["kind"], one["ended_at"] is None) for one in found]


@pytest.mark.parametrize("seconds_between", [0, 0.4])
def test_a_failure_that_is_over_at_once_is_reported(
    world: World, receiver: Receiver, clock: Clock, seconds_between: float
) -> None:
    world.add_channel(receiver)
    _end(world.client, "ok")
    world.pass_time(minutes=5)
    _end(world.client, "fail", exit_code="9")
    clock.advance(seconds=seconds_between)
    _end(world.client, "ok")
    world.pass_time(seconds=1)
    assert _incidents(world.client) == [("failing", False)]
    world.pass_time(seconds=15)
    assert len(titles(receiver)) == 1
    world.pass_time(hours=1)
    assert _incidents(world.client) == [("failing", False)]
    assert len(titles(receiver)) == 1


@pytest.mark.parametrize("seconds_between", [0, 0.4])
def test_a_run_that_turns_out_to_be_lost_when_the_next_begins_is_reported(
    world: World, receiver: Receiver, clock: Clock, seconds_between: float
) -> None:
    """Such as one of a short hourly job that was killed: the next start shows it, and the next run is a success."""
    world.add_channel(receiver)
    for _ in range(2):
        assert world.client.post("/api/v1/heartbeat/backup/start").status_code == 200
        world.pass_time(minutes=20)
    assert _incidents(world.client) == [("lost", True)]
    _end(world.client, "ok")
    world.pass_time(seconds=30)
    assert _incidents(world.client) == [("lost", False)]
    world.client.post("/api/v1/heartbeat/backup/start")
    world.pass_time(minutes=20)
    world.client.post("/api/v1/heartbeat/backup/start")
    clock.advance(seconds=seconds_between)
    _end(world.client, "ok")
    world.pass_time(seconds=1)
    assert _incidents(world.client) == [("lost", False)] * 2
    world.pass_time(minutes=1)
    assert _incidents(world.client) == [("lost", False)] * 2
    assert len([title for title in titles(receiver) if "lost" in title]) == 2


def test_a_failure_that_was_seen_ends_with_the_first_success(world: World) -> None:
    _end(world.client, "fail")
    world.pass_time(seconds=1)
    assert _incidents(world.client) == [("failing", True)]
    _end(world.client, "ok")
    world.pass_time(seconds=1)
    assert _incidents(world.client) == [("failing", False)]
    world.pass_time(seconds=30)
    assert _incidents(world.client) == [("failing", False)]


def test_each_failure_begins_anew(world: World) -> None:
    for _ in range(2):
        _end(world.client, "fail")
        _end(world.client, "ok")
        world.pass_time(seconds=1)
    assert _incidents(world.client) == [("failing", False)] * 2


def test_a_failure_that_is_tolerated_is_none(world: World) -> None:
    world.client.put("/api/v1/jobs/backup", json={"failure_tolerance": 2})
    _end(world.client, "fail")
    _end(world.client, "ok")
    world.pass_time(seconds=1)
    assert _incidents(world.client) == []


def test_a_failure_of_the_past_that_was_over_then_is_none(world: World, clock: Clock) -> None:
    """Such as one that is imported, or kept by a client while the service was down."""
    for minutes, status in ((30, "fail"), (20, "ok")):
        _end(world.client, status, time=format_ms(clock() - minutes * MINUTE_MS))
    world.pass_time(seconds=1)
    assert _incidents(world.client) == []


def test_a_failure_that_arrives_during_the_sweep_is_reported(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the sweep has read the clock, and before it learns from the job."""
    world.end("other", "ok")
    changed_jobs = expectations.changed_jobs

    def arriving(*arguments: Any, **options: Any) -> Iterator[expectations.Changed]:
        monkeypatch.undo()
        world.clock.advance(ms=200)
        _end(world.client, "fail")
        world.clock.advance(ms=200)
        _end(world.client, "ok")
        return changed_jobs(*arguments, **options)

    monkeypatch.setattr(expectations, "changed_jobs", arriving)
    for _ in range(2):
        world.sweep()
    world.pass_time(seconds=1)
    assert _incidents(world.client) == [("failing", False)]


def test_a_change_of_the_job_does_not_hide_a_failure(world: World) -> None:
    _end(world.client, "fail")
    _end(world.client, "ok")
    world.client.patch("/api/v1/jobs/backup", json={"pin": {"interval_seconds": 3600}})
    world.pass_time(seconds=1)
    assert _incidents(world.client) == [("failing", False)]
