"""Spells of trouble are kept as incidents, with their times and kind, one open at a time."""

from typing import Any

from flask import Flask

from obs.heartbeat.store import expectations
from obs.services import services
from obs.tenancy.clock import Reading
from obs.times import format_ms
from tests.alerts.conftest import Job
from tests.conftest import ACME, Clock, KeyClient


def test_a_job_on_time_has_no_incident(job: Job) -> None:
    assert job.incidents() == []


def test_overdue_opens_an_incident_at_its_moment_and_the_heartbeat_closes_it(job: Job, clock: Clock) -> None:
    overdue_at = job.go_silent()
    assert job.incidents() == [["overdue", overdue_at, None]]
    job.ping_hourly(1)
    assert job.incidents() == [["overdue", overdue_at, format_ms(clock())]]


def test_sweeping_again_opens_no_second_incident(job: Job, clock: Clock) -> None:
    job.go_silent()
    for _ in range(3):
        clock.advance(hours=1)
        job.sweep()
    assert len(job.incidents()) == 1


def test_the_problems_of_some_jobs_are_found_without_reading_all_jobs(app: Flask, job: Job, clock: Clock) -> None:
    job.go_silent()
    with services(app).tenancy.databases.read(ACME) as db:
        statements: list[str] = []
        db.set_trace_callback(statements.append)
        assert [one.kind for one in expectations.problems(db, Reading(clock()), [1])] == ["overdue"]
        assert expectations.problems(db, Reading(clock()), []) == []
        db.set_trace_callback(None)
        plan = [row["detail"] for row in db.execute(f"EXPLAIN QUERY PLAN {statements[0]}")]
    read = [step for step in plan if "jobs" in step or "runs" in step]
    assert sum(step.startswith("SEARCH jobs USING INTEGER PRIMARY KEY") for step in read) == 6
    assert not any(step.startswith(("SCAN runs", "SCAN one")) for step in read)


def test_not_a_millisecond_early(job: Job, clock: Clock) -> None:
    clock.set(job.read()["overdue_at"])
    clock.advance(ms=-1)
    job.sweep()
    assert job.incidents() == []


def test_a_failed_run_is_an_incident_until_a_run_succeeds(job: Job, clock: Clock) -> None:
    job.end("fail")
    failed_at = format_ms(clock())
    assert job.incidents() == [["failing", failed_at, None]]
    job.end("fail")
    assert job.incidents() == [["failing", failed_at, None]]
    job.end("ok")
    assert job.incidents() == [["failing", failed_at, format_ms(clock())]]


def test_a_job_may_fail_as_often_as_is_tolerated(job: Job, admin: KeyClient) -> None:
    admin.patch("/api/v1/jobs/backup", json={"failure_tolerance": 3})
    job.end("fail")
    job.end("fail")
    assert job.incidents() == []
    job.end("fail")
    assert [kind for kind, _, _ in job.incidents()] == ["failing"]


def test_a_run_that_never_ended_is_as_severe_as_a_failed_one(job: Job, clock: Clock) -> None:
    clock.advance(hours=1)
    job.client.post("/api/v1/heartbeat/backup/start")
    clock.advance(hours=1)
    job.client.post("/api/v1/heartbeat/backup/start")
    job.sweep()
    assert job.incidents() == [["lost", format_ms(clock()), None]]
    assert job.read()["status"] == "lost"


def test_an_open_run_that_goes_on_too_long_is_overrunning_then_lost(client: KeyClient, clock: Clock, job: Job) -> None:
    for _ in range(4):
        clock.advance(hours=1)
        client.post("/api/v1/heartbeat/backup/end?duration_ms=60000")
        job.sweep()
    clock.advance(hours=1)
    client.post("/api/v1/heartbeat/backup/start")
    job.sweep()
    for _ in range(60):
        clock.advance(minutes=1)
        job.sweep()
    assert "overrunning" in [kind for kind, _, end in job.incidents() if end is None]
    clock.advance(days=7)
    job.sweep()
    assert [kind for kind, _, end in job.incidents() if end is None and kind in ("overrunning", "lost")] == ["lost"]


