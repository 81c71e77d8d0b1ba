"""status, exit_code and duration_ms of an end, in both forms."""

from collections.abc import Callable
from typing import Any

import pytest

from obs.times import MINUTE_MS, format_ms
from tests.conftest import Clock, KeyClient
from tests.heartbeat.conftest import Sender

Rows = Callable[..., list[dict[str, Any]]]
RunOf = Callable[..., dict[str, Any]]
MONTH_MS = 31 * 24 * 3_600_000


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, "success"),
        ({"status": "ok"}, "success"),
        ({"status": "success"}, "success"),
        ({"status": "fail"}, "failed"),
        ({"status": "failed"}, "failed"),
        ({"status": "error"}, "failed"),
        ({"exit_code": 0}, "success"),
        ({"exit_code": 1}, "failed"),
        ({"exit_code": 255}, "failed"),
        ({"exit_code": 1, "status": "ok"}, "success"),
        ({"exit_code": 0, "status": "fail"}, "failed"),
    ],
)
def test_how_a_run_went(send: Sender, run_of: RunOf, fields: dict[str, Any], status: str) -> None:
    send("start")
    answer = send("end", **fields)
    assert (answer.status_code, answer.json["run_status"]) == (200, status)
    assert run_of(answer)["exit_code"] == fields.get("exit_code")


@pytest.mark.parametrize(
    "fields",
    [
        {"status": "OK"},
        {"status": "lost"},
        {"status": ""},
        {"exit_code": 256},
        {"exit_code": -1},
        {"exit_code": "abc"},
        {"exit_code": 1.5},
        {"exit_code": "1e2"},
        {"exit_code": "٣"},
        {"exit_code": 10**30},
        {"duration_ms": -1},
        {"duration_ms": MONTH_MS + 1},
        {"duration_ms": 1.5},
        {"duration_ms": "1h"},
    ],
)
def test_out_of_range_is_refused_and_the_run_stays(
    send: Sender, run_of: RunOf, rows: Rows, fields: dict[str, Any]
) -> None:
    started = send("start")
    before, job_before = run_of(started), rows("SELECT * FROM jobs")
    answer = send("end", **fields)
    (field,) = fields
    assert (answer.status_code, answer.json["error"]) == (422, "invalid_field")
    assert field in answer.json["errors"]["query" if send.form == "path" else "json"]
    assert (run_of(started), rows("SELECT * FROM jobs")) == (before, job_before)


@pytest.mark.parametrize("fields", [{"exit_code": "1"}, {"exit_code": True}, {"duration_ms": "5"}, {"status": 1}])
def test_the_body_form_takes_numbers_as_numbers(by_body: Sender, fields: dict[str, Any]) -> None:
    assert by_body("end", **fields).status_code == 422


@pytest.mark.parametrize("field", ["status", "exit_code", "duration_ms", "run_id", "message", "time"])
def test_null_in_the_body_is_as_left_out(by_body: Sender, field: str) -> None:
    left_out: dict[str, Any] = {field: None}
    answer = by_body("end", **left_out)
    assert (answer.status_code, answer.json["run_status"]) == (200, "success")


@pytest.mark.parametrize("duration_ms", [0, 1, MONTH_MS])
def test_a_duration_is_recorded_as_sent(send: Sender, run_of: RunOf, clock: Clock, duration_ms: int) -> None:
    send("start")
    clock.advance(minutes=5)
    run = run_of(send("end", duration_ms=duration_ms))
    assert run["duration_ms"] == duration_ms
    assert run["started_at"] == "2026-06-21T10:00:00.000Z"


def test_a_duration_not_sent_is_the_time_since_the_start(send: Sender, run_of: RunOf, clock: Clock) -> None:
    send("start")
    clock.advance(minutes=5, ms=7)
    assert run_of(send("end"))["duration_ms"] == 300_007


def test_a_run_never_ends_before_it_began(send: Sender, run_of: RunOf) -> None:
    send("start")
    run = run_of(send("end", time="2026-06-21T09:00:00Z"))
    assert (run["duration_ms"], run["started_at"], run["ended_at"]) == (
        0,
        "2026-06-21T10:00:00.000Z",
        "2026-06-21T10:00:00.000Z",
    )


def test_the_average_is_of_the_successful_runs_with_a_duration(send: Sender, client: Any) -> None:
    for duration_ms in (1_000, 2_000):
        send("end", duration_ms=duration_ms)
    send("ping")
    send("end", status="fail", duration_ms=60_000)
    job = client.get("/api/v1/jobs/backup").json
    assert (job["run_count"], job["avg_duration_ms"]) == (4, 1_500.0)


def test_the_average_follows_the_recent_runs(by_path: Sender, client: Any) -> None:
    for duration_ms in [60_000] * 20 + [1_000] * 20:
        by_path("end", duration_ms=duration_ms)
    # Each further run replaces a 20th of the average.
    assert client.get("/api/v1/jobs/backup").json["avg_duration_ms"] == pytest.approx(
        1_000 + 59_000 * 0.95**20, rel=0.01
    )


def test_the_first_heartbeat_of_a_job_is_the_earliest(by_path: Sender, client: Any) -> None:
    by_path("ping")
    by_path("ping", time="2026-06-20T03:00:00Z")
    by_path("ping")
    job = client.get("/api/v1/jobs/backup").json
    assert (job["created_at"], job["first_heartbeat_at"]) == ("2026-06-21T10:00:00.000Z", "2026-06-20T03:00:00.000Z")


@pytest.mark.parametrize("last", ["ok", "fail"])
def test_the_last_duration_is_that_of_the_newest_run(send: Sender, client: KeyClient, clock: Clock, last: str) -> None:
    send("end", status=last, duration_ms=2_000)
    for minutes, status in ((30, "ok"), (20, "fail")):  # after an outage, what has waited arrives later
        send("end", status=status, duration_ms=9_000, time=format_ms(clock() - minutes * MINUTE_MS))
        assert client.get("/api/v1/jobs/backup").json["last_duration_ms"] == 2_000
    clock.advance(minutes=5)
    send("end", status="ok", duration_ms=3_000, time=format_ms(clock() - 2 * MINUTE_MS))
    assert client.get("/api/v1/jobs/backup").json["last_duration_ms"] == 3_000
