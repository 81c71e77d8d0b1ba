"""The API and the pages enforce the same rules: what one refuses, the other does too, and nothing changes."""

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from obs.services import services
from tests.conftest import Clock, KeyClient
from tests.dashboard.conftest import Visitor

DAY_SECONDS = 86_400
TOO_LONG_INTERVAL_MINUTES = (366 * DAY_SECONDS + 60) // 60


@pytest.fixture
def admin(new_client: Callable[..., KeyClient]) -> KeyClient:
    """A client of the API that may change everything."""
    return new_client("acme", "admin", "annotations:read", "annotations:write")


@pytest.fixture
def visitor(app: Flask, admin: KeyClient) -> Visitor:
    """The same person on the pages."""
    signed_in = Visitor(app)
    assert signed_in.sign_in(str(admin.key)).status_code == 302
    signed_in.get("/settings")
    return signed_in


def _read(client: KeyClient, path: str) -> Any:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json


@pytest.fixture
def incident(app: Flask, client: KeyClient, clock: Clock) -> int:
    """A failing job; the id of the annotation that shows its incident."""
    client.post("/api/v1/heartbeat/backup/end?status=fail")
    services(app).background.tasks["sweep"].run()
    clock.advance(minutes=5)
    (annotation,) = _read(client, "/api/v1/annotations")["annotations"]
    assert (annotation["title"], annotation["by_service"], annotation["end_time"]) == ("backup failing", True, None)
    return int(annotation["id"])


def test_nobody_ends_changes_or_deletes_the_annotation_of_an_incident(
    admin: KeyClient, visitor: Visitor, incident: int
) -> None:
    path, page = f"/api/v1/annotations/{incident}", f"/annotations/{incident}"
    before = _read(admin, path)
    answers = (
        admin.delete(path),
        admin.put(path, json={"end_time": "2026-06-21T10:04:00Z"}),
        admin.put(path, json={"title": "mine"}),
        visitor.post(f"{page}/delete"),
        visitor.post(f"{page}/end"),
        visitor.post(page, name="incident/backup", title="mine", start_time="2026-06-21T10:00:00Z"),
    )
    assert [answer.status_code for answer in answers] == [409] * 6
    assert _read(admin, path) == before


PINS = [
    (
        {"interval_seconds": TOO_LONG_INTERVAL_MINUTES * 60},
        {"kind": "interval", "interval": str(TOO_LONG_INTERVAL_MINUTES)},
        "interval_seconds",
    ),
    (
        {"interval_seconds": 3600, "grace_seconds": TOO_LONG_INTERVAL_MINUTES * 60},
        {"kind": "interval", "interval": "60", "grace": str(TOO_LONG_INTERVAL_MINUTES)},
        "grace_seconds",
    ),
    (
        {"cron": "0 2 * * " + ",".join("1" for _ in range(100))},
        {"kind": "cron", "cron": "0 2 * * " + ",".join("1" for _ in range(100))},
        "cron",
    ),
    ({"cron": "61 2 * * *"}, {"kind": "cron", "cron": "61 2 * * *"}, "cron"),
    (
        {"cron": "0 2 * * *", "timezone": "Europe/" + "x" * 60},
        {"kind": "cron", "cron": "0 2 * * *", "timezone": "Europe/" + "x" * 60},
        "timezone",
    ),
    (
        {"cron": "0 2 * * *", "timezone": "Mars/Base"},
        {"kind": "cron", "cron": "0 2 * * *", "timezone": "Mars/Base"},
        "timezone",
    ),
]


@pytest.mark.parametrize(("pin", "form", "field"), PINS)
def test_a_pin_beyond_a_limit_is_refused(
    client: KeyClient, admin: KeyClient, visitor: Visitor, pin: dict[str, Any], form: dict[str, str], field: str
) -> None:
    client.post("/api/v1/heartbeat/backup/ping")
    by_api = admin.patch("/api/v1/jobs/backup", json={"pin": pin})
    assert by_api.status_code == 422
    assert by_api.json is not None
    assert list(by_api.json["errors"]["json"]["pin"]) == [field]
    assert by_api.json["message"].startswith(f"pin.{field}: ")
    by_page = visitor.post("/job/pin?name=backup", **form)
    assert by_page.status_code == 422
    assert _read(admin, "/api/v1/jobs/backup")["pin"] is None


