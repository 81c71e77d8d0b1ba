"""An admin changes jobs and schedules maintenance on the pages; the API then shows the change."""

import re

import pytest
from flask import Flask

from obs.services import services
from obs.times import format_ms
from tests.conftest import Clock, KeyClient
from tests.dashboard.conftest import Visitor


@pytest.fixture(autouse=True)
def _a_job(client: KeyClient) -> None:
    client.post("/api/v1/heartbeat/backup/ping")


@pytest.mark.parametrize(
    ("fields", "pin", "schedule", "grace"),
    [
        (
            {"kind": "cron", "cron": "0 2 * * 1-5", "timezone": "Europe/Berlin", "grace": "5"},
            {"cron": "0 2 * * 1-5", "timezone": "Europe/Berlin", "grace_seconds": 300},
            "0 2 * * 1-5, Europe/Berlin",
            ", 5 min grace period",
        ),
        (
            {"kind": "interval", "interval": "30", "grace": "2"},
            {"interval_seconds": 1800, "grace_seconds": 120},
            "Every 30 min",
            ", 2 min grace period",
        ),
        ({"kind": "never"}, {"never": True}, "Never overdue", ""),
    ],
)
def test_a_schedule_is_pinned_and_learned_again(
    client: KeyClient, admin: Visitor, fields: dict[str, str], pin: dict[str, object], schedule: str, grace: str
) -> None:
    assert admin.post("/job/pin?name=backup", **fields).status_code == 302
    assert client.get("/api/v1/jobs/backup").json["pin"] == pin
    text = admin.get("/job?name=backup").text
    assert f"<b>{schedule}</b>" in text
    assert f"Set manually{grace}." in text
    admin.post("/job/pin?name=backup", kind="learn")
    assert client.get("/api/v1/jobs/backup").json["pin"] is None


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "cron", "cron": "every day"},
        {"kind": "cron", "cron": "0 2 * * *", "timezone": "Mars/Base"},
        {"kind": "interval", "interval": "soon"},
        {"kind": "interval", "interval": ""},
    ],
)
def test_an_invalid_schedule_is_refused(client: KeyClient, admin: Visitor, fields: dict[str, str]) -> None:
    assert admin.post("/job/pin?name=backup", **fields).status_code == 422
    assert client.get("/api/v1/jobs/backup").json["pin"] is None


def test_a_job_is_paused_and_resumed(client: KeyClient, admin: Visitor) -> None:
    admin.post("/job/pause?name=backup", until="+1d")
    job = client.get("/api/v1/jobs/backup").json
    assert (job["status"], job["paused_until"]) == ("paused", "2026-06-22T10:00:00.000Z")
    assert "Resume" in admin.get("/job?name=backup").text
    admin.post("/job/resume?name=backup")
    assert client.get("/api/v1/jobs/backup").json["paused"] is False


def test_a_job_is_renamed_with_its_history_and_not_onto_another(client: KeyClient, admin: Visitor) -> None:
    client.post("/api/v1/heartbeat/other/ping")
    assert admin.post("/job/rename?name=backup", new_name="other").status_code == 409
    assert admin.post("/job/rename?name=backup", new_name="").status_code == 422
    admin.post("/job/rename?name=backup", new_name="db/backup")
    assert client.get("/api/v1/jobs/backup").status_code == 404
    assert len(client.get("/api/v1/jobs/db/backup/runs").json["runs"]) == 1


def test_maintenance_is_scheduled_and_deleted(client: KeyClient, admin: Visitor) -> None:
    admin.post("/incidents/maintenance", title="New disks", start_time="now", end_time="+2h")
    windows = client.get("/api/v1/maintenance").json["maintenance_windows"]
    assert [(one["title"], one["end_time"]) for one in windows] == [("New disks", "2026-06-21T12:00:00.000Z")]
    assert "New disks" in admin.get("/incidents").text
    assert admin.post("/incidents/maintenance", start_time="now", end_time="-2h").status_code == 422
    admin.post(f"/incidents/maintenance/{windows[0]['id']}/delete")
    assert client.get("/api/v1/maintenance").json["maintenance_windows"] == []


def test_open_incidents_are_shown_most_severe_first(
    app: Flask, client: KeyClient, admin: Visitor, clock: Clock
) -> None:
    sweep = services(app).background.tasks["sweep"].run
    for minute in range(0, 100, 10):
        clock.set(f"2026-06-21T{10 + minute // 60}:{minute % 60:02}:00Z")
        client.post("/api/v1/heartbeat/broken/end?status=fail" if minute == 0 else "/api/v1/heartbeat/silent/ping")
        sweep()
    clock.advance(hours=2)
    sweep()
    text = admin.get("/incidents").text
    assert "2 open incidents" in text
    assert text.index(">failing<") < text.index(">overdue<")


def test_a_job_that_is_silent_beyond_its_pinned_interval_is_an_incident(
    app: Flask, client: KeyClient, admin: Visitor, clock: Clock
) -> None:
    sweep = services(app).background.tasks["sweep"].run
    admin.post("/job/pin?name=backup", kind="interval", interval="30", grace="2")
    sweep()
    clock.advance(minutes=31)
    sweep()
    assert "No open incidents" in admin.get("/incidents").text
    clock.advance(minutes=2)
    sweep()
    assert "1 open incident<" in admin.get("/incidents").text
    text = admin.get("/job?name=backup").text
    assert "overdue for 1 min" in text
    assert "(1 run missed)" in text
    assert "The only job needs attention" in admin.get("/").text


