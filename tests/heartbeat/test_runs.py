"""The table of states: what each kind of heartbeat does to a run in each state."""

import pytest

from obs.heartbeat.runs import Action, Heartbeat, Kind, Run, Status, act, duration_of_close, outcome

A, C, R, S, O, L, X = (  # noqa: E741 - letters, so that the tables below read as tables
    Action.ATTACH,
    Action.CLOSE,
    Action.RECORD,
    Action.STAND_ALONE,
    Action.OPEN,
    Action.REPLACE,
    Action.REPEAT,
)
KINDS = (Kind.START, Kind.LOG, Kind.END, Kind.PING)


def _run(status: Status, *, named: bool, started: bool = True, ended: bool = False, started_at: int = 1_000) -> Run:
    return Run(7, status, started_at, named, started, ended)


@pytest.mark.parametrize(
    ("run", "actions"),
    [
        pytest.param(None, (O, S, R, R), id="no run"),
        pytest.param(_run(Status.OPEN, named=False), (L, A, C, A), id="open"),
        pytest.param(_run(Status.OPEN, named=True), (X, A, C, A), id="open, with a run id"),
        pytest.param(_run(Status.LOST, named=True), (X, A, C, A), id="lost, with a run id"),
        pytest.param(_run(Status.SUCCESS, named=True, ended=True), (X, A, X, A), id="successful, with a run id"),
        pytest.param(_run(Status.FAILED, named=True, ended=True), (X, A, X, A), id="failed, with a run id"),
        pytest.param(
            _run(Status.SUCCESS, named=True, started=False, ended=True), (A, A, X, A), id="ended before its start"
        ),
        pytest.param(_run(Status.SUCCESS, named=True, started=False), (A, A, C, A), id="only pinged, with a run id"),
    ],
)
def test_what_a_heartbeat_does(run: Run | None, actions: tuple[Action, ...]) -> None:
    assert tuple(act(run, kind) for kind in KINDS) == actions


@pytest.mark.parametrize(
    ("status", "exit_code", "expected"),
    [
        (None, None, Status.SUCCESS),
        (None, 0, Status.SUCCESS),
        (None, 1, Status.FAILED),
        (None, 255, Status.FAILED),
        (Status.SUCCESS, 1, Status.SUCCESS),
        (Status.FAILED, 0, Status.FAILED),
        (Status.FAILED, None, Status.FAILED),
    ],
)
def test_an_explicit_status_wins_over_the_exit_code(
    status: Status | None, exit_code: int | None, expected: Status
) -> None:
    assert outcome(Heartbeat(Kind.END, 0, status=status, exit_code=exit_code)) is expected


@pytest.mark.parametrize(
    ("started", "end_time", "sent", "expected"),
    [
        pytest.param(True, 61_500, None, 60_500, id="from start to end"),
        pytest.param(True, 61_500, 3, 3, id="as sent"),
        pytest.param(True, 61_500, 0, 0, id="as sent, though 0"),
        pytest.param(True, 400, None, 0, id="never negative"),
        pytest.param(False, 61_500, None, None, id="unknown where no start was reported"),
        pytest.param(False, 61_500, 3, 3, id="as sent where no start was reported"),
    ],
)
def test_duration(started: bool, end_time: int, sent: int | None, expected: int | None) -> None:
    run = _run(Status.OPEN, named=True, started=started)
    assert duration_of_close(run, Heartbeat(Kind.END, end_time, duration_ms=sent)) == expected
