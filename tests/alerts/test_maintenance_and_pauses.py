"""No incident is opened because of a pause, a maintenance window, downtime of the service or a step of its clock."""

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from obs.errors import ServiceError
from obs.services import services
from obs.tenancy import auth
from obs.times import format_ms, parse_iso
from tests.alerts.conftest import Job
from tests.conftest import ACME, Clock, KeyClient

JOB = "/api/v1/jobs/backup"


def test_a_paused_job_is_not_overdue_until_it_is_resumed(job: Job, admin: KeyClient, clock: Clock) -> None:
    answer = admin.patch(JOB, json={"paused": True}).json
    assert answer is not None
    assert (answer["status"], answer["paused"], answer["paused_until"]) == ("paused", True, None)
    clock.advance(days=3)
    job.sweep()
    assert (job.read()["status"], job.read()["overdue"], job.incidents()) == ("paused", False, [])
    admin.patch(JOB, json={"paused": False})
    job.sweep()
    assert (job.read()["paused"], job.read()["overdue"]) == (False, False)
    job.go_silent()
    assert [kind for kind, _, _ in job.incidents()] == ["overdue"]


def test_a_pause_ends_by_itself(job: Job, admin: KeyClient, clock: Clock) -> None:
    until = format_ms(clock() + 86_400_000)
    admin.patch(JOB, json={"paused_until": until})
    clock.advance(hours=23)
    job.sweep()
    assert job.read()["status"] == "paused"
    clock.set(until)
    job.sweep()
    assert (job.read()["paused"], job.read()["overdue"]) == (False, False)
    assert parse_iso(job.read()["overdue_at"]) > clock()
    job.go_silent()
    assert job.read()["overdue"] is True


def test_pausing_ends_an_incident(job: Job, admin: KeyClient) -> None:
    job.go_silent()
    admin.patch(JOB, json={"paused": True})
    job.sweep()
    assert [end is None for _, _, end in job.incidents()] == [False]


def test_nothing_begins_in_a_maintenance_window(job: Job, admin: KeyClient, clock: Clock) -> None:
    start, end = clock(), clock() + 86_400_000
    window = {"start_time": format_ms(start), "end_time": format_ms(end), "title": "New disks"}
    made = admin.post("/api/v1/maintenance", json=window)
    assert made.status_code == 201
    clock.advance(hours=12)
    job.sweep()
    assert (job.read()["overdue"], job.incidents()) == (False, [])
    clock.set(format_ms(end))
    job.sweep()
    assert job.read()["overdue"] is False
    job.go_silent()
    assert clock() > end
    assert [kind for kind, _, _ in job.incidents()] == ["overdue"]


def test_a_failure_in_a_maintenance_window_is_an_incident_only_if_it_lasts(
    job: Job, admin: KeyClient, clock: Clock
) -> None:
    end = clock() + 4 * 3_600_000
    window = {"start_time": format_ms(clock()), "end_time": format_ms(end)}
    admin.post("/api/v1/maintenance", json=window)
    job.end("fail")
    assert job.incidents() == []
    clock.set(format_ms(end))
    job.sweep()
    assert [kind for kind, _, _ in job.incidents()] == ["failing"]


def test_a_window_that_is_deleted_excuses_nothing(job: Job, admin: KeyClient, clock: Clock) -> None:
    usual = job.read()["overdue_at"]
    window = {"start_time": format_ms(clock()), "end_time": format_ms(clock() + 86_400_000)}
    made = admin.post("/api/v1/maintenance", json=window).json
    assert made is not None
    assert job.read()["overdue_at"] != usual
    assert admin.delete(f"/api/v1/maintenance/{made['id']}").status_code == 204
    job.sweep()
    assert job.read()["overdue_at"] == usual
    listed = admin.get("/api/v1/maintenance").json
    assert listed == {"maintenance_windows": []}
    assert admin.delete(f"/api/v1/maintenance/{made['id']}").status_code == 404


def test_a_window_ends_after_it_starts(admin: KeyClient) -> None:
    window = {"start_time": "2026-06-21T10:00:00Z", "end_time": "2026-06-21T10:00:00Z"}
    assert admin.post("/api/v1/maintenance", json=window).status_code == 422


def test_after_downtime_a_job_has_its_whole_lateness_once_more(job: Job, app: Flask, clock: Clock) -> None:
    overdue_at = parse_iso(job.read()["overdue_at"])
    clock.set(format_ms(overdue_at + 7_200_000))  # two hours in which no sweep ran: the service was down
    services(app).background.sweeper.excuse_downtime()
    job.sweep()
    assert (job.read()["overdue"], job.incidents()) == (False, [])
    assert parse_iso(job.read()["overdue_at"]) > clock()
    job.go_silent()
    assert [kind for kind, _, _ in job.incidents()] == ["overdue"]


