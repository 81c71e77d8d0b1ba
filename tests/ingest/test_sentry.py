"""Check-ins of Sentry, in envelopes and by URL, with the schedule of their monitor."""

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from tests.conftest import Clock, KeyClient
from tests.ingest.conftest import ID, RUNS, Rows, name_and_statuses


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


def test_an_envelope_of_many_items_is_read_in_one_pass(web: FlaskClient, ping_key: str, rows: Rows) -> None:
    last = envelope(("check_in", {"monitor_slug": "mail", "status": "ok"})).partition(b"\n")[2]
    body = b"{}\n" + b"{}\n\n" * 250_000 + last
    headers = {"X-Sentry-Auth": f"Sentry sentry_key={ping_key}"}
    assert web.post("/api/1/envelope/", data=body, headers=headers).status_code == 200
    assert name_and_statuses(rows) == [("mail", 1)]


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
    raw = {"QUERY_STRING": "status=ok&environment=prüfung".encode().decode("latin-1")}
    assert web.get(base, environ_overrides=raw).status_code == 200
    assert name_and_statuses(rows)[-1] == ("nightly@prüfung", 1)


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
