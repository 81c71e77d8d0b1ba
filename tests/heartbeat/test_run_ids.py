"""Runs that the client names itself: they overlap, and a repeated start or end is one event."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import Clock, KeyClient
from tests.heartbeat.conftest import Sender

Rows = Callable[..., list[dict[str, Any]]]
RunOf = Callable[..., dict[str, Any]]


def _kinds(run: dict[str, Any]) -> list[str]:
    return [event["kind"] for event in run["timeline"]]


def test_runs_with_ids_go_on_side_by_side(send: Sender, run_of: RunOf, clock: Clock) -> None:
    a, b = send("start", run_id="a"), send("start", run_id="b")
    without = send("start")
    assert [run_of(answer)["status"] for answer in (a, b, without)] == ["open"] * 3
    clock.advance(minutes=1)
    send("log", run_id="a", message="of a")
    send("end", run_id="b", status="fail")
    send("ping", run_id="a")
    send("end")
    assert [run_of(answer)["status"] for answer in (a, b, without)] == ["open", "failed", "success"]
    assert _kinds(run_of(a)) == ["start", "log", "ping"]
    assert _kinds(run_of(b)) == _kinds(run_of(without)) == ["start", "end"]
    assert run_of(a)["run_id"] == "a"


def test_a_run_id_is_the_jobs_own(send: Sender, run_of: RunOf) -> None:
    first = send("start", "one", run_id="a")
    second = send("start", "two", run_id="a")
    assert first.json["run_id"] != second.json["run_id"]
    send("end", "two", run_id="a")
    assert run_of(first)["status"] == "open"


@pytest.mark.parametrize("kind", ["start", "end"])
def test_a_repeated_start_or_end_gets_the_first_answer(send: Sender, rows: Rows, clock: Clock, kind: str) -> None:
    first = send(kind, run_id="a")
    clock.advance(minutes=3)
    again = send(kind, run_id="a")
    assert (again.status_code, again.json) == (200, first.json)
    assert len(rows("SELECT id FROM events")) == len(rows("SELECT id FROM runs")) == 1


def test_a_repeated_end_changes_nothing(send: Sender, run_of: RunOf, client: KeyClient, clock: Clock) -> None:
    send("start", run_id="a")
    clock.advance(minutes=1)
    first = send("end", run_id="a", exit_code=1)
    before, job_before = run_of(first), client.get("/api/v1/jobs/backup").json
    clock.advance(minutes=1)
    assert send("end", run_id="a", exit_code=0, status="ok").json == first.json
    assert run_of(first) == before
    assert client.get("/api/v1/jobs/backup").json == job_before


def test_a_repeated_start_of_a_run_that_ended_gets_the_first_answer(send: Sender, run_of: RunOf) -> None:
    first = send("start", run_id="a")
    send("end", run_id="a")
    assert send("start", run_id="a").json == first.json
    assert run_of(first)["status"] == "success"


def test_log_and_ping_with_a_run_id_count_each_time(send: Sender, run_of: RunOf) -> None:
    started = send("start", run_id="a")
    for _ in range(2):
        send("log", run_id="a", message="again")
        send("ping", run_id="a")
    assert _kinds(run_of(started)) == ["start", "log", "ping", "log", "ping"]


def test_an_end_before_its_start(send: Sender, run_of: RunOf, client: KeyClient, clock: Clock) -> None:
    """The start may be late: then it tells when the run began, and the run stays closed."""
    clock.advance(minutes=10)
    ended = send("end", run_id="a", status="fail")
    assert run_of(ended)["duration_ms"] is None
    started = send("start", run_id="a", time="2026-06-21T10:08:00Z")
    assert started.json["run_id"] == ended.json["run_id"]
    assert started.json["run_status"] == "failed"
    run = run_of(ended)
    assert (run["status"], run["started_at"], run["duration_ms"]) == ("failed", "2026-06-21T10:08:00.000Z", 120_000)
    assert _kinds(run) == ["start", "end"]
    job = client.get("/api/v1/jobs/backup").json
    assert job is not None
    assert (job["run_count"], job["last_outcome"], job["avg_duration_ms"]) == (1, "failed", None)
    assert send("start", run_id="a").json == started.json


def test_an_end_before_its_start_keeps_the_duration_it_reported(send: Sender, run_of: RunOf, clock: Clock) -> None:
    ended = send("end", run_id="a", duration_ms=5_000)
    clock.advance(seconds=1)
    send("start", run_id="a", time="2026-06-21T09:00:00Z")
    run = run_of(ended)
    assert (run["duration_ms"], run["started_at"]) == (5_000, "2026-06-21T09:59:55.000Z")


def test_a_start_that_comes_and_says_it_was_after_the_end_moves_nothing(
    send: Sender, run_of: RunOf, clock: Clock
) -> None:
    ended = send("end", run_id="a")
    clock.advance(seconds=1)
    send("start", run_id="a")
    run = run_of(ended)
    assert run["started_at"] == run["ended_at"] == "2026-06-21T10:00:00.000Z"


def test_a_run_given_up_can_still_say_how_it_went(
    send: Sender, run_of: RunOf, client: KeyClient, clock: Clock, sweep: Callable[[], None]
) -> None:
    started = send("start", run_id="a")
    clock.advance(days=7)
    sweep()
    assert run_of(started)["status"] == "lost"
    assert client.get("/api/v1/jobs/backup").json["last_outcome"] == "lost"
    clock.advance(hours=1)
    ended = send("end", run_id="a")
    assert (ended.json["run_id"], ended.json["run_status"]) == (started.json["run_id"], "success")
    run = run_of(started)
    assert (run["status"], run["duration_ms"]) == ("success", (7 * 24 + 1) * 3_600_000)
    assert client.get("/api/v1/jobs/backup").json["last_outcome"] == "success"


def test_log_of_a_run_that_ended_stands_on_its_timeline(send: Sender, run_of: RunOf) -> None:
    send("start", run_id="a")
    ended = send("end", run_id="a")
    late = send("log", run_id="a", message="cleaned up")
    assert (late.json["run_id"], late.json["run_status"]) == (ended.json["run_id"], "success")
    assert _kinds(run_of(ended)) == ["start", "end", "log"]


def test_log_with_an_unknown_run_id_stands_alone(send: Sender, rows: Rows) -> None:
    send("start")
    answer = send("log", run_id="unknown", message="hello")
    assert (answer.json["run_id"], answer.json["run_status"]) == (None, None)
    assert len(rows("SELECT id FROM runs")) == 1


def test_ping_with_a_new_run_id_is_a_whole_run_of_that_id(send: Sender, run_of: RunOf) -> None:
    send("start")
    run = run_of(send("ping", run_id="a"))
    assert (run["run_id"], run["status"]) == ("a", "success")


def test_calls_without_an_id_reach_an_open_run_with_one(send: Sender, run_of: RunOf) -> None:
    started = send("start", run_id="a")
    assert send("log", message="hello").json["run_id"] == started.json["run_id"]
    assert send("end").json["run_id"] == started.json["run_id"]
    assert run_of(started)["status"] == "success"


def test_calls_without_an_id_prefer_the_open_run_without_one(send: Sender) -> None:
    without = send("start")
    send("start", run_id="a")
    assert send("ping").json["run_id"] == without.json["run_id"]


@pytest.mark.parametrize("run_id", ["a" * 64, "2026-06-21T02:00 #1/ü", " ", "\x00"])
def test_what_a_run_id_may_be(send: Sender, run_of: RunOf, run_id: str) -> None:
    assert run_of(send("start", run_id=run_id))["run_id"] == run_id


@pytest.mark.parametrize("run_id", ["", "a" * 65])
def test_what_a_run_id_may_not_be(send: Sender, rows: Rows, run_id: str) -> None:
    answer = send("start", run_id=run_id)
    assert (answer.status_code, answer.json["error"]) == (422, "invalid_field")
    assert "run_id" in answer.json["message"]
    assert rows("SELECT * FROM jobs") == []


@pytest.mark.parametrize("run_id", [7, True, [], {}, "\ud800"])
def test_a_run_id_in_the_body_is_text(by_body: Sender, run_id: Any) -> None:
    assert by_body("start", run_id=run_id).status_code == 422
