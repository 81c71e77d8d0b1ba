"""Somebody acknowledges an incident: everybody sees who and when, and no reminders of it are sent any more."""

import pytest

from tests.alerts.receiver import Receiver
from tests.alerts.world import World, titles
from tests.conftest import KeyClient


def open_incident(world: World, job: str = "backup") -> dict[str, object]:
    """The open incident of a job that has failed."""
    world.end(job, "fail")
    world.sweep()
    found = (world.client.get(f"/api/v1/incidents?job={job}&state=open").json or {})["incidents"]
    return dict(found[0])


def acknowledge(world: World, incident: dict[str, object]) -> dict[str, object]:
    answer = world.client.post(f"/api/v1/incidents/{incident['id']}/acknowledge")
    assert answer.status_code == 200, answer.json
    return dict(answer.json or {})


def test_an_acknowledged_incident_says_who_did_it_and_when(world: World) -> None:
    incident = open_incident(world)
    assert (incident["acknowledged_at"], incident["acknowledged_by"]) == (None, None)
    world.clock.advance(minutes=5)
    done = acknowledge(world, incident)
    assert done["acknowledged_at"] == "2026-06-21T10:05:00.000Z"
    assert str(done["acknowledged_by"]).startswith("key ")
    (listed,) = (world.client.get("/api/v1/incidents").json or {})["incidents"]
    assert listed == done
    query = "SELECT job, acknowledged_at, acknowledged_by FROM incidents LAST 1d"
    (row,) = (world.client.post("/api/v1/dsl", json={"query": query}).json or {})["rows"]
    assert row == ["backup", done["acknowledged_at"], done["acknowledged_by"]]
    world.clock.advance(seconds=1)
    query = "SELECT actor, object FROM audit WHERE action = 'acknowledge incident' LAST 1d"
    rows = (world.client.post("/api/v1/dsl", json={"query": query}).json or {})["rows"]
    assert rows == [[done["acknowledged_by"], "backup"]]


def test_acknowledging_again_changes_nothing_even_after_the_end(world: World) -> None:
    incident = open_incident(world)
    first = acknowledge(world, incident)
    world.clock.advance(minutes=5)
    assert acknowledge(world, incident) == first
    world.end("backup", "success")
    world.sweep()
    assert acknowledge(world, incident)["acknowledged_at"] == first["acknowledged_at"]
    world.clock.advance(seconds=1)
    query = "SELECT count(*) FROM audit WHERE action = 'acknowledge incident' LAST 1d"
    assert (world.client.post("/api/v1/dsl", json={"query": query}).json or {})["rows"] == [[1]]


def test_an_incident_that_has_ended_cannot_be_acknowledged(world: World) -> None:
    incident = open_incident(world)
    world.end("backup", "success")
    world.sweep()
    answer = world.client.post(f"/api/v1/incidents/{incident['id']}/acknowledge")
    assert (answer.status_code, (answer.json or {})["message"]) == (409, "The incident has ended.")


@pytest.mark.parametrize("action", ["acknowledge", "feedback"])
def test_an_unknown_incident_is_404_and_a_reader_gets_403(world: World, client: KeyClient, action: str) -> None:
    body = {"json": {"verdict": "right"}} if action == "feedback" else {}
    answer = world.client.post(f"/api/v1/incidents/7/{action}", **body)
    assert (answer.status_code, (answer.json or {})["error"]) == (404, "incident_not_found")
    assert client.post(f"/api/v1/incidents/7/{action}", **body).status_code == 403


def test_another_organization_cannot_acknowledge_it(world: World, other_client: KeyClient) -> None:
    incident = open_incident(world)
    assert other_client.post(f"/api/v1/incidents/{incident['id']}/acknowledge").status_code in (403, 404)
    assert open_incident(world)["acknowledged_at"] is None


def test_no_reminders_of_an_acknowledged_incident_are_sent_but_its_end_is(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver, reminder_hours=1)
    incident = open_incident(world)
    world.pass_time(seconds=10)
    world.pass_time(hours=1)
    assert [title.split(" (")[0][:22] for title in titles(receiver)] == [
        "backup failed at 10:00",
        "backup is still failin",
    ]
    acknowledge(world, incident)
    for _ in range(3):
        world.pass_time(hours=1)
    assert len(titles(receiver)) == 2
    world.end("backup", "success")
    world.sweep()
    world.pass_time(seconds=10)
    assert titles(receiver)[2:] == ["backup is OK again, after 4 h"]


def test_the_next_incident_of_the_job_is_not_acknowledged_and_is_reported_again(
    world: World, receiver: Receiver
) -> None:
    world.add_channel(receiver, reminder_hours=1)
    acknowledge(world, open_incident(world))
    world.pass_time(seconds=10)
    world.end("backup", "success")
    world.sweep()
    world.pass_time(minutes=10)
    assert open_incident(world)["acknowledged_at"] is None
    world.pass_time(minutes=10)
    world.pass_time(hours=1)
    world.deliver()
    assert [title.split()[1:4] for title in titles(receiver)[2:]] == [
        ["failed", "at", "10:10"],
        ["is", "still", "failing"],
    ]


def test_others_in_the_same_reminder_are_still_reported(world: World, receiver: Receiver) -> None:
    world.add_channel(receiver, reminder_hours=1)
    world.end("other", "fail")
    incident = open_incident(world)
    world.pass_time(seconds=10)
    acknowledge(world, incident)
    world.pass_time(hours=1)
    assert titles(receiver)[1:] == ["other is still failing since 10:00"]
