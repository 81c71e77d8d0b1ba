"""Pages stay current cheaply: a page that has not changed is not drawn again."""

import json

import pytest
from flask import Flask
from werkzeug.datastructures import Headers

from obs.services import services
from tests.conftest import Clock, KeyClient
from tests.dashboard.conftest import Visitor

LIVE = ("/job?name=backup", "/job/run/1", "/incidents")
PAGES = (*LIVE, "/", "/projects", "/query", "/annotations", "/settings", "/no-such-page")


def version(text: str) -> str:
    main = text.partition('<main id="main"')[2].partition(">")[0]
    return main.partition('data-version="')[2].partition('"')[0]


@pytest.mark.parametrize("path", PAGES)
def test_every_page_notices_that_the_server_is_gone(client: KeyClient, reader: Visitor, path: str) -> None:
    client.post("/api/v1/heartbeat/backup/end")
    text = reader.get(path).text
    assert "/static/alive.js" in text
    assert '<div id="connection" role="alert" hidden></div>' in text
    assert bool(version(text)) == (path in LIVE)


@pytest.mark.parametrize("path", LIVE)
def test_a_page_is_sent_again_only_after_a_change(
    app: Flask, client: KeyClient, reader: Visitor, clock: Clock, path: str
) -> None:
    client.post("/api/v1/heartbeat/backup/start")
    have = version(reader.get(path).text)
    clock.advance(seconds=5)
    assert reader.get(path, headers={"X-Have": have}).status_code == 204
    client.post("/api/v1/heartbeat/backup/end?status=fail")
    services(app).background.tasks["sweep"].run()
    changed = reader.get(path, headers={"X-Have": have})
    assert changed.status_code == 200
    assert reader.get(path, headers={"X-Have": version(changed.text)}).status_code == 204


def test_asking_for_changes_does_not_take_the_message_that_the_next_page_shows(
    client: KeyClient, admin: Visitor
) -> None:
    client.post("/api/v1/heartbeat/backup/end")
    admin.post("/job/pin?name=backup", kind="never")
    assert "Schedule saved." not in admin.get("/job?name=backup", headers={"X-Have": "none"}).text
    assert "Schedule saved." in admin.get("/job?name=backup").text


def test_a_form_that_was_refused_is_not_replaced(client: KeyClient, admin: Visitor) -> None:
    client.post("/api/v1/heartbeat/backup/end")
    assert version(admin.post("/job/pin?name=backup", kind="cron", cron="x").text) == ""
    assert version(admin.post("/incidents/maintenance", start_time="x", end_time="now").text) == ""


def test_the_title_counts_what_is_broken_on_every_page(client: KeyClient, reader: Visitor, stranger: Visitor) -> None:
    client.post("/api/v1/heartbeat/backup/end")
    client.post("/api/v1/heartbeat/other/end")
    assert "<title>(" not in reader.get("/settings").text
    client.post("/api/v1/heartbeat/other/end?status=fail")
    for path in PAGES:
        is_error = path == "/no-such-page"
        text = reader.get(path).text
        assert ("<title>(1) " in text) == (not is_error), path
        assert ('icon-trouble.svg" data-fine' in text) == (not is_error), path
    assert reader.get("/jobs/trouble").text == "1"
    assert stranger.get("/jobs/trouble").text == "0"


def test_a_page_follows_when_another_job_breaks(client: KeyClient, reader: Visitor) -> None:
    client.post("/api/v1/heartbeat/backup/end")
    have = version(reader.get("/job?name=backup").text)
    client.post("/api/v1/heartbeat/other/end?status=fail")
    assert "<title>(1) " in reader.get("/job?name=backup", headers={"X-Have": have}).text


def test_what_an_installed_page_needs_is_served_to_anybody(app: Flask) -> None:
    client = app.test_client()

    def load(name: str) -> tuple[str, Headers]:
        with client.get(f"/static/{name}") as response:
            assert response.status_code == 200
            return response.data.decode(errors="replace"), response.headers

    icons = json.loads(load("manifest.webmanifest")[0])["icons"]
    assert {icon["sizes"] for icon in icons} == {"any", "192x192", "512x512"}
    for icon in icons:
        load(icon["src"])
    assert load("offline.js")[1]["Service-Worker-Allowed"] == "/"
    assert "Service-Worker-Allowed" not in load("obs.js")[1]
    offline, headers = load("offline.html")
    assert "No connection to the server" in offline
    assert "script-src 'self'" in headers["Content-Security-Policy"]
