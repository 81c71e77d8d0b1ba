"""What did not come is seen: overdue, overrunning and lost, each at its moment."""

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from obs.heartbeat.runs import Heartbeat, Kind
from obs.heartbeat.service import SweepQueue
from obs.heartbeat.store import expectations, jobs
from obs.heartbeat.store.record import JobHeartbeat, record
from obs.services import services
from obs.tenancy import auth
from tests.conftest import ACME, Clock, KeyClient
from tests.heartbeat.conftest import Sender

Rows = Callable[..., list[dict[str, Any]]]
RunOf = Callable[..., dict[str, Any]]
Sweep = Callable[[], None]


def _job(client: KeyClient) -> dict[str, Any]:
    answer = client.get("/api/v1/jobs/backup")
    assert isinstance(answer.json, dict)
    return answer.json


def _ended(send: Sender, clock: Clock, sweep: Sweep, *runs: tuple[int, int]) -> None:
    """Runs with these exit codes that take so many minutes, with three hours after each of them."""
    for exit_code, minutes in runs:
        send("start")
        clock.advance(minutes=minutes)
        send("end", exit_code=exit_code)
        sweep()
        clock.advance(hours=3)


def _hourly(send: Sender, clock: Clock, sweep: Sweep, runs: int = 4) -> None:
    """Runs an hour apart that take a minute each; the last start was at the moment this returns."""
    for number in range(runs):
        if number:
            clock.advance(minutes=59)
            sweep()
        send("start")
        clock.advance(minutes=1)
        send("end")
        sweep()
    clock.advance(minutes=-1)


def test_nothing_is_expected_of_a_new_job(by_path: Sender, client: KeyClient, clock: Clock, sweep: Sweep) -> None:
    by_path("ping")
    sweep()
    clock.advance(days=30)
    sweep()
    job = _job(client)
    assert (job["status"], job["overdue"], job["expected_at"], job["overdue_at"]) == ("new", False, None, None)


def test_a_job_with_history_is_expected_again(by_path: Sender, client: KeyClient, clock: Clock, sweep: Sweep) -> None:
    _hourly(by_path, clock, sweep)
    job = _job(client)
    assert (job["status"], job["overdue"]) == ("ok", False)
    assert 3_590_000 <= job["interval_ms"] <= 3_610_000
    assert job["expected_at"] is not None
    assert job["overdue_at"] >= job["expected_at"]


@pytest.mark.parametrize(
    ("machine", "summary"),
    [
        ("Europe/Berlin", "Every day at 11:00, Europe/Berlin"),
        ("Etc/UTC", "Every day at 10:00, UTC"),
        (None, "Every day at 10:00, UTC"),  # a small container has no time zone
        ("Nowhere/Else", "Every day at 10:00, UTC"),
    ],
)
def test_times_are_in_the_zone_of_the_machine_where_others_fit_equally_well(
    make_app: Callable[..., Flask],
    new_client: Callable[..., KeyClient],
    monkeypatch: pytest.MonkeyPatch,
    clock: Clock,
    machine: str | None,
    summary: str,
) -> None:
    monkeypatch.setattr("tzlocal.get_localzone_name", lambda: machine)
    app = make_app()
    client = new_client("acme", app=app)
    for day in range(1, 21):
        clock.set(f"2027-01-{day:02}T10:00:{day * 7 % 5:02}Z")
        Sender(client, "path")("ping")
        services(app).background.tasks["sweep"].run()
    assert _job(client)["learned"]["summary"] == summary


def test_overdue_at_its_moment_and_not_before(by_path: Sender, client: KeyClient, clock: Clock, sweep: Sweep) -> None:
    _hourly(by_path, clock, sweep)
    clock.set(_job(client)["overdue_at"])
    clock.advance(ms=-1)
    sweep()
    assert (_job(client)["status"], _job(client)["overdue"]) == ("late", False)
    clock.advance(ms=1)
    assert (_job(client)["status"], _job(client)["overdue"]) == ("overdue", True)


def test_the_sweep_notes_the_moment_that_it_found(
    by_path: Sender, client: KeyClient, clock: Clock, sweep: Sweep, rows: Rows
) -> None:
    _hourly(by_path, clock, sweep)
    moment = clock.set(_job(client)["overdue_at"])
    clock.advance(minutes=3)
    sweep()
    assert rows("SELECT overdue_since FROM jobs") == [{"overdue_since": moment}]
    sweep()
    assert rows("SELECT overdue_since FROM jobs") == [{"overdue_since": moment}]


