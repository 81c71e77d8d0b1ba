"""A clock that may be wrong purges nothing, and is warned of until it is right, accepted or long the same."""

import pytest

from obs.cli import main
from obs.services import services
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, format_ms, parse_iso
from tests.alerts.machine import JOB, PINS, Server
from tests.conftest import ACME
from tests.dashboard.conftest import Visitor


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
