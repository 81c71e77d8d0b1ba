"""The wall clock of the server is wrong: ahead or behind, from the start or after a step, for a while or for good."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from flask import Flask

from obs.background import Background
from obs.cli import main
from obs.heartbeat.schedule import Memory
from obs.services import services
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, format_ms, parse_iso
from tests.conftest import ACME, Clock, KeyClient
from tests.dashboard.conftest import Visitor

PING = "/api/v1/heartbeat/backup/ping"
JOB = "/api/v1/jobs/backup"


class Server:
    """A machine whose wall clock is off by `error_ms`, with the service and the job ``backup`` on it.

    `clock` is the true time, which only moves forward.
    """

    def __init__(self, make_app: Callable[..., Flask], new_client: Callable[..., KeyClient], clock: Clock) -> None:
        self.make_app, self.new_client, self.clock = make_app, new_client, clock
        self.error_ms = 0
        self.booted_at = clock() - 10 * DAY_MS
        self.start()

    def start(self) -> None:
        """Start the service, or start it again."""
        self.app = self.make_app(
            CLOCK=lambda: self.clock() + self.error_ms, MONOTONIC=lambda: (self.clock() - self.booted_at) / 1000
        )
        self.client = self.new_client("acme", "admin", app=self.app)
        self.background.sweeper.excuse_downtime()
        self.sweep()

    def reboot(self, *, off_ms: int = 0) -> None:
        self.clock.advance(ms=off_ms)
        self.booted_at = self.clock()
        self.clock.advance(seconds=20)
        self.start()

    @property
    def background(self) -> Background:
        return services(self.app).background

    def sweep(self) -> None:
        self.background.tasks["sweep"].run()

    def set_clock(self, *, days: float = 0, hours: float = 0, minutes: float = 0) -> None:
        """Set the wall clock to the true time and an error. The service notices it a second later."""
        self.error_ms = round(days * DAY_MS + hours * HOUR_MS + minutes * MINUTE_MS)
        self.pass_time(seconds=1)

    def pass_time(self, *, hours: float = 0, seconds: float = 0) -> None:
        """Let time pass, in steps of at most ten minutes, with a sweep after each."""
        left = round(hours * HOUR_MS + seconds * 1000)
        while left > 0:
            self.clock.advance(ms=min(left, 10 * MINUTE_MS))
            left -= 10 * MINUTE_MS
            self.sweep()

    def ping(self, times: int = 1, **fields: str) -> None:
        for _ in range(times):
            self.pass_time(hours=1)
            assert self.client.post(PING, query_string=fields).status_code == 200
            self.sweep()

    def send(self, path: str) -> None:
        assert self.client.post(f"/api/v1/heartbeat/{path}").status_code == 200

    def job(self) -> dict[str, Any]:
        return dict(self.client.get(JOB).json)

    def wall(self) -> int:
        return self.clock() + self.error_ms

    def warning(self) -> str | None:
        warning: str | None = self.client.get("/readyz").json.get("clock")
        return warning

    def rows(self, query: str) -> list[list[Any]]:
        answer = self.client.post("/api/v1/dsl", json={"query": query})
        assert answer.status_code == 200, answer.json
        return list(answer.json["rows"])

    def run_starts(self) -> list[int]:
        runs = self.client.get(f"{JOB}/runs?limit=1000").json["runs"]
        return sorted(parse_iso(run["started_at"]) for run in runs)

    def dies_and_is_reported(self) -> None:
        """The job sends nothing any more, and is overdue after an hour and its grace period, not before."""
        assert self.job()["overdue"] is False
        self.pass_time(hours=0.9)
        assert self.job()["overdue"] is False
        self.pass_time(hours=1.6)
        assert self.job()["overdue"] is True
        assert ["overdue", "backup"] in self.rows("SELECT kind, job FROM incidents WHERE ended_at IS NULL LAST 30d")


@pytest.fixture
def server(make_app: Callable[..., Flask], new_client: Callable[..., KeyClient], clock: Clock) -> Server:
    server = Server(make_app, new_client, clock)
    for hours in range(100, -1, -1):
        server.client.post(PING, query_string={"time": format_ms(clock() - hours * HOUR_MS)})
    server.sweep()
    return server


PINS = pytest.mark.parametrize("pin", [None, {"interval_seconds": 3600, "grace_seconds": 600}], ids=["learned", "pin"])


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


def _history(server: Server) -> None:
    """A run, an event, an annotation and a host name that are 80 days old now."""
    server.client.post("/api/v1/heartbeat/old/ping", headers={"X-Platform-Host": "nas"})
    server.client.post("/api/v1/annotations", json={"name": "deploy/web", "title": "Deployed"})
    server.clock.advance(days=80)
    server.sweep()
    server.ping(3)


def _kept(server: Server) -> tuple[int, int]:
    """The number of the job's runs that are stored, and whether the annotation is."""
    server.background.tasks["purge"].run()
    with services(server.app).tenancy.databases.read(ACME) as db:
        runs = db.execute("SELECT count(*) FROM runs JOIN jobs ON jobs.id = job_id WHERE name = 'old'").fetchone()[0]
        return runs, db.execute("SELECT count(*) FROM annotations WHERE NOT by_service").fetchone()[0]


