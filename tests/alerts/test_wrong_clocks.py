"""The wall clock of the server is wrong: jobs are judged by the true time, and what was recorded gets it."""

from itertools import pairwise

import pytest

from obs.heartbeat.schedule import Memory
from obs.services import services
from obs.times import DAY_MS, HOUR_MS, format_ms, parse_iso
from tests.alerts.machine import JOB, PING, PINS, Server
from tests.conftest import ACME


@PINS
@pytest.mark.parametrize("error", [{"days": 3}, {"days": -3}, {"hours": 6}, {"hours": -6}, {"minutes": 90}], ids=str)
def test_one_ping_by_a_wrong_clock_does_not_blind_a_job(
    server: Server, pin: dict[str, int] | None, error: dict[str, float]
) -> None:
    server.client.patch(JOB, json={"pin": pin})
    server.sweep()
    before = server.run_starts()
    server.set_clock(**error)
    server.ping()
    server.set_clock()
    assert server.run_starts() == [*before, server.clock() - 1000], "the ping has its true time"
    assert parse_iso(server.job()["last_heartbeat_at"]) == server.clock() - 1000
    server.dies_and_is_reported()


def test_a_pinned_job_of_two_runs_is_checked_while_the_clock_is_behind(server: Server) -> None:
    server.client.put("/api/v1/jobs/young", json={"pin": {"interval_seconds": 600, "grace_seconds": 60}})
    server.send("young/ping")
    server.sweep()
    server.set_clock(hours=-2)
    server.send("young/ping")
    server.sweep()
    server.pass_time(hours=0.5)
    assert server.client.get("/api/v1/jobs/young").json["overdue"] is True


@PINS
def test_a_job_that_is_overdue_stays_so_when_a_clock_that_was_ahead_is_set_right(
    server: Server, pin: dict[str, int] | None
) -> None:
    server.client.patch(JOB, json={"pin": pin})
    server.ping()
    server.set_clock(days=2)
    server.pass_time(hours=6)
    server.set_clock()
    assert (server.job()["status"], server.job()["overdue"]) == ("overdue", True)
    assert server.rows("SELECT kind FROM incidents WHERE ended_at IS NULL LAST 30d") == [["overdue"]]
    server.ping()
    assert server.job()["overdue"] is False


def test_a_restart_does_not_change_a_run_of_a_client_whose_clock_is_ahead(server: Server) -> None:
    ahead_ms = 5 * 60_000
    server.client.post("/api/v1/heartbeat/ahead/start", query_string={"time": format_ms(server.clock() + ahead_ms)})
    server.start()
    server.pass_time(seconds=10)
    server.client.post("/api/v1/heartbeat/ahead/end", query_string={"time": format_ms(server.clock() + ahead_ms)})
    assert [run["duration_ms"] for run in server.client.get("/api/v1/jobs/ahead/runs").json["runs"]] == [10_000]


def test_a_time_that_was_sent_to_a_wrong_clock_stays(server: Server) -> None:
    server.pass_time(hours=2)
    server.send("b/end?status=fail")
    server.set_clock(days=40)
    true_ms = server.clock() - 600_000
    server.client.post("/api/v1/annotations", json={"name": "a", "title": "t", "start_time": format_ms(true_ms)})
    server.pass_time(hours=1)
    server.set_clock()
    server.pass_time(seconds=60)
    (incident,) = server.client.get("/api/v1/incidents?job=b").json["incidents"]
    found = server.client.get("/api/v1/annotations?start=-80d&end=now").json["annotations"]
    starts = {one["name"]: one["start_time"] for one in found}
    assert (starts["a"], starts["incident/b"]) == (format_ms(true_ms), incident["started_at"])


@PINS
def test_a_ping_between_two_sweeps_by_a_clock_that_was_wrong_only_then(
    server: Server, pin: dict[str, int] | None
) -> None:
    server.client.patch(JOB, json={"pin": pin})
    server.pass_time(hours=1)
    server.error_ms = 3 * DAY_MS
    server.client.post(PING)
    server.error_ms = 0
    server.sweep()
    assert parse_iso(server.job()["last_heartbeat_at"]) == server.clock()
    server.dies_and_is_reported()


@PINS
@pytest.mark.parametrize("error", [{"days": 3}, {"days": -3}, {"hours": 6}, {"hours": -6}], ids=str)
def test_a_job_that_dies_while_the_clock_is_wrong_is_reported_on_time(
    server: Server, pin: dict[str, int] | None, error: dict[str, float]
) -> None:
    server.client.patch(JOB, json={"pin": pin})
    server.sweep()
    server.set_clock(**error)
    server.ping()
    server.dies_and_is_reported()


@pytest.mark.parametrize("error", [{"days": 3}, {"days": -3}, {"hours": 6}, {"hours": -6}], ids=str)
def test_a_job_that_is_silent_from_the_step_on_is_reported_on_time(server: Server, error: dict[str, float]) -> None:
    server.set_clock(**error)
    server.dies_and_is_reported()