def test_an_incident_is_a_band_among_the_annotations_that_clients_cannot_change(job: Job, admin: KeyClient) -> None:
    overdue_at = job.go_silent()
    found = admin.get("/api/v1/annotations?name_prefix=incident/").json
    assert found is not None
    (band,) = found["annotations"]
    assert (band["name"], band["start_time"], band["end_time"]) == ("incident/backup", overdue_at, None)
    assert band["by_service"] is True
    path = f"/api/v1/annotations/{band['id']}"
    for answer in (admin.put(path, json={"title": "mine"}), admin.delete(path)):
        assert answer.status_code == 409
        assert answer.json is not None
        assert answer.json["error"] == "conflict"
    job.ping_hourly(1)
    closed = admin.get(path).json
    assert closed is not None
    assert closed["end_time"] is not None


def test_an_organization_does_not_see_the_incidents_of_another(job: Job, other_client: KeyClient) -> None:
    job.go_silent()
    answer = other_client.post("/api/v1/dsl", json={"query": "SELECT count(*) FROM incidents LAST 30d"}).json
    assert answer is not None
    assert answer["rows"] == [[0]]


def test_incidents_are_deleted_with_their_job(job: Job, admin: KeyClient) -> None:
    job.go_silent()
    assert admin.delete("/api/v1/jobs/backup").status_code == 204
    job.sweep()
    assert job.incidents() == []


def test_incidents_are_listed_newest_first_in_pages_and_by_state_and_job(job: Job, clock: Clock) -> None:
    def listed(query: str = "") -> dict[str, Any]:
        answer = job.client.get(f"/api/v1/incidents?{query}")
        assert answer.status_code == 200
        return dict(answer.json or {})

    assert listed() == {"incidents": [], "next_cursor": None}
    job.end("fail")
    failed_at = format_ms(clock())
    job.end("ok")
    ended_at = format_ms(clock())
    assert job.client.post("/api/v1/heartbeat/other/end?status=fail").status_code == 200
    job.end("fail")
    first = {"job": "backup", "kind": "failing", "started_at": failed_at, "ended_at": ended_at}
    second = {"job": "other", "kind": "failing", "started_at": ended_at, "ended_at": None}
    third = {"job": "backup", "kind": "failing", "started_at": format_ms(clock()), "ended_at": None}
    everything = listed()["incidents"]
    assert [{name: one[name] for name in first} for one in everything] == [third, second, first]
    answers = {"acknowledged_at", "acknowledged_by", "verdict"}
    assert everything[0].keys() == {"id", "alert_id", "group", "value", "subject", *answers, *first}
    assert listed("state=open")["incidents"] == everything[:2]
    assert listed("state=resolved")["incidents"] == everything[2:]
    assert listed("job=backup&state=open")["incidents"] == everything[:1]
    assert listed("job=nobody")["incidents"] == []
    page = listed("limit=1")
    pages = page["incidents"]
    while page["next_cursor"] is not None:
        page = listed(f"limit=1&cursor={page['next_cursor']}")
        pages += page["incidents"]
    assert pages == everything
    for query in ("state=lost", "cursor=nonsense", "cursor=", "limit=0", "kind=lost"):
        assert job.client.get(f"/api/v1/incidents?{query}").status_code == 422


def test_incidents_that_begin_at_the_same_moment_are_on_one_page_each(job: Job, clock: Clock) -> None:
    clock.advance(hours=1)
    for name in ("a", "b", "c"):
        job.client.post(f"/api/v1/heartbeat/{name}/end?status=fail")
    job.sweep()
    seen, query = [], "limit=1&state=open"
    for _ in range(3):
        page = job.client.get(f"/api/v1/incidents?{query}").json or {}
        seen += [one["job"] for one in page["incidents"]]
        query = f"limit=1&state=open&cursor={page['next_cursor']}"
    assert sorted(seen) == ["a", "b", "c"]
    assert page["next_cursor"] is None