@pytest.mark.parametrize("reboots", [True, False])
def test_a_service_that_starts_with_a_clock_100_days_ahead_purges_nothing(server: Server, reboots: bool) -> None:
    _history(server)
    server.error_ms = 100 * DAY_MS
    (server.reboot if reboots else server.start)()
    assert _kept(server) == (1, 1)
    warning = server.warning()
    assert warning is not None
    assert "obs accept-clock" in warning
    server.ping()
    assert _kept(server) == (1, 1)
    server.set_clock()
    assert _kept(server) == (1, 1)
    assert server.warning() is None
    server.ping()
    server.dies_and_is_reported()
    server.clock.advance(days=11)
    server.sweep()
    assert _kept(server) == (0, 0), "the service has seen that time pass"


def test_a_step_ahead_purges_nothing_before_the_next_sweep_either(server: Server) -> None:
    _history(server)
    server.error_ms = 100 * DAY_MS
    assert _kept(server) == (1, 1)


def test_a_clock_that_is_corrected_purges_nothing_before_the_next_sweep(server: Server) -> None:
    server.set_clock(days=-2000)
    server.send("old/ping")
    server.client.post("/api/v1/annotations", json={"name": "deploy/web", "title": "Deployed"})
    server.send("broken/end?status=failed")
    server.sweep()
    at = server.clock()
    server.clock.advance(minutes=1)
    server.error_ms = 0
    assert _kept(server) == (1, 1)
    server.sweep()
    assert _kept(server) == (1, 1)
    (deploy,) = server.client.get("/api/v1/annotations?name_prefix=deploy/").json["annotations"]
    assert parse_iso(deploy["start_time"]) == at
    assert server.rows("SELECT kind, time FROM incidents LAST 30d") == [["failing", format_ms(at)]]


def test_a_clock_that_stays_ahead_purges_a_day_more_each_day(server: Server) -> None:
    _history(server)
    server.set_clock(days=100)
    days = 0
    while _kept(server) != (0, 0):
        server.clock.advance(days=1)
        server.sweep()
        days += 1
    assert days == 5, "10 days are missing, and each day counts twice"
    assert server.warning() is not None
    server.clock.advance(days=96)
    server.sweep()
    assert server.warning() is None, "the clock has been the same for as long as it was ahead"


def test_a_clock_that_is_accepted_is_used_at_once(server: Server) -> None:
    _history(server)
    server.set_clock(days=100)
    assert _kept(server) == (1, 1)
    result = server.app.test_cli_runner().invoke(main, ["accept-clock", "--instance", server.app.instance_path])
    assert (result.exit_code, result.output) == (0, "Accepted the clock.\n")
    server.sweep()
    assert server.warning() is None
    assert _kept(server) == (0, 0)
    server.client.patch(JOB, json={"pin": {"interval_seconds": 3600, "grace_seconds": 600}})
    server.ping()
    server.dies_and_is_reported()


def test_a_clock_that_is_accepted_while_the_service_is_stopped_is_used(server: Server) -> None:
    _history(server)
    server.error_ms = 100 * DAY_MS
    server.app.test_cli_runner().invoke(main, ["accept-clock", "--instance", server.app.instance_path])
    server.reboot()
    assert server.warning() is None
    assert _kept(server) == (0, 0)


def test_an_upgraded_instance_believes_the_times_in_its_files(server: Server) -> None:
    """As after the migration: nothing is known of the boot, and the time is that of the last use of a key."""
    _history(server)
    with services(server.app).tenancy.control.read() as db:
        wall_ms = db.execute("SELECT wall_ms FROM clock").fetchone()[0]
    services(server.app).tenancy.control.write(
        lambda db: db.execute("UPDATE clock SET boot_id = '', boot_ms = 0, doubted_from_ms = NULL")
    )
    assert abs(wall_ms - server.clock()) < MINUTE_MS
    server.error_ms = 100 * DAY_MS
    server.start()
    assert _kept(server) == (1, 1)
    assert server.warning() is not None


@pytest.mark.parametrize("year", [1970, 2021])
@PINS
def test_a_machine_without_a_clock_boots_years_behind(server: Server, year: int, pin: dict[str, int] | None) -> None:
    server.client.patch(JOB, json={"pin": pin})
    server.sweep()
    before = server.run_starts()
    server.clock.advance(minutes=5)
    server.error_ms = parse_iso(f"{year}-01-02T00:00:00Z") - server.clock()
    server.reboot(off_ms=5 * MINUTE_MS)
    assert "obs accept-clock" in str(server.warning())
    server.ping()
    assert _kept(server) == (0, 0)
    server.set_clock()
    assert server.warning() is None
    assert server.run_starts() == [*before, server.clock() - 1000], "what was recorded before it was set is kept"
    server.dies_and_is_reported()


