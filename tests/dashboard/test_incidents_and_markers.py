"""What is shown when there is more than fits: the most severe open incidents, and deploys before incidents."""

import html
import re
import sqlite3

import pytest
from flask import Flask

from obs.alerts.store import incidents
from obs.alerts.store.incidents import IncidentKind
from obs.services import services
from tests.conftest import ACME, Clock, KeyClient
from tests.dashboard.conftest import Visitor

MINUTE_MS = 60_000


@pytest.fixture
def many_incidents(app: Flask, client: KeyClient, clock: Clock) -> None:
    """The job ``backup`` has been failing for an hour, and since then 250 others have become overdue."""
    client.post("/api/v1/heartbeat/backup/end?status=fail&duration_ms=1000")
    deploy = {"name": "deploy/web", "title": "web 4.2", "start_time": "2026-06-21T09:30:00Z"}
    assert client.post("/api/v1/annotations", json=deploy).status_code == 201
    start = clock.now_ms
    clock.advance(minutes=60)

    def fill(db: sqlite3.Connection) -> None:
        jobs = [("backup", IncidentKind.FAILING, start)]
        jobs += [(f"other-{number}", IncidentKind.OVERDUE, start + number * 10_000) for number in range(250)]
        for name, kind, since in jobs:
            if name != "backup":
                db.execute(
                    "INSERT INTO jobs (name, created_at, first_heartbeat_at, last_heartbeat_at, last_event_id)"
                    " VALUES (?, 1, 1, 1, 0)",
                    (name,),
                )
            band = db.execute(
                "INSERT INTO annotations (name, title, start_time, created_at, updated_at, by_service)"
                " VALUES (?1, ?1, ?2, ?2, ?2, 1)",
                (f"incident/{name}", since),
            )
            db.execute(
                "INSERT INTO incidents (job_id, kind, started_at, annotation_id)"
                " SELECT id, ?, ?, ? FROM jobs WHERE name = ?",
                (kind, since, band.lastrowid, name),
            )

    services(app).tenancy.databases.write(ACME, fill)


@pytest.mark.usefixtures("many_incidents")
def test_the_most_severe_incident_is_shown_first_among_more_than_fit(reader: Visitor) -> None:
    text = reader.get("/incidents").text
    assert text.index(">backup<") < text.index(">other-249<")


@pytest.mark.usefixtures("many_incidents")
def test_more_incidents_than_fit_are_counted_and_a_query_lists_them(reader: Visitor, app: Flask) -> None:
    with services(app).tenancy.databases.read(ACME) as db:
        newest = incidents.incidents(db, limit=1)[0]
    services(app).tenancy.databases.write(
        ACME, lambda db: db.execute("UPDATE incidents SET ended_at = started_at + 1 WHERE id <> ?", (newest.id,))
    )
    text = reader.get("/incidents").text
    assert "<h1>1 open incident</h1>" in text
    assert "The newest 199 are shown." in text
    services(app).tenancy.databases.write(ACME, lambda db: db.execute("UPDATE incidents SET ended_at = NULL"))
    text = reader.get("/incidents").text
    assert "<h1>251 open incidents</h1>" in text
    assert "The most severe 200 are shown." in text
    assert "No past incidents." not in text
    every_open, resolved = (reader.get(html.unescape(path)).text for path in re.findall('"(/query\\?q=[^"]+)"', text))
    assert "<span>251 rows</span>" in every_open
    assert "<span>0 rows</span>" in resolved


@pytest.mark.usefixtures("many_incidents")
def test_a_deploy_stays_on_the_charts_beside_many_incidents(reader: Visitor) -> None:
    job = reader.get("/job?name=backup&range=24h").text
    assert "web 4.2" in job
    assert "incident/backup" in job
    assert "incident/other" not in job
    query = reader.get("/query?q=SELECT+count(*)+FROM+runs+EVERY+1h+LAST+1d&overlay=all").text
    assert "web 4.2" in query
    assert "incident/other-249" in query


def test_the_page_of_a_job_shows_its_first_heartbeat_and_in_how_long_it_is_overdue(
    client: KeyClient, admin: Visitor, clock: Clock
) -> None:
    client.post("/api/v1/heartbeat/ping", json={"name": "backup", "time": "2026-06-20T23:50:00Z"})
    admin.post("/job/pin?name=backup", kind="interval", interval="600", grace="1")
    clock.advance(seconds=-600 + 28)
    text = admin.get("/job?name=backup").text
    assert '<dt>First seen</dt><dd><time datetime="2026-06-20T23:50:00Z"' in text
    clock.set("2026-06-21T09:50:28Z")
    text = re.sub(r"<[^>]+>|\s+", " ", admin.get("/job?name=backup").text)
    assert re.search(r"Expected +2026-06-21 09:50:00 UTC +\( +28 s ago +\). Overdue +in 32 s +\.", text)


def test_only_a_recent_point_can_be_ended_with_a_click_that_has_to_be_confirmed(
    client: KeyClient, admin: Visitor, clock: Clock
) -> None:
    client.post("/api/v1/annotations", json={"name": "deploy/web", "title": "web 4.2"})
    clock.advance(days=6, hours=3)
    text = admin.get("/annotations").text
    assert 'data-confirm=\'End "web 4.2" now? It will be drawn on charts as a band of 6 d 3 h, from its start' in text
    clock.advance(days=1)
    assert "/annotations/1/end" not in admin.get("/annotations").text


def test_a_click_on_an_old_page_does_not_move_the_end_of_an_annotation(client: KeyClient, admin: Visitor) -> None:
    band = {"name": "deploy/web", "title": "web 4.2", "start_time": "2026-06-21T09:30:00Z"}
    ended = client.post("/api/v1/annotations", json={**band, "end_time": "2026-06-21T09:31:00Z"}).json
    assert admin.post(f"/annotations/{ended['id']}/end").status_code == 302
    assert client.get(f"/api/v1/annotations/{ended['id']}").json == ended


def test_a_filter_that_ends_before_it_starts_is_a_mistake(admin: Visitor) -> None:
    page = admin.get("/annotations?start=-7d&end=-30d")
    assert (page.status_code, "Must not be before the start." in page.text) == (422, True)
