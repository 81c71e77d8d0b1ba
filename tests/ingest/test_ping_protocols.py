"""The protocols of other monitors over HTTP: pings of Healthchecks, pushes of Uptime Kuma, check-ins of Sentry."""

import gzip
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from obs.services import services
from obs.tenancy import service, store
from tests.conftest import ACME, Clock, KeyClient

Rows = Callable[..., list[dict[str, Any]]]
ID = "6ba7b810-9dad-41d1-80b4-00c04fd430c8"
OTHER_ID = "6ba7b811-9dad-41d1-80b4-00c04fd430c8"
RUNS = "SELECT status, exit_code, duration_ms, run_id FROM runs ORDER BY id"
LOG = "SELECT kind, message FROM events ORDER BY id"


@pytest.fixture
def web(app: Flask) -> FlaskClient:
    """A client without a key."""
    return app.test_client()


@pytest.fixture
def ping_key(app: Flask, client: KeyClient) -> str:
    return service.create_key(services(app).tenancy, ACME, "pings", ["ping"]).key


@pytest.fixture
def ping_url(client: KeyClient) -> str:
    """The path of the ping URL of the job ``backup``, which has one run."""
    client.post("/api/v1/heartbeat/backup/ping")
    url: str = client.get("/api/v1/jobs/backup").json["ping_url"]
    return url[url.index("/ping/") :]


def name_and_statuses(rows: Rows) -> list[tuple[str, int]]:
    found = rows("SELECT name, status FROM runs JOIN jobs ON jobs.id = job_id ORDER BY runs.id")
    return [(row["name"], row["status"]) for row in found]


# Healthchecks


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "OPTIONS", "BREW"])
@pytest.mark.parametrize("slash", ["", "/"])
def test_a_ping_with_a_ping_key_creates_the_job_and_records_a_run(
    web: FlaskClient, ping_key: str, rows: Rows, method: str, slash: str
) -> None:
    first = web.open(f"/ping/{ping_key}/backup{slash}?create=1", method=method)
    second = web.open(f"/ping/{ping_key}/backup{slash}", method=method)
    assert (first.status_code, second.status_code) == (201, 200)
    assert [first.text, second.text] == (["", ""] if method == "HEAD" else ["Created", "OK"])
    for response in (first, second):
        assert response.mimetype == "text/plain"
        assert response.headers["Ping-Body-Limit"] == "100000"
        assert response.headers["Access-Control-Allow-Origin"] == "*"
        assert response.headers["Cache-Control"] == "no-store"
    assert name_and_statuses(rows) == [("backup", 1), ("backup", 1)]


@pytest.mark.parametrize(
    ("action", "status", "exit_code"), [("", 1, None), ("/fail", 2, None), ("/0", 1, 0), ("/255", 2, 255)]
)
def test_an_end_records_a_run_or_ends_the_run_that_was_started(
    web: FlaskClient, ping_url: str, rows: Rows, clock: Clock, action: str, status: int, exit_code: int | None
) -> None:
    assert web.get(f"{ping_url}{action}").text == "OK"
    assert web.get(f"{ping_url}/start/").text == "OK"
    clock.advance(seconds=90)
    assert web.get(f"{ping_url}{action}").text == "OK"
    one = {"status": status, "exit_code": exit_code, "run_id": None}
    assert rows(RUNS)[1:] == [{**one, "duration_ms": None}, {**one, "duration_ms": 90_000}]


@pytest.mark.parametrize("start", [ID, ID.upper(), ID.replace("-", "")])
def test_runs_with_ids_overlap_and_repeated_calls_count_once(
    web: FlaskClient, ping_url: str, rows: Rows, start: str
) -> None:
    for path in (f"/start?rid={start}", f"/start?rid={OTHER_ID}", f"?rid={ID}", f"?rid={ID}", f"/fail?rid={OTHER_ID}"):
        assert web.get(ping_url + path).status_code == 200
    assert [(row["run_id"], row["status"]) for row in rows(RUNS)[1:]] == [(ID, 1), (OTHER_ID, 2)]


