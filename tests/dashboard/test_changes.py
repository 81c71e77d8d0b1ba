"""A change needs an admin and a form of this session, and concerns only the admin's own organization."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from flask import Flask

from tests.conftest import KeyClient
from tests.dashboard.conftest import Visitor

CHANGES = {
    "/jobs/delete": {"prefix": "back"},
    "/job/delete?name=backup": {},
    "/job/pin?name=backup": {"kind": "never"},
    "/job/pause?name=backup": {"until": ""},
    "/job/resume?name=backup": {},
    "/job/rename?name=backup": {"new_name": "other"},
    "/incidents/maintenance": {"title": "x", "start_time": "2026-06-21T11:00", "end_time": "2026-06-21T12:00"},
    "/incidents/maintenance/1/delete": {},
    "/annotations": {"name": "deploy/web", "title": "out"},
    "/annotations/1": {"name": "deploy/web", "title": "changed"},
    "/annotations/1/end": {},
    "/annotations/1/delete": {},
    "/settings/keys": {"label": "mine", "scopes": "admin", "expires": ""},
    "/settings/keys/1/revoke": {},
}


def stored(client: KeyClient) -> list[object]:
    """The jobs, annotations and maintenance windows."""
    return [client.get(f"/api/v1/{what}").json for what in ("jobs", "annotations", "maintenance")]


@pytest.fixture(autouse=True)
def _sample_data(client: KeyClient) -> None:
    client.post("/api/v1/heartbeat/backup/ping")
    assert client.post("/api/v1/annotations", json={"name": "deploy/web", "title": "first"}).json["id"] == 1


@pytest.mark.parametrize("path", CHANGES)
def test_a_read_key_changes_nothing(client: KeyClient, reader: Visitor, path: str) -> None:
    before = stored(client)
    assert reader.post(path, **CHANGES[path]).status_code == 403
    assert stored(client) == before
    assert reader.get("/").status_code == 200  # its key was not revoked


@pytest.mark.parametrize("path", CHANGES)
def test_a_form_without_the_token_changes_nothing(client: KeyClient, admin: Visitor, path: str) -> None:
    before = stored(client)
    admin.token = ""
    assert admin.post(path, **CHANGES[path]).status_code == 400
    assert stored(client) == before
    assert admin.get("/").status_code == 200


@pytest.mark.parametrize("path", CHANGES)
def test_nobody_changes_another_organization(client: KeyClient, stranger: Visitor, path: str) -> None:
    before = stored(client)
    stranger.post(path, **CHANGES[path])
    assert stored(client) == before
    assert client.get("/api/v1/jobs").status_code == 200


def test_every_form_that_posts_carries_the_token(admin: Visitor) -> None:
    run = "/job/run/1"
    for path in ("/", "/job?name=backup", run, "/annotations", "/annotations/1", "/incidents", "/settings"):
        text = admin.get(path).text
        for form in re.findall(r'<form[^>]*method="post".*?</form>', text, flags=re.DOTALL):
            assert 'name="csrf_token"' in form, path


def test_a_job_is_deleted_with_its_runs(client: KeyClient, admin: Visitor) -> None:
    assert admin.post("/job/delete?name=backup").location == "/"
    assert client.get("/api/v1/jobs/backup").status_code == 404
    assert client.get("/api/v1/runs/1").status_code == 404


def test_an_annotation_is_added_changed_ended_and_deleted(client: KeyClient, admin: Visitor) -> None:
    admin.post("/annotations", name="incident/db", title="Slow", start_time="-2h", url="https://example.com/1")
    created = client.get("/api/v1/annotations/2").json
    assert (created["title"], created["start_time"], created["end_time"]) == ("Slow", "2026-06-21T08:00:00.000Z", None)
    admin.post("/annotations/2", name="incident/db", title="Very slow", start_time=created["start_time"])
    changed = client.get("/api/v1/annotations/2").json
    assert (changed["title"], changed["url"]) == ("Very slow", None)
    admin.post("/annotations/2/end")
    assert client.get("/api/v1/annotations/2").json["end_time"] == "2026-06-21T10:00:00.000Z"
    admin.post("/annotations/2/delete")
    assert client.get("/api/v1/annotations/2").status_code == 404


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "a", "title": ""}, "Enter a value."),
        ({"name": "a", "title": "b", "start_time": "yesterday"}, "Enter a date and time, e.g. 2026-06-21 10:00."),
        ({"name": "a", "title": "b", "start_time": "now", "end_time": "-1h"}, "Must not be before the start."),
        ({"name": "a", "title": "b", "url": "javascript:alert(1)"}, "Not an http or https URL"),
    ],
)
def test_a_problem_is_shown_beside_its_field_and_the_entered_text_stays(
    admin: Visitor, client: KeyClient, fields: dict[str, str], message: str
) -> None:
    answer = admin.post("/annotations", **fields)
    assert answer.status_code == 422
    assert message in answer.text
    assert 'value="a"' in answer.text
    assert len(client.get("/api/v1/annotations").json["annotations"]) == 1


def test_a_new_key_is_shown_once_and_works(app: Flask, admin: Visitor) -> None:
    answer = admin.post("/settings/keys", label="cron box", scopes="heartbeat:write", expires="+30d")
    assert answer.location == "/settings#keys"
    answer = admin.get("/settings")
    key = re.search(r"obs_acme_\w{32}", answer.text)
    assert key is not None
    assert app.test_client().post("/api/v1/heartbeat/x/ping", headers={"X-API-Key": key[0]}).status_code == 200
    listed = admin.get("/settings").text
    assert "cron box" in listed
    assert key[0] not in listed


def test_the_backup_is_a_complete_file_of_this_organization_only(
    admin: Visitor, stranger: Visitor, tmp_path: Path
) -> None:
    counts = []
    for number, visitor in enumerate((admin, stranger)):
        path = tmp_path / f"{number}.db"
        answer = visitor.get("/settings/backup")
        path.write_bytes(answer.data)
        answer.close()
        with closing(sqlite3.connect(path)) as db:
            assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
            counts.append(db.execute("SELECT count(*) FROM jobs").fetchone()[0])
    assert counts == [1, 0]


def test_a_read_key_cannot_download_the_backup(reader: Visitor) -> None:
    assert reader.get("/settings/backup").status_code == 403