def test_a_heartbeat_ends_being_overdue(
    send: Sender, client: KeyClient, clock: Clock, sweep: Sweep, rows: Rows
) -> None:
    _hourly(send, clock, sweep)
    clock.advance(days=1)
    sweep()
    assert _job(client)["overdue"] is True
    run = client.get(f"/api/v1/runs/{send('ping').json['run_id']}").json
    assert _job(client)["overdue"] is False
    assert rows("SELECT overdue_since FROM jobs") == [{"overdue_since": None}]
    assert run is not None
    assert run["late_ms"] == pytest.approx(23 * 3_600_000, rel=0.01)


def test_a_run_is_not_late_for_a_time_at_which_the_one_before_came(
    send: Sender, client: KeyClient, clock: Clock, sweep: Sweep
) -> None:
    _hourly(send, clock, sweep)
    clock.advance(minutes=1)
    sweep()
    clock.set(_job(client)["expected_at"])
    clock.advance(seconds=-2)
    early = send("ping").json
    clock.advance(hours=1)
    next_one = send("ping").json
    late = [client.get(f"/api/v1/runs/{run['run_id']}").json["late_ms"] for run in (early, next_one)]
    assert late == [0, None]


def test_a_run_that_takes_too_long_is_overrunning_then_lost(
    by_path: Sender, client: KeyClient, clock: Clock, sweep: Sweep, run_of: RunOf, rows: Rows
) -> None:
    _hourly(by_path, clock, sweep)
    clock.advance(hours=1)
    started = by_path("start")
    begun = clock.now_ms
    sweep()
    (limits,) = rows("SELECT overrun_after_ms, lost_after_ms FROM jobs")
    assert limits["overrun_after_ms"] >= 60_000
    assert limits["lost_after_ms"] >= max(4 * 60_000, limits["overrun_after_ms"] + 3_600_000)

    clock.now_ms = begun + limits["overrun_after_ms"] - 1
    sweep()
    assert (_job(client)["status"], _job(client)["overrunning"]) == ("running", False)
    clock.advance(ms=1)
    assert (_job(client)["status"], _job(client)["overrunning"]) == ("overrunning", True)
    sweep()
    assert rows("SELECT overrunning_since FROM runs WHERE status = 0") == [{"overrunning_since": clock.now_ms}]

    clock.now_ms = begun + limits["lost_after_ms"] - 1
    sweep()
    assert run_of(started)["status"] == "open"
    clock.advance(ms=1)
    sweep()
    run = run_of(started)
    assert (run["status"], run["ended_at"], run["duration_ms"]) == ("lost", None, None)
    assert (_job(client)["status"], _job(client)["last_outcome"]) == ("lost", "lost")
    assert _job(client)["overrunning"] is False


def test_runs_that_failed_at_once_do_not_shorten_how_long_a_run_may_take(
    send: Sender, client: KeyClient, clock: Clock, sweep: Sweep
) -> None:
    _ended(send, clock, sweep, *[(0, 10)] * 5, *[(1, 0)] * 100)
    send("start")
    clock.advance(minutes=10)
    sweep()
    assert _job(client)["overrunning"] is False
    clock.advance(minutes=5)
    sweep()
    assert _job(client)["overrunning"] is True


def test_runs_that_fail_after_a_long_time_are_waited_for(
    send: Sender, client: KeyClient, clock: Clock, sweep: Sweep
) -> None:
    _ended(send, clock, sweep, *[(0, 10)] * 5, *[(1, 120)] * 3)
    send("start")
    clock.advance(minutes=120)
    sweep()
    assert _job(client)["status"] == "failed"
    assert _job(client)["overrunning"] is False


def test_a_run_of_a_new_job_is_lost_after_7_days(send: Sender, clock: Clock, sweep: Sweep, run_of: RunOf) -> None:
    started = send("start")
    sweep()
    clock.advance(days=7, ms=-1)
    sweep()
    assert run_of(started)["status"] == "open"
    clock.advance(ms=1)
    sweep()
    assert run_of(started)["status"] == "lost"


def test_no_run_of_a_job_that_is_paused_is_given_up(
    send: Sender, new_client: Callable[..., KeyClient], clock: Clock, sweep: Sweep, run_of: RunOf
) -> None:
    started, admin = send("start"), new_client("acme", "admin")
    admin.patch("/api/v1/jobs/backup", json={"paused": True})
    clock.advance(days=8)
    sweep()
    assert run_of(started)["status"] == "open"
    admin.patch("/api/v1/jobs/backup", json={"paused": False})
    sweep()
    assert run_of(started)["status"] == "lost"


def test_an_end_in_time_keeps_a_run(by_path: Sender, clock: Clock, sweep: Sweep, run_of: RunOf) -> None:
    started = by_path("start")
    clock.advance(days=7, ms=-1)
    by_path("end")
    clock.advance(days=1)
    sweep()
    assert run_of(started)["status"] == "success"