def test_the_body_is_the_log_of_the_run_whatever_its_type(web: FlaskClient, ping_url: str, rows: Rows) -> None:
    web.post(f"{ping_url}/start")
    web.post(f"{ping_url}/log", data="copying", content_type="application/json")
    web.post(f"{ping_url}/log")
    web.post(f"{ping_url}/1", data=b"no space \xff", content_type="text/plain; charset=unknown")
    assert rows(LOG)[1:] == [
        {"kind": 0, "message": None},
        {"kind": 1, "message": "copying"},
        {"kind": 1, "message": None},
        {"kind": 2, "message": "no space \ufffd"},
    ]


@pytest.mark.parametrize("started", [True, False])
def test_a_long_body_is_split_at_the_ends_of_lines_into_messages_of_its_run(
    web: FlaskClient, ping_url: str, rows: Rows, started: bool
) -> None:
    if started:
        web.get(f"{ping_url}/start")
    body = "".join(f"line {number} is ä{'x' * 90}\n" for number in range(300))
    assert web.post(ping_url, data=body.encode()).status_code == 200
    events = rows("SELECT run_id, message FROM events WHERE message IS NOT NULL ORDER BY id")
    assert "".join(event["message"] for event in events) == body
    assert len(events) > 2
    assert all(event["message"].endswith("\n") and len(event["message"].encode()) <= 10240 for event in events)
    assert {event["run_id"] for event in events} == {2}


def test_a_line_that_is_too_long_is_split_between_characters(web: FlaskClient, ping_url: str, rows: Rows) -> None:
    web.post(ping_url, data=("x" + "€" * 10_000).encode())
    found = rows("SELECT message FROM events WHERE message IS NOT NULL ORDER BY id")
    assert "".join(event["message"] for event in found) == "x" + "€" * 10_000


@pytest.mark.parametrize("size", [100_000, 100_001, 5_000_000])
def test_of_a_body_that_is_too_long_the_end_is_kept(web: FlaskClient, ping_url: str, rows: Rows, size: int) -> None:
    assert web.post(f"{ping_url}/fail", data=b"a" * (size - 5) + b"error").status_code == 200
    text = "".join(row["message"] for row in rows("SELECT message FROM events WHERE message IS NOT NULL ORDER BY id"))
    note = f"(The first {size - 100_000:,} bytes were left out.)\n" if size > 100_000 else ""
    assert text == note + "a" * 99_995 + "error"


@pytest.mark.parametrize("path", ["/256", "/1000", "/begin", "/start/start", "?rid=1", f"/start?rid={ID}0"])
def test_an_invalid_url_is_rejected_and_nothing_recorded(
    web: FlaskClient, ping_url: str, rows: Rows, path: str
) -> None:
    response = web.post(ping_url + path, data="output")
    assert (response.status_code, response.text) == (400, "invalid url format")
    assert len(rows("SELECT id FROM events")) == 1


@pytest.mark.parametrize("path", [f"/ping/{ID}", f"/ping/{ID}/start", "/ping/wrong/backup", f"/ping/{'0' * 32}/backup"])
def test_an_unknown_uuid_or_key_is_not_found(web: FlaskClient, ping_url: str, rows: Rows, path: str) -> None:
    response = web.get(path)
    assert (response.status_code, response.text) == (404, "not found")
    assert len(rows("SELECT id FROM events")) == 1


def test_names_in_paths_may_contain_slashes_and_any_script(web: FlaskClient, ping_key: str, rows: Rows) -> None:
    for name in ("db/main", "größe", "db/main/start", "0", "start"):
        assert web.get(f"/ping/{ping_key}/{name}").status_code in (200, 201)
    assert name_and_statuses(rows) == [("db/main", 1), ("größe", 1), ("db/main", 0), ("0", 1), ("start", 1)]
    assert web.get(f"/ping/{ping_key}/").status_code == 400
    assert web.get(f"/ping/{ping_key}/%00x").status_code == 400


