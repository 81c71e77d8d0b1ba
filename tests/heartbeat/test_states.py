"""The states of a run as a client meets them, in both path forms: the answer, the row and the timeline."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import Clock, KeyClient
from tests.heartbeat.conftest import Sender

Rows = Callable[..., list[dict[str, Any]]]
RunOf = Callable[..., dict[str, Any]]
OPEN, SUCCESS, FAILED, LOST = range(4)


def _kinds(run: dict[str, Any]) -> list[str]:
    return [event["kind"] for event in run["timeline"]]


def _job(client: KeyClient, name: str = "backup") -> dict[str, Any]:
    answer = client.get(f"/api/v1/jobs/{name}")
    assert isinstance(answer.json, dict)
    return answer.json


def test_start_opens_a_run(send: Sender, run_of: RunOf, client: KeyClient) -> None:
    answer = send("start")
    assert answer.status_code == 200
    number = answer.json["run_id"]
    assert answer.json == {
        "job": "backup",
        "event": "start",
        "run_id": number,
        "run_status": "open",
        "time": "2026-06-21T10:00:00.000Z",
    }
    run = run_of(answer)
    assert (run["status"], run["started_at"]) == ("open", "2026-06-21T10:00:00.000Z")
    assert (run["ended_at"], run["duration_ms"], run["exit_code"]) == (None, None, None)
    assert _kinds(run) == ["start"]
    assert _job(client)["status"] == "running"
    assert _job(client)["run_count"] == 1


def test_start_while_a_run_is_open_gives_that_run_up(
    send: Sender, run_of: RunOf, client: KeyClient, clock: Clock
) -> None:
    first = send("start")
    clock.advance(hours=1)
    second = send("start")
    assert second.json["run_id"] != first.json["run_id"]
    assert second.json["run_status"] == "open"
    assert run_of(first)["status"] == "lost"
    assert _kinds(run_of(first)) == ["start"]
    assert run_of(second)["status"] == "open"
    assert (_job(client)["last_outcome"], _job(client)["run_count"]) == ("lost", 2)
    assert _job(client)["status"] == "lost"


def test_log_without_a_run_makes_none(send: Sender, rows: Rows) -> None:
    answer = send("log", message="hello")
    assert (answer.status_code, answer.json["run_id"], answer.json["run_status"]) == (200, None, None)
    assert rows("SELECT * FROM runs") == []
    assert rows("SELECT run_id, kind, message FROM events") == [{"run_id": None, "kind": 1, "message": "hello"}]


def test_log_belongs_to_the_open_run(send: Sender, run_of: RunOf, clock: Clock) -> None:
    started = send("start")
    clock.advance(seconds=1)
    answer = send("log", message="halfway")
    assert (answer.json["run_id"], answer.json["run_status"]) == (started.json["run_id"], "open")
    run = run_of(started)
    assert [(event["kind"], event["message"]) for event in run["timeline"]] == [("start", None), ("log", "halfway")]
    assert run["timeline"][1]["time"] == run["timeline"][1]["received_at"] == "2026-06-21T10:00:01.000Z"


@pytest.mark.parametrize(("status", "expected"), [("ok", "success"), ("fail", "failed")])
def test_end_closes_the_open_run(
    send: Sender, run_of: RunOf, client: KeyClient, clock: Clock, status: str, expected: str
) -> None:
    started = send("start")
    clock.advance(seconds=90)
    answer = send("end", status=status, exit_code=3)
    assert (answer.status_code, answer.json["event"], answer.json["run_status"]) == (200, "end", expected)
    assert answer.json["run_id"] == started.json["run_id"]
    run = run_of(started)
    assert (run["status"], run["exit_code"], run["duration_ms"]) == (expected, 3, 90_000)
    assert run["ended_at"] == "2026-06-21T10:01:30.000Z"
    assert _kinds(run) == ["start", "end"]
    job = _job(client)
    assert (job["last_outcome"], job["run_count"], job["avg_duration_ms"]) == (
        expected,
        1,
        90_000.0 if status == "ok" else None,
    )


def test_end_without_a_run_records_a_closed_one(send: Sender, run_of: RunOf, client: KeyClient) -> None:
    answer = send("end", duration_ms=60_000)
    run = run_of(answer)
    assert (run["status"], run["duration_ms"]) == ("success", 60_000)
    assert (run["started_at"], run["ended_at"]) == ("2026-06-21T09:59:00.000Z", "2026-06-21T10:00:00.000Z")
    assert _kinds(run) == ["end"]
    assert _job(client)["run_count"] == 1


def test_end_without_a_run_nor_a_duration_has_none(send: Sender, run_of: RunOf, client: KeyClient) -> None:
    run = run_of(send("end", status="fail"))
    assert (run["status"], run["duration_ms"], run["started_at"]) == ("failed", None, "2026-06-21T10:00:00.000Z")
    assert _job(client)["avg_duration_ms"] is None


def test_a_second_end_is_a_second_run(send: Sender, clock: Clock) -> None:
    send("start")
    first = send("end")
    assert send("end").json["run_id"] != first.json["run_id"]


def test_ping_without_a_run_is_a_whole_run(send: Sender, run_of: RunOf, client: KeyClient) -> None:
    answer = send("ping")
    assert (answer.json["event"], answer.json["run_status"]) == ("ping", "success")
    run = run_of(answer)
    assert (run["status"], run["duration_ms"], run["exit_code"]) == ("success", None, None)
    assert run["started_at"] == run["ended_at"] == "2026-06-21T10:00:00.000Z"
    assert _kinds(run) == ["ping"]
    assert _job(client)["last_outcome"] == "success"


def test_ping_is_a_sign_of_life_of_the_open_run(send: Sender, run_of: RunOf, rows: Rows, clock: Clock) -> None:
    started = send("start")
    clock.advance(minutes=5)
    answer = send("ping", message="still here")
    assert (answer.json["run_id"], answer.json["run_status"]) == (started.json["run_id"], "open")
    assert _kinds(run_of(started)) == ["start", "ping"]
    assert len(rows("SELECT id FROM runs")) == 1


def test_every_ping_counts(send: Sender, rows: Rows) -> None:
    numbers = {send("ping").json["run_id"] for _ in range(3)}
    assert len(numbers) == 3
    assert rows("SELECT run_count FROM jobs") == [{"run_count": 3}]


def test_messages_of_end_and_ping_stay_on_the_timeline(send: Sender, run_of: RunOf) -> None:
    assert run_of(send("ping", message="one"))["timeline"][0]["message"] == "one"
    send("start")
    assert run_of(send("end", message="two"))["timeline"][-1]["message"] == "two"


def test_an_end_after_the_run_was_given_up_is_a_run_of_its_own(
    send: Sender, run_of: RunOf, clock: Clock, sweep: Callable[[], None]
) -> None:
    started = send("start")
    clock.advance(days=7)
    sweep()
    assert run_of(started)["status"] == "lost"
    assert send("end").json["run_id"] != started.json["run_id"]
    assert run_of(started)["status"] == "lost"


def test_heartbeats_of_other_jobs_and_organizations_are_nothing_to_a_run(
    send: Sender, run_of: RunOf, other_client: KeyClient
) -> None:
    started = send("start")
    send("end", "restore")
    Sender(other_client, send.form)("end", "backup")
    assert run_of(started)["status"] == "open"


def test_the_answer_is_not_cached(send: Sender) -> None:
    assert send("ping").headers["Cache-Control"] == "no-store"
