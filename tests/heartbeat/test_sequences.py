"""Whatever comes in whatever order, no heartbeat fails and no state is impossible."""

import itertools
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, example, given, settings, strategies as st

from obs.heartbeat.store.record import RECENT_RUNS
from obs.times import format_ms
from tests.conftest import Clock, KeyClient
from tests.heartbeat.conftest import Sender

OPEN, SUCCESS, FAILED, LOST = range(4)
_numbers = itertools.count()


def _heartbeat(kind: str, **fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    common = {
        "run_id": st.sampled_from([None, None, "a", "b"]),
        "minutes_ago": st.sampled_from([None, None, 0, 1, 90, 10_000, -5]),
        "retry_key": st.sampled_from([None, None, None, "k"]),
    }
    return st.fixed_dictionaries({"kind": st.just(kind), **common, **fields})


HEARTBEATS = st.one_of(
    _heartbeat("start"),
    _heartbeat("log", message=st.sampled_from(["", "x"])),
    _heartbeat(
        "end",
        status=st.sampled_from([None, "ok", "fail"]),
        exit_code=st.sampled_from([None, 0, 1, 256]),
        duration_ms=st.sampled_from([None, 0, 60_000, 31 * 86_400_000]),
    ),
    _heartbeat("ping"),
    st.fixed_dictionaries({"kind": st.just("wait"), "minutes": st.sampled_from([0.001, 1, 60, 1_440, 10_080])}),
    st.just({"kind": "sweep"}),
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(HEARTBEATS, min_size=1, max_size=14), form=st.sampled_from(["path", "body"]))
@example(
    steps=[
        {"kind": "ping", "run_id": "a"},
        {"kind": "start", "run_id": "a", "minutes_ago": 5},
        {"kind": "end", "run_id": "a"},
    ],
    form="path",
)
def test_any_sequence(
    client: KeyClient,
    clock: Clock,
    rows: Callable[..., list[dict[str, Any]]],
    sweep: Callable[[], None],
    steps: list[dict[str, Any]],
    form: str,
) -> None:
    job = f"job-{next(_numbers)}"
    send = Sender(client, form)
    clock.advance(days=1)  # not back to the start: a clock that is set back corrects what is in its future
    for step in steps:
        _take(send, job, step, clock, sweep)
    if not rows("SELECT id FROM jobs WHERE name = ?", job):
        return
    _check_rows(rows, job)
    _check_reading(client, rows, job)


def _take(send: Sender, job: str, step: dict[str, Any], clock: Clock, sweep: Callable[[], None]) -> None:
    kind = step["kind"]
    if kind == "wait":
        clock.advance(minutes=step["minutes"])
    elif kind == "sweep":
        sweep()
    else:
        names = ("run_id", "message", "status", "exit_code", "duration_ms")
        fields = {name: step[name] for name in names if step.get(name) is not None}
        if step.get("minutes_ago") is not None:
            fields["time"] = format_ms(clock.now_ms - step["minutes_ago"] * 60_000)
        key = step.get("retry_key")
        answer = send(kind, job, headers={"Idempotency-Key": key} if key else None, **fields)
        refused = fields.get("exit_code") == 256
        assert answer.status_code == (422 if refused else 200), answer.json
        if not refused:
            assert (answer.json["job"], answer.json["event"]) == (job, kind)
            assert (answer.json["run_id"] is None) == (answer.json["run_status"] is None)


def _check_rows(rows: Callable[..., list[dict[str, Any]]], name: str) -> None:
    (job,) = rows("SELECT * FROM jobs WHERE name = ?", name)
    runs = rows("SELECT * FROM runs WHERE job_id = ?", job["id"])
    events = rows("SELECT * FROM events WHERE job_id = ?", job["id"])
    assert sum(run["status"] == OPEN and run["run_id"] is None for run in runs) <= 1
    for run in runs:
        assert (run["ended_at"] is not None) == (run["status"] in (SUCCESS, FAILED))
        assert run["ended_at"] is None or run["ended_at"] >= run["started_at"]
        assert run["duration_ms"] is None or (run["duration_ms"] >= 0 and run["status"] in (SUCCESS, FAILED))
        assert any(event["run_id"] == run["id"] for event in events)
    assert {event["run_id"] for event in events} <= {run["id"] for run in runs} | {None}
    durations = [run["duration_ms"] for run in runs if run["status"] == SUCCESS and run["duration_ms"] is not None]
    assert job["run_count"] == len(runs)
    assert job["timed_run_count"] == min(RECENT_RUNS, len(durations))
    assert len(durations) > RECENT_RUNS or job["total_duration_ms"] == sum(durations)
    assert job["last_event_id"] == max(event["id"] for event in events)
    assert job["last_heartbeat_at"] == max(event["time"] for event in events)
    assert (job["last_outcome"] is None) == all(run["status"] == OPEN for run in runs)


def _check_reading(client: KeyClient, rows: Callable[..., list[dict[str, Any]]], job: str) -> None:
    assert client.get(f"/api/v1/jobs/{job}").status_code == 200
    listed = client.get(f"/api/v1/jobs/{job}/runs").json
    assert listed is not None
    for run in listed["runs"]:
        whole = client.get(f"/api/v1/runs/{run['id']}").json
        assert whole is not None
        times = [event["time"] for event in whole["timeline"]]
        assert times == sorted(times)