def test_a_run_that_could_not_be_stored_is_not_missed(
    job: Job, client: KeyClient, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise ServiceError("storage_full")

    overdue_at = parse_iso(job.read()["overdue_at"])
    with monkeypatch.context() as patch:
        patch.setattr("obs.ingest.endpoint.record", full)
        for late_ms in (-60_000, 3_600_000):
            clock.set(format_ms(overdue_at + late_ms))
            assert client.post("/api/v1/heartbeat/other/ping").status_code == 503
    clock.advance(seconds=10)
    job.sweep()
    assert (job.read()["overdue"], job.incidents()) == (False, [])
    assert parse_iso(job.read()["overdue_at"]) > clock()
    job.go_silent()
    assert [kind for kind, _, _ in job.incidents()] == ["overdue"]


def test_downtime_does_not_end_what_was_overdue_before(job: Job, app: Flask, clock: Clock) -> None:
    job.go_silent()
    clock.advance(hours=5)
    services(app).background.sweeper.excuse_downtime()
    job.sweep()
    assert job.read()["overdue"] is True
    assert [end for _, _, end in job.incidents()] == [None]


def test_a_step_of_the_wall_clock_makes_nothing_overdue(
    make_app: Callable[..., Flask], new_client: Callable[..., KeyClient], clock: Clock
) -> None:
    seconds = {"monotonic": 0.0}
    app = make_app(MONOTONIC=lambda: seconds["monotonic"])
    client = new_client("acme", app=app)
    sweep = services(app).background.tasks["sweep"].run
    for _ in range(8):
        clock.advance(hours=1)
        seconds["monotonic"] += 3600
        client.post("/api/v1/heartbeat/backup/ping")
        sweep()
    clock.advance(hours=48)
    seconds["monotonic"] += 1
    sweep()
    answer: Any = client.get("/api/v1/jobs/backup").json
    assert answer["overdue"] is False


def test_a_restart_changes_nothing_of_what_was_learned(
    make_app: Callable[..., Flask], new_client: Callable[..., KeyClient], job: Job, clock: Clock
) -> None:
    before = job.read()
    clock.advance(minutes=1)
    again = make_app()
    services(again).background.sweeper.excuse_downtime()
    services(again).background.tasks["sweep"].run()
    after: Any = new_client("acme", app=again).get(JOB).json
    assert after == before


def test_a_job_that_is_learned_again_after_downtime_is_excused_too(job: Job, app: Flask, clock: Clock) -> None:
    clock.set(format_ms(parse_iso(job.read()["overdue_at"]) + 7_200_000))
    tenancy: auth.Tenancy = services(app).tenancy
    tenancy.databases.write(ACME, lambda db: db.execute("UPDATE fits SET version = -1").rowcount)
    services(app).background.sweeper.excuse_downtime()
    job.sweep()
    assert (job.read()["overdue"], job.incidents()) == (False, [])
    assert parse_iso(job.read()["overdue_at"]) > clock()


def test_when_a_pause_ends_a_job_that_is_failing_has_an_incident(job: Job, admin: KeyClient, clock: Clock) -> None:
    until = clock() + 5 * 3_600_000
    admin.patch(JOB, json={"paused_until": format_ms(until)})
    job.end("fail")
    assert job.incidents() == []
    clock.set(format_ms(until))
    job.sweep()
    assert [kind for kind, _, end in job.incidents() if end is None] == ["failing"]


def test_the_second_of_two_adjacent_windows_excuses_too(job: Job, admin: KeyClient, clock: Clock) -> None:
    hour, start = 3_600_000, clock()
    for begin, end in ((start + 2 * hour, start + 4 * hour), (start, start + 2 * hour)):
        admin.post("/api/v1/maintenance", json={"start_time": format_ms(begin), "end_time": format_ms(end)})
    clock.set(format_ms(start + 4 * hour))
    job.sweep()
    assert (job.read()["overdue"], job.incidents()) == (False, [])
    assert parse_iso(job.read()["overdue_at"]) > clock()


def test_a_change_has_a_quiet_organization_swept(job: Job, admin: KeyClient, clock: Clock) -> None:
    """Nothing is due and no heartbeat comes: the change itself makes the job overdue."""
    admin.patch(JOB, json={"pin": {"never": True}})
    job.sweep()
    clock.advance(days=2)
    job.sweep()
    admin.patch(JOB, json={"pin": {"interval_seconds": 3600}})
    job.sweep()
    assert [kind for kind, _, end in job.incidents() if end is None] == ["overdue"]