def test_a_ping_key_can_do_nothing_else_and_other_keys_cannot_be_sent_in_urls(
    app: Flask, web: FlaskClient, ping_key: str, client: KeyClient, new_client: Callable[..., KeyClient]
) -> None:
    for path in ("/api/v1/heartbeat/backup/ping", "/api/v1/jobs", "/api/v1/keys", "/api/v1/annotations"):
        assert web.get(path, headers={"X-API-Key": ping_key}).status_code == 403
    assert web.get(f"/ping/{client.key}/backup").status_code == 404
    assert web.get(f"/ping/{new_client('acme', 'admin').key}/backup").status_code == 404
    admin = new_client("acme", "admin")
    refused = admin.post("/api/v1/keys", json={"label": "both", "scopes": ["ping", "query:read"]})
    assert refused.status_code == 422
    made = admin.post("/api/v1/keys", json={"label": "pings", "scopes": ["ping"]}).json
    assert web.get(f"/ping/{made['key']}/backup").status_code == 201
    admin.delete(f"/api/v1/keys/{made['id']}")
    assert web.get(f"/ping/{made['key']}/backup").status_code == 404


def test_wrong_urls_are_limited_like_wrong_keys(make_app: Callable[..., Flask]) -> None:
    web = make_app(WRONG_KEYS_PER_MINUTE=3).test_client()
    statuses = [web.get(f"/ping/{ID}").status_code for _ in range(4)]
    assert statuses == [404, 404, 404, 429]


def test_the_ingest_address_of_another_organization_does_not_know_the_job(
    web: FlaskClient, ping_url: str, ping_key: str, other_client: KeyClient
) -> None:
    assert web.get(f"/in/acme{ping_url}").status_code == 200
    assert web.get(f"/in/globex{ping_url}").status_code == 404
    assert web.get(f"/in/globex/ping/{ping_key}/backup").status_code == 404


def test_heartbeats_beyond_the_quota_are_refused_as_clients_understand(
    make_app: Callable[..., Flask], new_client: Callable[..., KeyClient]
) -> None:
    app = make_app(MAX_HEARTBEATS_PER_MINUTE=3)
    new_client("acme", app=app)
    key = service.create_key(services(app).tenancy, ACME, "pings", ["ping"]).key
    web = app.test_client()
    responses = [web.post(f"/ping/{key}/backup", data=b"x" * 15_000) for _ in range(2)]
    assert [response.status_code for response in responses] == [201, 429]
    assert int(responses[1].headers["Retry-After"]) > 0


# The UUID of a job


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


# Uptime Kuma


@pytest.mark.parametrize("method", ["GET", "POST", "HEAD", "PUT"])
def test_a_push_is_a_run_with_its_log_and_its_duration(
    web: FlaskClient, ping_url: str, rows: Rows, method: str
) -> None:
    uuid = ping_url.rpartition("/")[2]
    up = web.open(f"/api/push/{uuid}?status=up&msg=OK&ping=123.4", method=method)
    down = web.open(f"/api/push/{uuid}?status=down&msg=no%20spa%C3%A7e&ping=", method=method)
    assert (up.status_code, down.status_code) == (200, 200)
    if method != "HEAD":
        assert json.loads(up.text) == {"ok": True}
    found = rows("SELECT status, duration_ms FROM runs WHERE id > 1 ORDER BY id")
    assert found == [{"status": 1, "duration_ms": 123}, {"status": 2, "duration_ms": None}]
    assert [row["message"] for row in rows(LOG)[1:]] == ["OK", "no spaçe"]


@pytest.mark.parametrize("token", [ID, "IzSDQwlqh0", "", "x/y"])
def test_an_unknown_push_url_is_not_found(web: FlaskClient, ping_key: str, token: str) -> None:
    for path in (f"/api/push/{token}", f"/api/push/{ping_key}"):
        response = web.get(path)
        assert response.status_code == 404
        assert json.loads(response.text)["ok"] is False


# Sentry