@PINS
@pytest.mark.parametrize("error", [{"days": 100}, {"days": -3}, {"days": -2000}], ids=str)
@pytest.mark.parametrize("is_corrected", [True, False])
def test_a_clock_that_is_wrong_while_no_heartbeat_arrives_blinds_no_job(
    server: Server, pin: dict[str, int] | None, error: dict[str, float], *, is_corrected: bool
) -> None:
    server.client.patch(JOB, json={"pin": pin})
    server.pass_time(hours=0.05)
    server.set_clock(**error)
    assert server.job()["interval_ms"] == HOUR_MS
    if is_corrected:
        server.set_clock()
    server.dies_and_is_reported()


@pytest.mark.parametrize("error", [{"days": 3}, {"days": -3}], ids=str)
def test_what_was_learned_is_the_same_after_a_wrong_clock(server: Server, error: dict[str, float]) -> None:
    server.set_clock(**error)
    server.ping(5)
    server.set_clock()
    server.ping(8)
    assert server.job()["interval_ms"] == HOUR_MS
    assert server.rows("SELECT kind, job FROM incidents LAST 30d") == []
    starts = server.run_starts()
    gaps = {later - earlier for earlier, later in pairwise(starts)}
    assert max(gaps) < HOUR_MS + 5000


@pytest.mark.parametrize("hours", [6, -6])
def test_an_open_run_goes_on_when_the_clock_is_set(server: Server, hours: int) -> None:
    for _ in range(12):
        server.pass_time(hours=1)
        server.send("short/start")
        server.pass_time(seconds=60)
        server.send("short/end")
        server.sweep()
    server.pass_time(hours=1)
    server.send("short/start")
    server.set_clock(hours=hours)
    server.pass_time(seconds=30)
    runs = server.client.get("/api/v1/jobs/short/runs").json["runs"]
    (started_at,) = [parse_iso(run["started_at"]) for run in runs if run["status"] == "open"]
    assert server.wall() - started_at == 31_000
    assert server.rows("SELECT kind FROM incidents WHERE job = 'short' LAST 30d") == []
    server.send("short/end")
    server.set_clock()
    run = server.client.get("/api/v1/jobs/short/runs?limit=1").json["runs"][0]
    assert (run["status"], run["duration_ms"]) == ("success", 31_000)
    assert parse_iso(run["ended_at"]) == server.clock() - 1000


def test_a_client_that_sends_the_true_time_is_believed(server: Server) -> None:
    server.set_clock(days=3)
    at = server.clock() + HOUR_MS
    server.ping(time=format_ms(at))
    server.set_clock()
    assert server.run_starts()[-1] == at


def test_pauses_incidents_and_annotations_of_a_clock_that_was_ahead_do_not_stay_in_the_future(server: Server) -> None:
    server.set_clock(days=3)
    server.ping()
    server.client.post("/api/v1/annotations", json={"name": "deploy/web", "title": "Deployed"})
    server.send("broken/end?status=failed")
    server.sweep()
    server.client.patch(JOB, json={"paused_until": format_ms(server.wall() + HOUR_MS)})
    server.set_clock()
    now = server.clock()
    server.pass_time(seconds=1)
    (annotation, band) = sorted(server.client.get("/api/v1/annotations").json["annotations"], key=lambda one: one["id"])
    assert parse_iso(annotation["start_time"]) <= now
    assert parse_iso(band["start_time"]) <= now
    ((started_at,),) = server.rows("SELECT time FROM incidents LAST 30d")
    assert parse_iso(started_at) <= now
    assert parse_iso(server.job()["paused_until"]) <= now + HOUR_MS
    server.pass_time(hours=3)
    assert server.job()["overdue"] is True


def test_a_schedule_that_changed_by_a_clock_that_was_ahead_is_learned_from_what_comes_next(server: Server) -> None:
    server.set_clock(days=3)
    server.client.patch(JOB, json={"schedule_changed_at": format_ms(server.wall())})
    server.set_clock()
    server.pass_time(seconds=1)
    assert parse_iso(server.job()["schedule_changed_at"]) <= server.clock()
    server.ping(30)
    server.dies_and_is_reported()


def test_the_memory_forgets_the_heartbeats_of_a_wrong_clock(server: Server) -> None:
    server.ping(3)
    right = _memory(server)
    server.set_clock(days=20)
    server.ping(3)
    assert _memory(server)[-1] > server.clock()
    server.set_clock()
    server.ping(2)
    times = _memory(server)
    assert times[: len(right)] == right
    assert len(times) == len(right) + 5
    assert all(later - earlier < HOUR_MS + 5_000 for earlier, later in pairwise(times))


def _memory(server: Server) -> list[int]:
    with services(server.app).tenancy.databases.read(ACME) as db:
        (data,) = db.execute("SELECT memory FROM memories").fetchone()
    return list(Memory.decode(data).times)
