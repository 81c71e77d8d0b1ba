"""Jobs that are registered before their first heartbeat, with POST and with PUT."""

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from obs.times import format_ms
from tests.conftest import Clock, KeyClient
from tests.dashboard.conftest import Visitor
from tests.heartbeat.conftest import Sender

JOBS = "/api/v1/jobs"
JOB = f"{JOBS}/backup"
HOURLY = {"interval_seconds": 3600, "grace_seconds": 60}
Sweep = Callable[[], None]


def open_incidents(client: KeyClient) -> list[tuple[str, str]]:
    return [(one["job"], one["kind"]) for one in client.get("/api/v1/incidents?state=open").json["incidents"]]


def test_a_registered_job_is_new_and_never_ran(admin: KeyClient) -> None:
    made = admin.post(JOBS, json={"name": "nas/backup", "host": "nas", "project": "home"})
    assert (made.status_code, made.headers["Location"]) == (201, f"{JOBS}/nas/backup")
    job = admin.get(made.headers["Location"]).json
    assert {**job, "ping_url": None} == {**made.json, "ping_url": None, "hosts": []}
    assert (job["status"], job["run_count"], job["created_at"]) == ("new", 0, "2026-06-21T10:00:00.000Z")
    assert (job["last_heartbeat_at"], job["first_heartbeat_at"], job["last_outcome"]) == (None, None, None)
    assert (job["host"], job["service"], job["project"]) == ("nas", None, "home")
    assert [one["name"] for one in admin.get(f"{JOBS}?status=new&host=nas").json["jobs"]] == ["nas/backup"]


@pytest.mark.parametrize("method", ["post", "put"])
@pytest.mark.parametrize(
    ("pin", "expected_at", "overdue_at"),
    [
        (HOURLY, "2026-06-21T11:00:00.000Z", "2026-06-21T11:01:00.000Z"),
        ({"cron": "0 2 * * *", "timezone": "Europe/Berlin"}, "2026-06-22T00:00:00.000Z", "2026-06-22T00:01:00.000Z"),
    ],
)
def test_a_pinned_job_that_never_ran_becomes_overdue(
    admin: KeyClient, clock: Clock, sweep: Sweep, method: str, pin: dict[str, Any], expected_at: str, overdue_at: str
) -> None:
    fields = {"pin": pin, "failure_tolerance": 3}
    job = (admin.put(JOB, json=fields) if method == "put" else admin.post(JOBS, json={"name": "backup", **fields})).json
    assert (job["status"], job["expected_at"], job["overdue_at"]) == ("new", expected_at, overdue_at)
    sweep()
    clock.set(overdue_at)
    sweep()
    assert admin.get(JOB).json["status"] == "overdue"
    assert open_incidents(admin) == [("backup", "overdue")]


def test_the_first_heartbeat_ends_the_incident(by_path: Sender, admin: KeyClient, clock: Clock, sweep: Sweep) -> None:
    admin.post(JOBS, json={"name": "backup", "pin": HOURLY})
    clock.advance(hours=2)
    sweep()
    assert open_incidents(admin) == [("backup", "overdue")]
    by_path("ping")
    sweep()
    job = admin.get(JOB).json
    assert (job["status"], job["run_count"], open_incidents(admin)) == ("ok", 1, [])
    assert job["first_heartbeat_at"] == job["last_heartbeat_at"] == "2026-06-21T12:00:00.000Z"
    assert job["overdue_at"] == "2026-06-21T13:01:00.000Z"


def test_a_first_heartbeat_with_an_earlier_time_is_the_last_one_too(by_path: Sender, admin: KeyClient) -> None:
    admin.post(JOBS, json={"name": "backup"})
    by_path("ping", time="2026-06-21T09:30:00Z")
    job = admin.get(JOB).json
    assert job["first_heartbeat_at"] == job["last_heartbeat_at"] == "2026-06-21T09:30:00.000Z"


def test_a_job_that_never_ran_can_be_pinned_later_paused_and_deleted(
    admin: KeyClient, clock: Clock, sweep: Sweep
) -> None:
    admin.post(JOBS, json={"name": "backup"})
    sweep()
    assert admin.patch(JOB, json={"pin": HOURLY}).json["overdue_at"] == "2026-06-21T11:01:00.000Z"
    assert admin.patch(JOB, json={"paused": True}).json["status"] == "paused"
    clock.advance(hours=5)
    assert admin.patch(JOB, json={"paused": False}).json["overdue_at"] == "2026-06-21T16:01:00.000Z"
    assert admin.delete(JOB).status_code == 204
    assert admin.get(JOB).status_code == 404