def envelope(*items: tuple[str, dict[str, Any]], lengths: bool = True) -> bytes:
    lines = [b'{"sent_at": "2026-06-21T10:00:00Z"}']
    for kind, payload in items:
        body = json.dumps(payload).encode()
        lines += [json.dumps({"type": kind, **({"length": len(body)} if lengths else {})}).encode(), body]
    return b"\n".join(lines)


@pytest.fixture
def send(web: FlaskClient, ping_key: str) -> Callable[..., TestResponse]:
    """Sends an envelope of items, compressed or not."""

    def post(*items: tuple[str, dict[str, Any]], compressed: bool = True, lengths: bool = True) -> TestResponse:
        body = envelope(*items, lengths=lengths)
        headers = {"X-Sentry-Auth": f"Sentry sentry_key={ping_key}, sentry_version=7, sentry_client=test/1"}
        if compressed:
            body, headers["Content-Encoding"] = gzip.compress(body), "gzip"
        return web.post("/api/1/envelope/", data=body, headers=headers, content_type="application/x-sentry-envelope")

    return post


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("lengths", [True, False])
def test_check_ins_are_a_run(
    send: Callable[..., TestResponse], rows: Rows, clock: Clock, compressed: bool, lengths: bool
) -> None:
    check_in = {"monitor_slug": "nightly", "check_in_id": ID.replace("-", ""), "status": "in_progress"}
    other = ("event", {"message": "an error\nin two lines"})
    assert send(other, ("check_in", check_in), compressed=compressed, lengths=lengths).status_code == 200
    clock.advance(seconds=5)
    ended = {**check_in, "status": "error", "duration": 4.5, "environment": "production"}
    assert send(("check_in", ended), other, compressed=compressed, lengths=lengths).text == "{}"
    send(("check_in", ended))
    run_id = ID.replace("-", "")
    assert rows(RUNS) == [{"status": 2, "exit_code": None, "duration_ms": 4500, "run_id": run_id}]


def test_an_environment_other_than_production_is_a_job_of_its_own(
    send: Callable[..., TestResponse], rows: Rows
) -> None:
    send(*[("check_in", {"monitor_slug": "mail", "status": "ok", "environment": env}) for env in ("", "staging")])
    assert name_and_statuses(rows) == [("mail", 1), ("mail@staging", 1)]


def test_one_invalid_check_in_rejects_the_whole_envelope(send: Callable[..., TestResponse], rows: Rows) -> None:
    valid: dict[str, Any] = {"monitor_slug": "mail", "status": "ok"}
    changes: list[dict[str, Any]] = [
        {"status": "fine"},
        {"status": []},
        {"monitor_slug": ""},
        {"monitor_slug": None},
        {"check_in_id": "1"},
        {"check_in_id": 1},
        {"monitor_slug": None, "environment": "staging"},
        {"monitor_slug": "", "environment": "staging"},
        {"environment": "\n"},
    ]
    for change in changes:
        assert send(("check_in", valid), ("check_in", {**valid, **change})).status_code == 400, change
    assert send(("check_in", [])).status_code == 400
    assert rows("SELECT * FROM jobs") == []


@pytest.mark.parametrize(
    "about",
    [
        {"duration": "long"},
        {"duration": -1},
        {"duration": 10**400},
        {"duration": []},
        {"duration": 32 * 86_400},
        {"monitor_config": "daily"},
        {"monitor_config": {"schedule": "0 3 * * *"}},
        {"monitor_config": {"schedule": {"type": "crontab", "value": "every day"}}},
        {"monitor_config": {"schedule": {"type": "crontab", "value": "0 3 * * *"}, "timezone": "Europe/Atlantis"}},
        {"monitor_config": {"schedule": {"type": "crontab", "value": "0 3 * * *"}, "checkin_margin": 10**9}},
        {"monitor_config": {"schedule": {"type": "interval", "value": 1, "unit": "century"}}},
    ],
)
def test_a_check_in_counts_although_its_duration_or_schedule_is_invalid(
    send: Callable[..., TestResponse], client: KeyClient, clock: Clock, about: dict[str, Any]
) -> None:
    send(("check_in", {"monitor_slug": "mail", "status": "in_progress"}))
    clock.advance(seconds=7)
    assert send(("check_in", {"monitor_slug": "mail", "status": "ok", **about})).status_code == 200
    job = client.get("/api/v1/jobs/mail").json
    assert (job["last_outcome"], job["last_duration_ms"], job["pin"]) == ("success", 7000, None)


