"""Pings of Healthchecks: what their URLs and bodies mean, and what is refused."""

from collections.abc import Callable

import pytest
from flask import Flask
from flask.testing import FlaskClient

from obs.services import services
from obs.tenancy import service
from tests.conftest import ACME, Clock, KeyClient
from tests.ingest.conftest import ID, LOG, RUNS, Rows, name_and_statuses

OTHER_ID = "6ba7b811-9dad-41d1-80b4-00c04fd430c8"


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


@pytest.mark.parametrize("status", ["256", "1000", "-1", "3221225477"])
def test_an_exit_status_out_of_range_is_not_a_name(
    web: FlaskClient, ping_key: str, ping_url: str, rows: Rows, status: str
) -> None:
    for url in (ping_url, f"/ping/{ping_key}/backup"):
        response = web.get(f"{url}/{status}")
        assert (response.status_code, response.text) == (400, "invalid url format")
    assert len(rows("SELECT id FROM events")) == 1


@pytest.mark.parametrize("action", ["start", "fail", "log", "1"])
def test_a_job_without_a_name_is_not_named_after_what_happened(
    web: FlaskClient, ping_key: str, rows: Rows, action: str
) -> None:
    """As where a variable of a script is empty: /ping/KEY/$JOB/fail."""
    response = web.get(f"/ping/{ping_key}//{action}")
    assert (response.status_code, response.text) == (400, "invalid url format")
    assert rows("SELECT id FROM jobs WHERE name LIKE '/%'") == []


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