def test_a_taken_name_conflicts(by_path: Sender, admin: KeyClient) -> None:
    by_path("ping")
    before = admin.get(JOB).json
    answer = admin.post(JOBS, json={"name": "backup", "pin": HOURLY})
    assert (answer.status_code, answer.json["error"]) == (409, "conflict")
    assert answer.json["message"] == "There is already a job named 'backup'."
    assert admin.get(JOB).json == before


def test_put_creates_replaces_and_repeats(by_path: Sender, admin: KeyClient) -> None:
    fields = {"pin": HOURLY, "failure_tolerance": 2, "host": "nas", "paused": True}
    made = admin.put(JOB, json=fields)
    assert (made.status_code, made.headers["Location"]) == (201, JOB)
    again = admin.put(JOB, json=fields)
    assert (again.status_code, again.json, "Location" in again.headers) == (200, made.json, False)
    replaced = admin.put(JOB, json={})
    assert (replaced.status_code, replaced.json["pin"], replaced.json["paused"]) == (200, None, False)
    assert (replaced.json["failure_tolerance"], replaced.json["host"]) == (1, "nas")
    until = admin.put(JOB, json={"paused_until": "2026-06-22T00:00:00Z"}).json
    assert (until["paused"], until["paused_until"]) == (True, "2026-06-22T00:00:00.000Z")


def test_the_same_settings_again_leave_an_incident_open(admin: KeyClient, clock: Clock, sweep: Sweep) -> None:
    admin.put(JOB, json={"pin": HOURLY})
    clock.advance(hours=2)
    sweep()
    (incident,) = admin.get("/api/v1/incidents").json["incidents"]
    assert admin.put(JOB, json={"pin": HOURLY}).json["status"] == "overdue"
    sweep()
    assert admin.get("/api/v1/incidents").json["incidents"] == [incident]


def test_the_same_place_and_name_again_change_nothing(by_path: Sender, admin: KeyClient, clock: Clock) -> None:
    window = {"start_time": format_ms(clock() - 60_000), "end_time": format_ms(clock() + 3_600_000), "title": "x"}
    assert admin.post("/api/v1/maintenance", json=window).status_code == 201
    count = {"query": "SELECT count(*) FROM audit LAST 1d"}
    counts = []
    for _ in range(3):
        assert admin.put("/api/v1/jobs/backup", json={"host": "h2"}).status_code in (200, 201)
        assert admin.patch("/api/v1/jobs/backup", json={"name": "backup", "host": "h2"}).status_code == 200
        clock.advance(seconds=1)
        counts.append(admin.post("/api/v1/dsl", json=count).json["rows"])
    assert counts == [counts[0]] * 3


def test_the_place_of_a_job_can_be_set_until_a_heartbeat_reports_another(by_path: Sender, admin: KeyClient) -> None:
    by_path("ping", headers={"X-Platform-Host": "old", "X-Platform-Service": "web"})
    job = admin.patch(JOB, json={"host": "nas", "service": None}).json
    assert (job["host"], job["service"], job["project"]) == ("nas", None, None)
    by_path("ping", headers={"X-Platform-Host": "new"})
    assert admin.get(JOB).json["host"] == "new"


def test_registering_keeps_a_given_ping_uuid(app: Flask, admin: KeyClient) -> None:
    uuid = "6ba7b810-9dad-41d1-80b4-00c04fd430c8"
    assert admin.post(JOBS, json={"name": "backup", "ping_uuid": uuid}).status_code == 201
    assert app.test_client().get(f"/ping/{uuid}").text == "OK"
    assert admin.get(JOB).json["run_count"] == 1
    taken = admin.post(JOBS, json={"name": "other", "ping_uuid": uuid})
    assert (taken.status_code, taken.json["message"]) == (409, "Another job has this UUID.")
    assert admin.get(f"{JOBS}/other").status_code == 404


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "name"),
        ({"name": " x"}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"name": 1}, "name"),
        ({"name": "x", "pin": {"cron": "61 * * * *"}}, "pin"),
        ({"name": "x", "host": "x" * 201}, "host"),
        ({"name": "x", "schedule": "@daily"}, "schedule"),
    ],
)
def test_what_is_not_valid_registers_nothing(admin: KeyClient, fields: dict[str, Any], field: str) -> None:
    answer = admin.post(JOBS, json=fields)
    assert (answer.status_code, list(answer.json["errors"]["json"])) == (422, [field])
    assert admin.get(JOBS).json["jobs"] == []