def test_a_wrong_key_is_rejected(web: FlaskClient, client: KeyClient, rows: Rows) -> None:
    body = envelope(("check_in", {"monitor_slug": "mail", "status": "ok"}))
    for key in ("0" * 32, client.key, ""):
        headers = {"X-Sentry-Auth": f"Sentry sentry_key={key}"}
        assert web.post("/api/1/envelope/", data=body, headers=headers).status_code == 403
    assert web.post("/api/1/envelope/", data=body).status_code == 403
    assert rows("SELECT * FROM jobs") == []


def test_the_uuid_of_a_job_is_no_key_for_check_ins_of_other_jobs(web: FlaskClient, ping_url: str, rows: Rows) -> None:
    uuid = ping_url.rpartition("/")[2]
    assert web.get(f"/api/1/cron/other/{uuid}/?status=ok").status_code == 403
    body = envelope(("check_in", {"monitor_slug": "backup", "status": "error"}))
    for headers in ({"X-Sentry-Auth": f"Sentry sentry_key={uuid}"}, {"X-Sentry-Auth": f"sentry_key={uuid.upper()}"}):
        assert web.post("/api/1/envelope/", data=body, headers=headers).status_code == 403
    assert name_and_statuses(rows) == [("backup", 1)]


def test_check_ins_by_url(web: FlaskClient, ping_key: str, rows: Rows) -> None:
    base = f"/api/1/cron/nightly/{ping_key}"
    assert web.get(f"{base}/?status=in_progress&check_in_id={ID}").status_code == 200
    assert web.get(f"{base}?status=ok&check_in_id={ID}&duration=2").status_code == 200
    assert web.post(f"{base}/?environment=dev", json={"status": "error", "check_in_id": "0" * 32}).status_code == 200
    assert web.post(f"{base}/", data="[]").status_code == 400
    assert web.get(f"/api/1/cron/nightly/{'0' * 32}/?status=ok").status_code == 403
    assert web.put(f"{base}/?status=ok").status_code == 405
    assert name_and_statuses(rows) == [("nightly", 1), ("nightly@dev", 2)]
    assert [(row["duration_ms"], row["run_id"]) for row in rows(RUNS)] == [(2000, ID.replace("-", "")), (None, None)]


@pytest.mark.parametrize(
    ("config", "pin"),
    [
        (
            {"schedule": {"type": "crontab", "value": "0 3 * * *"}, "timezone": "Europe/Berlin", "checkin_margin": 5},
            {"cron": "0 3 * * *", "timezone": "Europe/Berlin", "grace_seconds": 300},
        ),
        (
            {"schedule": {"type": "interval", "value": 2, "unit": "hour"}},
            {"interval_seconds": 7200, "grace_seconds": 60},
        ),
    ],
)
def test_a_schedule_of_the_monitor_is_a_pin_unless_a_person_has_set_one(
    send: Callable[..., TestResponse], new_client: Callable[..., KeyClient], config: dict[str, Any], pin: dict[str, Any]
) -> None:
    admin = new_client("acme", "admin")
    check_in = {"monitor_slug": "nightly", "status": "ok", "monitor_config": config}
    send(("check_in", check_in))
    assert admin.get("/api/v1/jobs/nightly").json["pin"] == pin
    for mine in ({"interval_seconds": 60, "grace_seconds": 1}, None):
        admin.patch("/api/v1/jobs/nightly", json={"pin": mine})
        send(("check_in", check_in))
        assert admin.get("/api/v1/jobs/nightly").json["pin"] == mine