@pytest.mark.parametrize("change", ["pause", "maintenance", "never"])
def test_no_incident_is_opened_while_a_job_is_paused_or_in_maintenance_or_never_overdue(
    app: Flask, client: KeyClient, admin: Visitor, clock: Clock, change: str
) -> None:
    sweep = services(app).background.tasks["sweep"].run
    admin.post("/job/pin?name=backup", kind="interval", interval="30", grace="2")
    if change == "pause":
        admin.post("/job/pause?name=backup", until="+1d")
    elif change == "maintenance":
        admin.post("/incidents/maintenance", start_time="2026-06-21T10:00", end_time="2026-06-21T12:00")
    else:
        admin.post("/job/pin?name=backup", kind="never")
    sweep()
    clock.advance(minutes=40)
    sweep()
    assert "No open incidents" in admin.get("/incidents").text
    assert client.get("/api/v1/jobs/backup").json["overdue"] is False


@pytest.mark.parametrize("change", ["pause", "pause without an end", "maintenance"])
def test_no_page_expects_a_job_that_is_paused_or_in_maintenance(
    app: Flask, client: KeyClient, admin: Visitor, clock: Clock, change: str
) -> None:
    sweep = services(app).background.tasks["sweep"].run
    admin.post("/job/pin?name=backup", kind="interval", interval="30", grace="2")
    assert "Next run expected" in admin.get("/job?name=backup").text
    if change == "maintenance":
        admin.post("/incidents/maintenance", start_time="2026-06-21T10:00", end_time="2026-06-21T22:00")
    else:
        admin.post("/job/pause?name=backup", until="+1d" if change == "pause" else "")
    sweep()
    clock.advance(hours=5)
    sweep()
    assert "<b>expected</b>" not in admin.get("/").text
    page = admin.get("/job?name=backup").text
    assert ("Expected <" in page, "Next run expected" in page) == (False, change == "maintenance")
    client.post("/api/v1/heartbeat/active/ping")
    admin.post("/job/pin?name=active", kind="interval", interval="6000", grace="2")
    sweep()
    names = re.findall(r'href="/job\?name=(\w+)"', admin.get("/?sort=next").text)
    assert names == (["backup", "active"] if change == "maintenance" else ["active", "backup"])


def test_a_ping_url_is_created_and_replaced_on_the_page(client: KeyClient, admin: Visitor, reader: Visitor) -> None:
    client.post("/api/v1/heartbeat/backup/ping")
    urls = []
    for _ in range(2):
        assert admin.post("/job/ping-url?name=backup").status_code == 302
        urls += re.findall(r"http\S+/ping/[0-9a-f-]{36}", admin.get("/job?name=backup").text)[:1]
    assert [client.get(url).status_code for url in urls] == [404, 200]
    assert urls[1] not in reader.get("/job?name=backup").text
    assert reader.post("/job/ping-url?name=backup").status_code == 403


def test_the_times_of_a_cron_expression_are_shown_before_it_is_pinned(admin: Visitor, client: KeyClient) -> None:
    client.post("/api/v1/heartbeat/alpha/ping")
    entered = {"cron": "0 2 * * *", "timezone": "Europe/Berlin", "grace": "5"}
    times = admin.post("/job/pin/times?name=alpha", **entered).get_json()
    assert [format_ms(one) for one in times[:2]] == ["2026-06-22T00:00:00.000Z", "2026-06-23T00:00:00.000Z"]
    assert len(times) == 1000
    for since, first in (
        ("0", "1970-01-01T01"),
        ("-5", "1970-01-01T01"),
        ("9" * 30, "2026-06-22T00"),
        ("x", "2026-06-22T00"),
    ):
        (time, *_) = admin.post("/job/pin/times?name=alpha", **entered, since=since).get_json()
        assert format_ms(time).startswith(first), since
    seldom = admin.post("/job/pin/times?name=alpha", **{**entered, "cron": "0 0 * 2 1#5"}).get_json()
    assert 0 < len(seldom) < 1000, "the year 9999 is the last one"
    refused = admin.post("/job/pin/times?name=alpha", **{**entered, "cron": "61 * * * *"})
    assert refused.status_code == 422
    assert "Invalid minute" in refused.text
    assert client.get("/api/v1/jobs/alpha").json["pin"] is None


def test_a_schedule_that_has_changed_is_learned_again(client: KeyClient, admin: Visitor, clock: Clock) -> None:
    assert "The schedule of this job changed" in admin.get("/job?name=backup").text
    assert admin.post("/job/schedule-changed?name=backup", since="-1d").status_code == 302
    assert client.get("/api/v1/jobs/backup").json["schedule_changed_at"] == format_ms(clock() - 86_400_000)
    assert "heartbeats from before then do not count" in admin.get("/job?name=backup").text
    assert admin.post("/job/schedule-changed?name=backup", since="tomorrow").status_code == 422
