"""Without JavaScript: an incident is acknowledged and judged by forms, which readers do not have."""

import re
from collections.abc import Callable

import pytest
from flask import Flask

from obs.services import services
from tests.conftest import Clock, KeyClient
from tests.dashboard.conftest import Visitor

BUTTONS = ("acknowledge", "false_alarm", "right")


@pytest.fixture
def failing(app: Flask, client: KeyClient, clock: Clock) -> Callable[[], None]:
    client.post("/api/v1/heartbeat/backup/end?status=fail")
    sweep: Callable[[], None] = services(app).background.tasks["sweep"].run
    sweep()
    return sweep


def offered(visitor: Visitor, path: str) -> list[str]:
    return re.findall(r'action="/incidents/1/(\w+)"', visitor.get(path).text)


@pytest.mark.usefixtures("failing")
@pytest.mark.parametrize("path", ["/incidents", "/job?name=backup"])
def test_an_open_incident_can_be_acknowledged_once(admin: Visitor, path: str) -> None:
    assert set(offered(admin, path)) == {"acknowledge"}  # it failed, so that it is no false alarm
    job = {"job": "backup"} if "job" in path else {}
    answer = admin.post("/incidents/1/acknowledge", **job)
    assert (answer.status_code, answer.headers["Location"]) == (302, path)
    assert offered(admin, path) == []
    assert "by session of key" in admin.get(path).text


@pytest.mark.usefixtures("failing")
@pytest.mark.parametrize("path", ["/incidents", "/job?name=backup"])
def test_a_reader_sees_what_was_said_but_has_no_forms(admin: Visitor, reader: Visitor, path: str) -> None:
    assert admin.post("/incidents/1/acknowledge").status_code == 302
    assert offered(reader, path) == []
    assert "Acknowledged" in reader.get(path).text
    for what in BUTTONS:
        assert reader.post(f"/incidents/1/{what}").status_code == 403


@pytest.mark.parametrize(("kind", "buttons"), [("interval", {"acknowledge"}), ("learn", set(BUTTONS))])
def test_whether_a_job_was_overdue_is_not_asked_of_one_with_a_pin(
    admin: Visitor, client: KeyClient, clock: Clock, app: Flask, kind: str, buttons: set[str]
) -> None:
    sweep = services(app).background.tasks["sweep"].run
    for _ in range(8):
        clock.advance(hours=1)
        client.post("/api/v1/heartbeat/backup/ping")
        sweep()
    assert admin.post("/job/pin?name=backup", kind=kind, interval="60", grace="1").status_code == 302
    clock.set(client.get("/api/v1/jobs/backup").json["overdue_at"])
    sweep()
    assert set(offered(admin, "/job?name=backup")) == buttons


def test_what_cannot_be_done_is_refused(admin: Visitor, failing: Callable[[], None], client: KeyClient) -> None:
    assert admin.post("/incidents/1/false_alarm").status_code == 409
    client.post("/api/v1/heartbeat/backup/end")
    failing()
    assert admin.post("/incidents/1/acknowledge").status_code == 409
    assert admin.post("/incidents/7/acknowledge").status_code == 404
    assert admin.post("/incidents/1/other").status_code == 404
