"""Requests in both forms: fields, times, content types."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import Clock, KeyClient
from tests.heartbeat.conftest import BASE, Sender

Rows = Callable[..., list[dict[str, Any]]]
RunOf = Callable[..., dict[str, Any]]


def test_a_ping_can_be_sent_with_get(client: KeyClient, rows: Rows) -> None:
    answer = client.get(f"{BASE}/db/backup/ping?message=hello")
    assert answer.status_code == 200
    assert answer.json is not None
    assert (answer.json["job"], answer.json["event"], answer.json["run_status"]) == ("db/backup", "ping", "success")
    assert rows("SELECT message FROM events") == [{"message": "hello"}]


@pytest.mark.parametrize("kind", ["start", "log", "end", "ping"])
def test_an_unknown_field_is_rejected(send: Sender, rows: Rows, kind: str) -> None:
    answer = send(kind, message="m", exitcode=1)
    assert answer.status_code == 422
    place = "query" if send.form == "path" else "json"
    assert answer.json["errors"] == {place: {"exitcode": ["Unknown field."]}}
    assert "message" in answer.json["hint"]
    assert rows("SELECT * FROM jobs") == []


@pytest.mark.parametrize("kind", ["start", "log", "ping"])
@pytest.mark.parametrize("field", ["status", "exit_code", "duration_ms"])
def test_only_an_end_accepts_an_outcome(send: Sender, kind: str, field: str) -> None:
    outcome: dict[str, Any] = {field: "ok" if field == "status" else 1}
    assert send(kind, message="m", **outcome).status_code == 422


def test_a_repeated_parameter_is_rejected(client: KeyClient) -> None:
    answer = client.post(f"{BASE}/backup/end?status=ok&status=fail")
    assert answer.status_code == 422
    assert answer.json is not None
    assert answer.json["errors"] == {"query": {"status": ["Appears more than once."]}}


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", None])
def test_the_body_form_accepts_only_json(client: KeyClient, rows: Rows, content_type: str | None) -> None:
    answer = client.post(f"{BASE}/start", data=b'{"name": "backup"}', content_type=content_type)
    assert answer.status_code == 415
    assert rows("SELECT * FROM jobs") == []


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "application/vnd.x+json"])
def test_content_types_of_json(client: KeyClient, content_type: str) -> None:
    assert client.post(f"{BASE}/start", data=b'{"name": "backup"}', content_type=content_type).status_code == 200


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"nul", b"[]", b'"backup"', b"null", b'{"name": NaN}', b"\xff", b'{"a":' * 100_000, b"1" * 5_000],
)
def test_anything_but_a_json_object_is_rejected(client: KeyClient, body: bytes) -> None:
    answer = client.post(f"{BASE}/start", data=body, content_type="application/json")
    assert answer.status_code == 400
    assert answer.json is not None
    assert answer.json["error"] == "invalid_json"
    assert "sys." not in answer.json["message"]


def test_the_default_time_is_that_of_the_request(send: Sender, run_of: RunOf, clock: Clock) -> None:
    clock.advance(hours=1)
    answer = send("start")
    assert answer.json["time"] == "2026-06-21T11:00:00.000Z"


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("2026-06-21T09:58:00Z", "2026-06-21T09:58:00.000Z"),
        ("2026-06-21T11:58:00+02:00", "2026-06-21T09:58:00.000Z"),
        ("2026-06-21T09:58:00.1239", "2026-06-21T09:58:00.123Z"),
        ("2026-06-21T10:10:00Z", "2026-06-21T10:10:00.000Z"),
        ("2026-03-23T10:00:00Z", "2026-03-23T10:00:00.000Z"),
    ],
)
def test_a_client_can_send_the_time(send: Sender, run_of: RunOf, time: str, expected: str) -> None:
    answer = send("start", time=time)
    assert answer.json["time"] == expected
    run = run_of(answer)
    assert run["started_at"] == run["timeline"][0]["time"] == expected
    assert run["timeline"][0]["received_at"] == "2026-06-21T10:00:00.000Z"


@pytest.mark.parametrize(
    "time", ["2026-06-21T10:10:00.001Z", "2026-03-23T09:59:59.999Z", "yesterday", "", "-1h", "1969-12-31", "2026-02-30"]
)
def test_an_invalid_time_is_rejected(send: Sender, rows: Rows, time: str) -> None:
    answer = send("start", time=time)
    assert answer.status_code == 422
    assert "time" in answer.json["errors"]["query" if send.form == "path" else "json"]
    assert rows("SELECT * FROM jobs") == []


def test_the_oldest_time_follows_the_retention_period(make_app: Any, new_client: Any) -> None:
    client = new_client("acme", app=make_app(RUN_RETENTION_DAYS=1))
    answer = client.post(f"{BASE}/backup/ping?time=2026-06-20T09:59:59Z")
    assert answer.status_code == 422
    assert "2026-06-20T10:00:00.000Z" in answer.json["hint"]
    assert client.post(f"{BASE}/backup/ping?time=2026-06-20T10:00:00Z").status_code == 200


@pytest.mark.parametrize("time", [7, True, ["2026-06-21"]])
def test_a_time_in_json_must_be_text(by_body: Sender, time: Any) -> None:
    assert by_body("ping", time=time).status_code == 422


def test_an_old_heartbeat_does_not_change_the_time_of_the_last_one(send: Sender, client: KeyClient) -> None:
    send("ping")
    send("ping", time="2026-06-21T09:00:00Z")
    job = client.get("/api/v1/jobs/backup").json
    assert job is not None
    assert job["last_heartbeat_at"] == "2026-06-21T10:00:00.000Z"
