"""A request repeated with the same Idempotency-Key within 24 hours is one event and gets the first response."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import Clock, KeyClient
from tests.heartbeat.conftest import Sender

Rows = Callable[..., list[dict[str, Any]]]
KEY = {"Idempotency-Key": "7f3e"}


@pytest.mark.parametrize("kind", ["start", "log", "end", "ping"])
def test_a_request_repeated_with_its_key_is_one_event(send: Sender, rows: Rows, clock: Clock, kind: str) -> None:
    first = send(kind, headers=KEY, message="once")
    clock.advance(hours=23)
    again = send(kind, headers=KEY, message="once")
    assert (again.status_code, again.json) == (200, first.json)
    assert len(rows("SELECT id FROM events")) == 1
    assert rows("SELECT run_count FROM jobs") == [{"run_count": 0 if kind == "log" else 1}]


def test_the_first_response_is_repeated_after_the_run_ended(send: Sender) -> None:
    first = send("start", headers=KEY)
    send("end")
    assert send("start", headers=KEY).json == first.json


def test_a_key_expires_after_24_hours(send: Sender, rows: Rows, clock: Clock) -> None:
    first = send("ping", headers=KEY)
    clock.advance(hours=24, ms=-1)
    assert send("ping", headers=KEY).json["run_id"] == first.json["run_id"]
    clock.advance(ms=1)
    second = send("ping", headers=KEY)
    assert second.json["run_id"] != first.json["run_id"]
    clock.advance(hours=1)
    assert send("ping", headers=KEY).json == second.json
    assert len(rows("SELECT id FROM events")) == 2


def test_the_same_key_with_another_kind_or_job_is_another_event(send: Sender, rows: Rows) -> None:
    send("start", headers=KEY)
    send("end", headers=KEY)
    send("start", "restore", headers=KEY)
    assert [row["kind"] for row in rows("SELECT kind FROM events ORDER BY id")] == [0, 2, 0]


def test_the_same_key_of_another_organization_is_another_event(send: Sender, other_client: KeyClient) -> None:
    send("start", headers=KEY)
    other = Sender(other_client, send.form)
    other("start", headers=KEY)
    assert other_client.get("/api/v1/jobs/backup").json["run_count"] == 1


def test_both_forms_share_their_keys(by_path: Sender, by_body: Sender, rows: Rows) -> None:
    assert by_path("ping", headers=KEY).json == by_body("ping", headers=KEY).json
    assert len(rows("SELECT id FROM events")) == 1


def test_an_empty_key_is_ignored(send: Sender, rows: Rows) -> None:
    for _ in range(2):
        send("ping", headers={"Idempotency-Key": ""})
    assert len(rows("SELECT id FROM events")) == 2


def test_a_key_of_more_than_200_characters_is_rejected(send: Sender, rows: Rows) -> None:
    assert send("ping", headers={"Idempotency-Key": "k" * 200}).status_code == 200
    answer = send("ping", headers={"Idempotency-Key": "k" * 201})
    assert answer.status_code == 422
    assert "Idempotency-Key" in answer.json["errors"]["headers"]
    assert len(rows("SELECT id FROM events")) == 1


def test_a_rejected_request_does_not_use_up_its_key(send: Sender) -> None:
    assert send("end", headers=KEY, exit_code=256).status_code == 422
    assert send("end", headers=KEY, exit_code=0).status_code == 200
