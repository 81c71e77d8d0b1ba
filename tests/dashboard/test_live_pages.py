"""Pages stay current cheaply: a page that has not changed is not drawn again."""

import pytest
from flask import Flask

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
