"""The ping URL of a job: one UUID for each job of all organizations, for as long as the job is there."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from obs.services import services
from obs.tenancy import store
from tests.conftest import ACME, KeyClient
from tests.ingest.conftest import ID


def test_the_ping_url_is_created_once_and_can_be_replaced(
    web: FlaskClient, client: KeyClient, new_client: Callable[..., KeyClient]
) -> None:
    admin = new_client("acme", "admin")
    client.post("/api/v1/heartbeat/backup/ping")
    url = client.get("/api/v1/jobs/backup").json["ping_url"]
    assert url == client.get("/api/v1/jobs/backup").json["ping_url"]
    assert web.get(url).text == "OK"
    assert admin.patch("/api/v1/jobs/backup", json={"ping_uuid": None}).status_code == 200
    assert web.get(url).status_code == 404
    assert web.get(client.get("/api/v1/jobs/backup").json["ping_url"]).text == "OK"
    assert admin.patch("/api/v1/jobs/backup", json={"ping_uuid": ID.upper()}).status_code == 200
    assert web.get(f"/ping/{ID}").text == "OK"
    assert web.get(f"/ping/{ID.upper()}").text == "OK"
    assert admin.patch("/api/v1/jobs/backup", json={"ping_uuid": ID}).status_code == 200
    assert web.get(f"/ping/{ID}").text == "OK"


def test_a_key_that_may_not_send_heartbeats_does_not_see_the_ping_url(
    client: KeyClient, new_client: Callable[..., KeyClient]
) -> None:
    client.post("/api/v1/heartbeat/backup/ping")
    assert new_client("acme", "query:read").get("/api/v1/jobs/backup").json["ping_url"] is None


@pytest.mark.parametrize("uuid", ["", "backup", ID[:-1], ID.replace("-", ""), f"x{ID}", f"{ID}\n"])
def test_what_is_not_a_uuid_is_rejected(new_client: Callable[..., KeyClient], client: KeyClient, uuid: str) -> None:
    client.post("/api/v1/heartbeat/backup/ping")
    admin = new_client("acme", "admin")
    assert admin.patch("/api/v1/jobs/backup", json={"ping_uuid": uuid}).status_code == 422


def test_a_uuid_that_another_job_has_is_refused(new_client: Callable[..., KeyClient], web: FlaskClient) -> None:
    admin, stranger = new_client("acme", "admin"), new_client("globex", "admin")
    for each in (admin, stranger):
        for job in ("a", "b"):
            each.post(f"/api/v1/heartbeat/{job}/ping")
    assert admin.patch("/api/v1/jobs/a", json={"ping_uuid": ID}).status_code == 200
    assert admin.patch("/api/v1/jobs/b", json={"ping_uuid": ID}).status_code == 409
    assert stranger.patch("/api/v1/jobs/a", json={"ping_uuid": ID}).status_code == 409
    web.get(f"/ping/{ID}")
    assert admin.get("/api/v1/jobs/a").json["run_count"] == 2


@pytest.mark.parametrize(("job", "change", "status"), [("missing", {}, 404), ("a", {"name": "b"}, 409)])
def test_a_refused_change_leaves_the_uuid_to_others(
    new_client: Callable[..., KeyClient], job: str, change: dict[str, Any], status: int
) -> None:
    admin, stranger = new_client("acme", "admin"), new_client("globex", "admin")
    for each in (admin, stranger):
        for name in ("a", "b"):
            each.post(f"/api/v1/heartbeat/{name}/ping")
    assert admin.patch(f"/api/v1/jobs/{job}", json={"ping_uuid": ID, **change}).status_code == status
    assert stranger.patch("/api/v1/jobs/a", json={"ping_uuid": ID}).status_code == 200


def test_reading_a_job_while_nothing_can_be_written_claims_no_uuid(
    make_app: Callable[..., Flask], new_client: Callable[..., KeyClient]
) -> None:
    app = make_app(BUSY_SECONDS=0)
    client, tenancy = new_client("acme", app=app), services(app).tenancy
    client.post("/api/v1/heartbeat/backup/ping")
    with closing(sqlite3.connect(tenancy.databases.path(ACME), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert [client.get("/api/v1/jobs/backup").json["ping_url"] for _ in range(3)] == [None] * 3
    url = client.get("/api/v1/jobs/backup").json["ping_url"]
    with tenancy.control.read() as db:
        assert [url[-36:]] == list(store.ping_urls(db, 0)[0])


def test_a_ping_url_that_could_not_be_announced_is_announced_later(
    make_app: Callable[..., Flask], new_client: Callable[..., KeyClient]
) -> None:
    app = make_app(BUSY_SECONDS=0)
    client = new_client("acme", app=app)
    client.post("/api/v1/heartbeat/backup/ping")
    with closing(sqlite3.connect(services(app).tenancy.control.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert client.get("/api/v1/jobs/backup").json["ping_url"] is None
    url = client.get("/api/v1/jobs/backup").json["ping_url"]
    assert (app.test_client().get(url).text, client.get("/api/v1/jobs/backup").json["ping_url"]) == ("OK", url)


def test_a_ping_url_follows_its_job_through_renaming_and_ends_with_it(
    new_client: Callable[..., KeyClient], web: FlaskClient
) -> None:
    admin = new_client("acme", "admin")
    admin.post("/api/v1/heartbeat/backup/ping")
    url = admin.get("/api/v1/jobs/backup").json["ping_url"]
    admin.patch("/api/v1/jobs/backup", json={"name": "nightly"})
    web.get(url)
    assert admin.get("/api/v1/jobs/nightly").json["run_count"] == 2
    admin.delete("/api/v1/jobs/nightly")
    assert web.get(url).status_code == 404
    assert admin.get("/api/v1/jobs").json["jobs"] == []