def test_the_sweep_sees_every_organization(
    by_path: Sender, client: KeyClient, other_client: KeyClient, clock: Clock, sweep: Sweep
) -> None:
    clients = (client, other_client)
    numbers = [each.post("/api/v1/heartbeat/backup/start").json["run_id"] for each in clients]
    sweep()
    clock.advance(days=7)
    sweep()
    for each, number in zip(clients, numbers, strict=True):
        assert each.get(f"/api/v1/runs/{number}").json["status"] == "lost"


def test_what_a_locked_file_held_up_is_made_good(
    make_app: Callable[..., Flask], new_client: Callable[..., KeyClient], clock: Clock
) -> None:
    """A heartbeat whose sweep failed must not wait for the next heartbeat, which may never come."""
    app = make_app(BUSY_SECONDS=0)
    client = new_client("acme", app=app)
    sweep = services(app).background.tasks["sweep"].run
    send = Sender(client, "path")
    sweep()
    _hourly(send, clock, lambda: None)
    tenancy: auth.Tenancy = services(app).tenancy
    holder = sqlite3.connect(tenancy.databases.path(ACME), isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    sweep()
    assert _job(client)["expected_at"] is None
    holder.execute("ROLLBACK")
    holder.close()
    sweep()
    assert _job(client)["expected_at"] is not None


def test_one_organizations_trouble_is_not_anothers(
    app: Flask, client: KeyClient, other_client: KeyClient, clock: Clock, sweep: Sweep, caplog: pytest.LogCaptureFixture
) -> None:
    """acme is swept before globex, and its schema is not what the service expects."""
    started = other_client.post("/api/v1/heartbeat/backup/start").json
    client.post("/api/v1/heartbeat/backup/start")
    tenancy: auth.Tenancy = services(app).tenancy
    tenancy.databases.write(ACME, lambda db: db.execute("DROP TABLE runs"))
    clock.advance(days=7)
    sweep()
    assert started is not None
    assert other_client.get(f"/api/v1/runs/{started['run_id']}").json["status"] == "lost"
    assert "acme" in caplog.text


def _instructions(app: Flask, work: Callable[[sqlite3.Connection], object]) -> int:
    """How many instructions SQLite executes for `work`."""
    executed: list[int] = []

    def counted(db: sqlite3.Connection) -> None:
        db.set_progress_handler(lambda: executed.append(1), 1)
        work(db)
        db.set_progress_handler(None, 1)

    services(app).tenancy.databases.write(ACME, counted)
    return len(executed)


def _add_pings(app: Flask, clock: Clock, count: int) -> None:
    def add(db: sqlite3.Connection) -> None:
        for back in range(count):
            record(db, JobHeartbeat("backup", Heartbeat(Kind.PING, clock() - back)), clock())

    services(app).tenancy.databases.write(ACME, add)


def test_flagging_costs_what_is_open_and_not_what_is_stored(app: Flask, by_path: Sender, clock: Clock) -> None:
    def flag(db: sqlite3.Connection) -> None:
        assert expectations.flag(db, 10, clock()) == 0

    by_path("start", "open")
    counts = []
    for _ in range(2):
        _add_pings(app, clock, 500)
        counts.append(_instructions(app, flag))
    assert counts[0] == counts[1]


def test_a_heartbeat_of_a_run_costs_the_same_after_many_others(app: Flask, by_path: Sender, clock: Clock) -> None:
    def log(db: sqlite3.Connection) -> None:
        record(db, JobHeartbeat("backup", Heartbeat(Kind.LOG, clock(), run_id="a", message="text")), clock())

    by_path("start", run_id="a")
    first = _instructions(app, log)
    for _ in range(300):
        services(app).tenancy.databases.write(ACME, log)
    assert _instructions(app, log) < 2 * first


def test_a_change_of_a_job_reads_only_its_latest_heartbeats(
    app: Flask, by_path: Sender, clock: Clock, sweep: Sweep
) -> None:
    def change(db: sqlite3.Connection) -> None:
        jobs.change(db, 1, {"paused_at": None}, is_rescheduled=True)
        expectations.expect_for_now(db, 1, clock())

    by_path("ping")
    counts = []
    for _ in range(4):
        _add_pings(app, clock, 1_000)
        sweep()
        clock.advance(hours=1)
        counts.append(_instructions(app, change))
        sweep()
    assert counts[3] < 1.2 * counts[1]


def test_a_heartbeat_that_is_refused_while_another_refusal_is_stored_is_not_forgotten() -> None:
    queue = SweepQueue()
    queue.note_refused(ACME, 1)
    stored = queue.refused[ACME]
    queue.note_refused(ACME, 5)
    queue.excused(ACME, stored)
    assert queue.refused == {ACME: (1, 5)}
    queue.excused(ACME, (1, 5))
    assert queue.refused == {}