def test_put_takes_the_name_from_the_path_only(admin: KeyClient) -> None:
    assert admin.put(JOB, json={"name": "other"}).json["errors"] == {"json": {"name": ["Unknown field."]}}
    assert list(admin.put(f"{JOBS}/%20backup", json={}).json["errors"]["path"]) == ["job_name"]
    assert admin.get(JOBS).json["jobs"] == []


def test_registering_takes_an_admin_key_and_is_in_the_audit_log(
    client: KeyClient, admin: KeyClient, clock: Clock
) -> None:
    assert client.post(JOBS, json={"name": "backup"}).status_code == 403
    assert client.put(JOB, json={}).status_code == 403
    admin.put(JOB, json={})
    for _ in range(2):
        admin.put(JOB, json={"pin": HOURLY, "ping_uuid": "6ba7b810-9dad-41d1-80b4-00c04fd430c8"})
    clock.advance(seconds=1)
    entries = admin.post("/api/v1/dsl", json={"query": "SELECT action, object FROM audit LAST 1h"}).json
    assert ["create job", "backup"] in entries["rows"]
    assert sorted(row[0] for row in entries["rows"]) == ["change job", "change job", "create job"]


def test_the_audit_log_tells_a_new_job_from_one_that_is_renamed(admin: KeyClient, clock: Clock) -> None:
    admin.post(JOBS, json={"name": "backup"})
    admin.patch(JOB, json={"name": "nightly", "failure_tolerance": 2})
    clock.advance(seconds=1)
    entries = admin.post("/api/v1/dsl", json={"query": "SELECT action, object FROM audit LAST 1h"}).json
    assert [row for row in entries["rows"] if row[0].endswith(" job")] == [
        ["create job", "backup"],
        ["change job", "backup: failure_tolerance, name nightly"],
    ]


def test_the_audit_log_has_the_new_name_of_an_overdue_job(admin: KeyClient, clock: Clock, sweep: Sweep) -> None:
    admin.post(JOBS, json={"name": "backup", "pin": HOURLY})
    clock.advance(days=1)
    sweep()
    assert admin.patch(JOB, json={"name": "nightly"}).json["overdue"]
    clock.advance(seconds=1)
    entries = admin.post("/api/v1/dsl", json={"query": "SELECT action, object FROM audit LAST 1h"}).json
    assert ["change job", "backup: name nightly"] in entries["rows"]


def test_registering_counts_for_the_quota(make_app: Callable[..., Flask], new_client: Callable[..., KeyClient]) -> None:
    admin = new_client("acme", "admin", app=make_app(MAX_JOBS=1))
    assert admin.post(JOBS, json={"name": "one"}).status_code == 201
    refused = admin.put(f"{JOBS}/two", json={"ping_uuid": "6ba7b810-9dad-41d1-80b4-00c04fd430c8"})
    assert (refused.status_code, refused.json["error"], refused.json["limit"]) == (507, "quota_exceeded", "max_jobs")
    assert admin.put(f"{JOBS}/one", json={"pin": HOURLY}).status_code == 200
    assert [job["name"] for job in admin.get(JOBS).json["jobs"]] == ["one"]


def test_the_pages_show_a_job_that_never_ran(app: Flask, admin: KeyClient, clock: Clock, sweep: Sweep) -> None:
    visitor = Visitor(app)
    visitor.sign_in(str(admin.key))
    assert "backup" not in visitor.get("/").text
    admin.post(JOBS, json={"name": "backup", "pin": HOURLY})
    assert "<td>never" in visitor.get("/").text
    clock.advance(hours=2)
    sweep()
    assert "row-overdue" in visitor.get("/").text
    page = visitor.get("/job?name=backup").text
    assert "<dd>never</dd>" in page
    assert "overdue for" in page