def test_a_daily_job_that_ran_before_the_clock_was_set_is_not_overdue(server: Server) -> None:
    """The machine was off for 20 hours. Its clock stood still meanwhile, so nobody can see that it is behind."""
    for _ in range(10):
        server.clock.advance(days=1)
        server.send("daily/ping")
        server.sweep()
    server.pass_time(hours=4)
    server.error_ms = -20 * HOUR_MS
    server.reboot(off_ms=20 * HOUR_MS)
    server.send("daily/ping")
    server.pass_time(seconds=30)
    server.set_clock()
    server.pass_time(hours=20)
    assert server.client.get("/api/v1/jobs/daily").json["overdue"] is False
    assert server.warning() is None
    server.pass_time(hours=12)
    assert server.client.get("/api/v1/jobs/daily").json["overdue"] is True


def test_a_machine_that_is_off_at_night_has_a_clock_that_is_right(server: Server) -> None:
    for _ in range(6):
        server.pass_time(hours=8)
        server.reboot(off_ms=16 * HOUR_MS)
        assert server.warning() is None
        assert server.background.sweeper.clock.retention_ms() == server.clock()


def test_a_warning_is_shown_on_every_page_and_logged_once(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    browser = Visitor(server.app)
    browser.sign_in(str(server.client.key))
    assert "accept-clock" not in browser.get("/").text
    server.set_clock(hours=6)
    server.pass_time(seconds=2)
    for page in ("/", "/incidents", "/query", "/settings"):
        text = browser.get(page).text
        assert "The clock of this server shows" in text
        assert "is expected. Check its time synchronization (NTP)." in text
    server.set_clock()
    assert "accept-clock" not in browser.get("/").text
    messages = [record.getMessage() for record in caplog.records]
    assert sum("obs accept-clock" in message for message in messages) == 1
    assert [message for message in messages if "was set by" in message] == [
        "the clock was set by +21600 s",
        "the clock was set by -21600 s",
    ]


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


class Hosts:
    """A job ``sync`` that two hosts report at the same times, or one."""

    def __init__(self, server: Server, hosts: list[str], every_hours: int) -> None:
        self.server, self.hosts, self.every_hours = server, hosts, every_hours
        for _ in range(30):
            self.report(*hosts)

    def report(self, *hosts: str) -> None:
        self.server.pass_time(hours=self.every_hours)
        for host in hosts:
            sent = self.server.client.post("/api/v1/heartbeat/sync/ping", headers={"X-Platform-Host": host})
            assert sent.status_code == 200
        self.server.sweep()

    def incidents(self) -> list[tuple[str, str | None]]:
        found = self.server.client.get("/api/v1/incidents?job=sync").json["incidents"]
        return [(one["subject"], one["ended_at"]) for one in found]


@pytest.mark.slow
@pytest.mark.parametrize("hours", [-72, -6, 6, 72])
@pytest.mark.parametrize("every_hours", [1, 12])
@pytest.mark.parametrize("hosts", [["nas02"], ["nas01", "nas02"]], ids=["job", "host"])
def test_what_was_overdue_before_the_clock_was_set_has_one_incident(
    server: Server, hosts: list[str], every_hours: int, hours: int
) -> None:
    sync = Hosts(server, hosts, every_hours)
    silent = [("sync" if hosts == ["nas02"] else "sync on nas02", None)]
    for _ in range(3):
        sync.report(*hosts[:-1])
    assert sync.incidents() == silent
    for now_wrong in (hours, 0):
        server.set_clock(hours=now_wrong)
        assert sync.incidents() == silent
        for _ in range(3):
            sync.report(*hosts[:-1])
            assert sync.incidents() == silent
    sync.report(*hosts)
    assert [ended_at is None for _, ended_at in sync.incidents()] == [False]


@pytest.mark.parametrize("hours", [-72, -6, 6, 72])
def test_a_host_that_dies_while_the_clock_is_wrong_is_reported_when_it_is_right(server: Server, hours: int) -> None:
    sync = Hosts(server, ["nas01", "nas02"], 1)
    server.set_clock(hours=hours)
    sync.report("nas01", "nas02")
    sync.report("nas01")
    server.set_clock()
    for _ in range(3):
        sync.report("nas01")
    assert sync.incidents() == [("sync on nas02", None)]


@pytest.mark.slow
@pytest.mark.parametrize("hours", [-72, -6, 6, 72])
@pytest.mark.parametrize("every_hours", [1, 12])
def test_hosts_that_go_on_while_the_clock_is_wrong_have_no_incident(
    server: Server, every_hours: int, hours: int
) -> None:
    sync = Hosts(server, ["nas01", "nas02"], every_hours)
    for now_wrong in (hours, 0):
        server.set_clock(hours=now_wrong)
        for _ in range(3):
            sync.report("nas01", "nas02")
    assert sync.incidents() == []