def test_a_pin_at_the_limits_is_accepted(client: KeyClient, admin: KeyClient, visitor: Visitor) -> None:
    client.post("/api/v1/heartbeat/backup/ping")
    pin = {"interval_seconds": 366 * DAY_SECONDS, "grace_seconds": 366 * DAY_SECONDS}
    assert admin.patch("/api/v1/jobs/backup", json={"pin": pin}).status_code == 200
    assert _read(admin, "/api/v1/jobs/backup")["pin"] == pin
    minutes = str(366 * 24 * 60)
    visitor.post("/job/pin?name=backup", kind="learn")
    visitor.post("/job/pin?name=backup", kind="interval", interval=minutes, grace=minutes)
    assert _read(admin, "/api/v1/jobs/backup")["pin"] == pin


@pytest.mark.parametrize("failures", [0, 1001])
def test_a_failure_tolerance_beyond_its_limits_is_refused(client: KeyClient, admin: KeyClient, failures: int) -> None:
    client.post("/api/v1/heartbeat/backup/ping")
    answer = admin.patch("/api/v1/jobs/backup", json={"failure_tolerance": failures})
    assert answer.status_code == 422
    assert _read(admin, "/api/v1/jobs/backup")["failure_tolerance"] == 1


WINDOWS = [
    ({"title": "x" * 600, "end_time": "2026-06-21T12:00:00Z"}, {"title": "x" * 600, "end_time": "+2h"}, "title"),
    ({"title": "Disks", "end_time": "2027-07-26T10:00:00Z"}, {"title": "Disks", "end_time": "+400d"}, "end_time"),
    ({"title": "Disks", "end_time": "2026-07-22T10:00:00.001Z"}, {"title": "Disks", "end_time": "+745h"}, "end_time"),
    ({"title": "Disks", "end_time": "2026-06-21T09:00:00Z"}, {"title": "Disks", "end_time": "-1h"}, "end_time"),
]


@pytest.mark.parametrize(("window", "form", "field"), WINDOWS)
def test_a_maintenance_window_beyond_a_limit_is_refused_by_the_name_of_the_field(
    admin: KeyClient, visitor: Visitor, window: dict[str, str], form: dict[str, str], field: str
) -> None:
    by_api = admin.post("/api/v1/maintenance", json={"start_time": "2026-06-21T10:00:00Z", **window})
    assert by_api.status_code == 422
    assert by_api.json is not None
    assert list(by_api.json["errors"]["json"]) == [field]
    by_page = visitor.post("/incidents/maintenance", start_time="now", **form)
    assert by_page.status_code == 422
    assert field.removesuffix("_time").casefold() in by_page.text.casefold()
    assert _read(admin, "/api/v1/maintenance") == {"maintenance_windows": []}


def test_a_maintenance_window_of_31_days_is_accepted(admin: KeyClient, visitor: Visitor) -> None:
    window = {"start_time": "2026-06-21T10:00:00Z", "end_time": "2026-07-22T10:00:00Z", "title": "x" * 500}
    assert admin.post("/api/v1/maintenance", json=window).status_code == 201
    assert visitor.post("/incidents/maintenance", start_time="now", end_time="+31d", title="x" * 500).status_code == 302
    assert len(_read(admin, "/api/v1/maintenance")["maintenance_windows"]) == 2


ANNOTATIONS = [
    ("name", "x" * 201),
    ("title", "x" * 501),
    ("description", "x" * 4001),
    ("url", "javascript:alert(1)"),
    ("url", "https://example.com/" + "x" * 2000),
]


@pytest.mark.parametrize(("field", "value"), ANNOTATIONS)
def test_an_annotation_beyond_a_limit_is_refused(admin: KeyClient, visitor: Visitor, field: str, value: str) -> None:
    fields = {"name": "deploy/web", "title": "2.0", field: value}
    by_api = admin.post("/api/v1/annotations", json=fields)
    assert by_api.status_code == 422
    assert by_api.json is not None
    assert list(by_api.json["errors"]["json"]) == [field]
    assert visitor.post("/annotations", **fields).status_code == 422
    assert _read(admin, "/api/v1/annotations")["annotations"] == []
