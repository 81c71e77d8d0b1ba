"""What OQL reads as `jobs`, `incidents` and `deliveries` is what the API lists, in every state."""

from collections.abc import Callable
from typing import Any

import pytest

from obs.alerts.store.incidents import KINDS
from obs.alerts.store.outbox import State
from obs.heartbeat.runs import STATES
from obs.services import services
from tests.alerts.receiver import Receiver
from tests.alerts.world import World
from tests.conftest import KeyClient

Rows = list[dict[str, Any]]


@pytest.fixture
def busy(world: World, receiver: Receiver, other_receiver: Receiver, other_client: KeyClient) -> World:
    """An organization with jobs, incidents and deliveries in many states, and another one with a job."""
    world.add_channel(receiver, "fine", reminder_hours=1)
    other_receiver.answers = [500] * 100
    _, deleted = (world.add_channel(other_receiver, name, events=["failed", "lost"]) for name in ("broken", "deleted"))
    queries = {"by host": "SELECT count(*) FROM runs BY host LAST 1d", "overdue": "SELECT count(*) FROM jobs LAST 10y"}
    for name, query in queries.items():
        body = {"name": name, "query": query, "operator": ">", "threshold": 0}
        assert world.client.post("/api/v1/alerts", json=body).status_code == 201
    pin = {"pin": {"interval_seconds": 600}}
    for name, fields in {"silent": pin, "judged": pin, "new": {}, "paused": {"paused": True, "host": "nas"}}.items():
        world.client.put(f"/api/v1/jobs/{name}", json=fields)
    for _ in range(3):
        world.end("fine/job", "ok", "web1")
        for name in ("lost", "running"):
            world.client.post(f"/api/v1/heartbeat/{name}/start", headers={"X-Platform-Project": "shop"})
        world.client.post("/api/v1/heartbeat/running/end?duration_ms=1500")
        world.pass_time(hours=1)
    world.client.post("/api/v1/heartbeat/running/start")
    world.end("failed", "fail", "web1")
    other_client.post("/api/v1/heartbeat/other/end?status=fail")
    for _ in range(3):
        services(world.app).background.tasks["alerts on queries"].run()
        world.pass_time(minutes=1)
    for one in world.client.get("/api/v1/incidents?state=open").json["incidents"]:
        what = {"silent": ("acknowledge", None), "judged": ("feedback", {"verdict": "right"})}.get(one["job"])
        if what is not None:
            answer = world.client.post(f"/api/v1/incidents/{one['id']}/{what[0]}", json=what[1])
            assert answer.status_code == 200, answer.json
    assert world.client.delete(f"/api/v1/channels/{deleted}").status_code == 204
    world.end("fine/job", "ok", "web1")
    world.client.post("/api/v1/heartbeat/begun/start")
    world.pass_time(minutes=1)
    world.clock.advance(seconds=1)  # a window ends before now
    return world


def listed(world: World, name: str) -> Rows:
    return list(world.client.get(f"/api/v1/{name}?limit=200").json[name])


def queried(world: World, source: str) -> Rows:
    answer = world.client.post("/api/v1/dsl", json={"query": f"SELECT * FROM {source} LAST 10y"}).json
    return [dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"]]


def chosen(one: dict[str, Any], names: str, **others: Any) -> dict[str, Any]:
    return {**{name: one[name] for name in names.split()}, **others}


def job_of(one: dict[str, Any]) -> dict[str, Any]:
    names = "status host service project overdue interval_ms expected_at avg_duration_ms run_count"
    return chosen(one, names, job=one["name"], time=one["last_heartbeat_at"] or one["created_at"])


def incident_of(one: dict[str, Any]) -> dict[str, Any]:
    return chosen(one, "job kind ended_at acknowledged_at acknowledged_by verdict value", time=one["started_at"])


def delivery_of(one: dict[str, Any]) -> dict[str, Any]:
    return chosen(one, "channel state title attempts sent_at answer", time=one["created_at"])


@pytest.mark.parametrize(
    ("source", "expected", "column", "states"),
    [
        ("jobs", job_of, "status", {*STATES} - {"late"}),
        ("incidents", incident_of, "kind", {*KINDS} - {"too_often"}),
        ("deliveries", delivery_of, "state", {*State}),
    ],
)
def test_the_rows_of_a_source_are_those_of_the_api(
    busy: World, source: str, expected: Callable[[dict[str, Any]], dict[str, Any]], column: str, states: set[str]
) -> None:
    found = queried(busy, source)
    wanted = [expected(one) for one in listed(busy, source)]
    assert {one[column] for one in found} == states
    names = sorted(wanted[0])
    assert sorted([str([one[name] for name in names]) for one in found]) == sorted(
        [str([one[name] for name in names]) for one in wanted]
    )


def test_an_incident_has_the_place_of_its_job_and_its_duration(busy: World) -> None:
    jobs = {one["job"]: one for one in queried(busy, "jobs")}
    found = queried(busy, "incidents")
    for one in found:
        job = jobs.get(one["job"], {})
        assert [one[name] for name in ("host", "service", "project")] == [
            job.get(name) for name in ("host", "service", "project")
        ]
        assert (one["duration_ms"] is None) == (one["ended_at"] is None)
    assert {one["verdict"] for one in found} == {None, "right"}
    assert {one["host"] for one in found} == {None, "web1"}
    assert any(one["acknowledged_by"] for one in found)
