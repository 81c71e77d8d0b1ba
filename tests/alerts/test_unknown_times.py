"""Runs that were due during maintenance, a pause, downtime or a clock jump are not waited for: the next ones are."""

from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from flask import Flask

from obs.services import services
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, format_ms, parse_iso
from tests.conftest import Clock, KeyClient

START, END = parse_iso("2026-06-21T23:00:00Z"), parse_iso("2026-06-22T06:00:00Z")
DAILY = range(parse_iso("2026-05-10T02:00:00Z"), START, DAY_MS)
FREQUENT = range(START - DAY_MS, START, 5 * MINUTE_MS)


class World:
    """A server with some jobs that have just run. It is 23:00, and what happens until 06:00 is unknown."""

    def __init__(self, make_app: Callable[..., Flask], new_client: Callable[..., KeyClient], clock: Clock) -> None:
        self.make_app, self.new_client, self.clock = make_app, new_client, clock
        self.boot_lag_ms = self.lag_ms = 0
        clock.now_ms = START - 2 * HOUR_MS
        self.start()
        self.pass_time(2 * HOUR_MS)  # from now on the clock is trusted

    def start(self) -> None:
        """Start the service, or start it again."""
        self.app = self.make_app(
            MONOTONIC=lambda: (self.clock() - self.lag_ms) / 1000,
            BOOT_CLOCK=lambda: (self.clock() - self.boot_lag_ms) / 1000,
        )
        self.client = self.new_client("acme", "admin", app=self.app)
        services(self.app).background.sweeper.excuse_downtime()
        self.sweep()

    def sweep(self) -> None:
        services(self.app).background.tasks["sweep"].run()

    def pass_time(self, length_ms: int, step_ms: int = 10 * MINUTE_MS) -> None:
        end = self.clock() + length_ms
        while self.clock() < end:
            self.clock.now_ms = min(end, self.clock() + step_ms)
            self.sweep()

    def change(self, name: str, **changes: Any) -> None:
        assert self.client.patch(f"/api/v1/jobs/{name}", json=changes).status_code == 200

    def add(self, name: str, times: range, pin: dict[str, Any] | None = None) -> None:
        """Send heartbeats at these times, or up to 4 s later, and sweep."""
        for number, time in enumerate(times):
            at = format_ms(time + number * 1700 % 4000)
            sent = self.client.post(f"/api/v1/heartbeat/{name}/ping", query_string={"time": at})
            assert sent.status_code == 200
        if pin is not None:
            self.change(name, pin=pin)
        self.sweep()

    def job(self, name: str) -> dict[str, Any]:
        return dict(self.client.get(f"/api/v1/jobs/{name}").json)

    def maintain(self, start: int, end: int, job_prefix: str | None = None) -> None:
        times = {"start_time": format_ms(start), "end_time": format_ms(end)}
        window = {**times, "title": "New disks", "job_prefix": job_prefix}
        assert self.client.post("/api/v1/maintenance", json=window).status_code == 201

    def overdue_at(self, name: str, latest: int) -> int:
        """Let time pass until the job is overdue, at most until `latest`."""
        while self.job(name)["overdue"] is False:
            assert self.clock() < latest, self.job(name)
            self.pass_time(5 * MINUTE_MS, SECOND_MS * 60)
        return parse_iso(self.job(name)["overdue_at"])


def _maintenance(world: World, _: str) -> None:
    world.maintain(START, END)
    world.pass_time(END - START)


def _maintenance_added_meanwhile(world: World, _: str) -> None:
    world.pass_time(15 * SECOND_MS)
    world.maintain(START, END)
    world.pass_time(END - world.clock())


def _maintenance_of_some_jobs(world: World, name: str) -> None:
    world.maintain(START, END, name[:3])
    world.pass_time(END - START)


def _maintenance_that_recurs(world: World, _: str) -> None:
    window = {"cron": "0 23 21 6 *", "duration_seconds": (END - START) // SECOND_MS}
    assert world.client.post("/api/v1/maintenance", json=window).status_code == 201
    world.pass_time(END - START)


def _maintenance_that_was_deleted(world: World, name: str) -> None:
    world.maintain(START, END + DAY_MS, name)
    world.pass_time(END - START)
    (window,) = world.client.get("/api/v1/maintenance").json["maintenance_windows"]
    assert world.client.delete(f"/api/v1/maintenance/{window['id']}").status_code == 204


def _two_windows(world: World, _: str) -> None:
    for start, end in ((START + 2 * HOUR_MS, END), (START, START + 2 * HOUR_MS)):
        world.maintain(start, end)
    world.pass_time(END - START)


def _pause(world: World, name: str) -> None:
    world.change(name, paused=True)
    world.pass_time(END - START)
    world.change(name, paused=False)


def _pause_that_ends(world: World, name: str) -> None:
    world.change(name, paused_until=format_ms(END))
    world.pass_time(END - START)


def _downtime(world: World, _: str) -> None:
    world.clock.now_ms = END
    world.start()


def _clock_jump(world: World, _: str) -> None:
    world.lag_ms = world.boot_lag_ms = END - START
    world.clock.now_ms = END
    world.sweep()


def _suspension(world: World, _: str) -> None:
    world.lag_ms = END - START
    world.clock.now_ms = END
    world.sweep()


UNKNOWN = pytest.mark.parametrize(
    "pass_unknown_time",
    [
        _maintenance,
        _maintenance_added_meanwhile,
        _maintenance_of_some_jobs,
        _maintenance_that_recurs,
        _maintenance_that_was_deleted,
        _two_windows,
        _pause,
        _pause_that_ends,
        _downtime,
        _clock_jump,
        _suspension,
    ],
)


@pytest.fixture
def world(make_app: Callable[..., Flask], new_client: Callable[..., KeyClient], clock: Clock) -> World:
    return World(make_app, new_client, clock)


@UNKNOWN
@pytest.mark.parametrize("pin", [None, {"cron": "0 2 * * *", "grace_seconds": 60}], ids=["learned", "cron"])
def test_a_daily_job_is_next_expected_at_its_next_time(
    world: World, pin: dict[str, Any] | None, pass_unknown_time: Callable[[World, str], None]
) -> None:
    world.add("backup", DAILY, pin)
    pass_unknown_time(world, "backup")
    world.sweep()
    next_time = parse_iso("2026-06-23T02:00:00Z")
    job = world.job("backup")
    assert (job["status"], job["overdue"]) == ("ok", False)
    assert abs(parse_iso(job["expected_at"]) - next_time) < 4 * SECOND_MS
    world.pass_time(next_time - END)
    assert world.job("backup")["overdue"] is False
    assert next_time < world.overdue_at("backup", next_time + 10 * MINUTE_MS) < next_time + 5 * MINUTE_MS
    incidents = world.client.post("/api/v1/dsl", json={"query": "SELECT kind FROM incidents LAST 30d"}).json["rows"]
    assert incidents == [["overdue"]]


@pytest.mark.slow
@UNKNOWN
@pytest.mark.parametrize(
    "pin",
    [None, {"cron": "*/5 * * * *", "grace_seconds": 60}, {"interval_seconds": 300, "grace_seconds": 60}],
    ids=["learned", "cron", "interval"],
)
def test_a_frequent_job_is_expected_soon_after(
    world: World, pin: dict[str, Any] | None, pass_unknown_time: Callable[[World, str], None]
) -> None:
    world.add("poll", FREQUENT, pin)
    pass_unknown_time(world, "poll")
    world.sweep()
    job = world.job("poll")
    expected_at = parse_iso(job["expected_at"])
    assert (job["status"], job["overdue"]) == ("late" if expected_at == END else "ok", False)
    assert END <= expected_at <= END + 5 * MINUTE_MS
    assert END + 25 * SECOND_MS < world.overdue_at("poll", END + 15 * MINUTE_MS) < END + 10 * MINUTE_MS


@UNKNOWN
def test_a_pinned_interval_begins_again_at_the_end(
    world: World, pass_unknown_time: Callable[[World, str], None]
) -> None:
    world.add("backup", DAILY, {"interval_seconds": 86400, "grace_seconds": 600})
    pass_unknown_time(world, "backup")
    world.sweep()
    assert world.job("backup")["expected_at"] == format_ms(END + DAY_MS)
    assert world.job("backup")["overdue_at"] == format_ms(END + DAY_MS + 600 * SECOND_MS)


def test_a_short_restart_excuses_no_run(world: World) -> None:
    """Clients send again for longer than that. Otherwise a restart at 02:00 each night would hide that jobs died."""
    world.add("backup", DAILY)
    limit = parse_iso(world.job("backup")["overdue_at"])
    world.pass_time(limit - SECOND_MS - world.clock())
    world.clock.advance(seconds=30)
    world.start()
    assert world.job("backup")["overdue"] is False
    assert limit + 24 * SECOND_MS < world.overdue_at("backup", limit + 10 * MINUTE_MS) < limit + 5 * MINUTE_MS


def _ran_for_a_minute(world: World) -> None:
    """Ten runs of the job backup."""
    for number in range(10):
        for event in ("start", "end"):
            time = format_ms(START - (20 - number) * MINUTE_MS * 60 + (event == "end") * MINUTE_MS)
            path = f"/api/v1/heartbeat/backup/{event}"
            sent = world.client.post(path, query_string={"time": time, "run_id": str(number)})
            assert sent.status_code == 200
    world.change("backup", pin={"never": True})
    world.sweep()


def _incidents(world: World) -> list[list[str]]:
    """The kind and the start of each incident, oldest first."""
    found = (world.client.get("/api/v1/incidents").json or {})["incidents"]
    return [[one["kind"], one["started_at"]] for one in found[::-1]]


def test_a_run_is_not_lost_because_the_service_was_down_when_it_ended(world: World) -> None:
    _ran_for_a_minute(world)
    assert world.client.post("/api/v1/heartbeat/backup/start?run_id=open").status_code == 200
    world.clock.now_ms = END
    world.start()
    world.sweep()
    assert _incidents(world) == []
    assert world.job("backup")["status"] == "running"
    jobs = {"query": "SELECT status, overdue FROM jobs LAST 2d"}
    assert world.client.post("/api/v1/dsl", json=jobs).json["rows"] == [["running", False]]
    world.pass_time(HOUR_MS // 2)  # then its end should have been sent
    ((kind, since),) = _incidents(world)
    assert kind == "overrunning"
    assert END < parse_iso(since) < END + HOUR_MS // 2
    assert world.job("backup")["status"] == "overrunning"
    world.pass_time(4 * HOUR_MS)
    assert [kind for kind, _ in _incidents(world)] == ["overrunning", "lost"]


def test_a_run_whose_start_is_sent_long_after_it_is_not_lost_before_its_end_is_sent(world: World) -> None:
    _ran_for_a_minute(world)
    world.clock.now_ms = END
    sent = {"run_id": "kept", "time": format_ms(START)}
    assert world.client.post("/api/v1/heartbeat/backup/start", query_string=sent).status_code == 200
    world.pass_time(MINUTE_MS, step_ms=SECOND_MS)
    assert world.client.post("/api/v1/heartbeat/backup/end", query_string=sent).status_code == 200
    world.sweep()
    assert (world.job("backup")["lost_count"], _incidents(world)) == (0, [])


@UNKNOWN
def test_what_was_overdue_before_is_overdue_afterwards(
    world: World, pass_unknown_time: Callable[[World, str], None]
) -> None:
    world.add("poll", range(FREQUENT[0], START - HOUR_MS, 5 * MINUTE_MS))
    assert world.job("poll")["overdue"] is True
    pass_unknown_time(world, "poll")
    world.sweep()
    assert world.job("poll")["overdue"] is True


def test_pauses_of_the_last_days_do_not_look_like_runs_that_were_left_out(world: World) -> None:
    """The job was paused for the same five hours on two days. On the third day it dies."""
    hours = range(START - 20 * DAY_MS, START - HOUR_MS, HOUR_MS)
    world.add("sync", hours)
    for _ in range(2):
        world.change("sync", paused=True)
        world.pass_time(5 * HOUR_MS)
        world.change("sync", paused=False)
        for _ in range(19):
            world.add("sync", range(world.clock(), world.clock() + 1))
            world.pass_time(HOUR_MS)
    expected = parse_iso(world.job("sync")["expected_at"])
    assert parse_iso(world.job("sync")["overdue_at"]) < expected + 10 * MINUTE_MS


def test_resuming_a_job_twice_does_not_extend_its_pause(world: World) -> None:
    world.add("backup", DAILY)
    world.change("backup", paused_until=format_ms(START + HOUR_MS))
    night = parse_iso("2026-06-22T02:00:00Z")
    world.pass_time(night + 20 * SECOND_MS - START)
    world.change("backup", paused=False)
    assert night < world.overdue_at("backup", night + 10 * MINUTE_MS) < night + 5 * MINUTE_MS


def test_a_clock_that_was_ahead_leaves_no_unknown_time_in_the_future(world: World) -> None:
    world.add("backup", DAILY)
    world.lag_ms = world.boot_lag_ms = 3 * DAY_MS
    world.clock.advance(days=3)
    world.pass_time(HOUR_MS)
    world.lag_ms = world.boot_lag_ms = 0
    world.clock.advance(days=-3)
    world.pass_time(10 * MINUTE_MS)
    night = parse_iso("2026-06-22T02:00:00Z")
    world.pass_time(night - world.clock())
    world.add("backup", range(night, night + 1))
    assert night + DAY_MS < world.overdue_at("backup", night + 2 * DAY_MS) < night + DAY_MS + HOUR_MS


def test_a_start_does_not_wait_for_all_files_and_may_die_before_it_has_opened_them(
    make_app: Callable[..., Flask], new_client: Callable[..., KeyClient], clock: Clock
) -> None:
    clock.now_ms = START
    app, organizations = make_app(), ("acme", "globex", "initech")
    for organization in organizations:
        client = new_client(organization, "admin", app=app)
        for time in DAILY:
            client.post("/api/v1/heartbeat/nightly/ping", query_string={"time": format_ms(time)})
    services(app).background.sweeper.excuse_downtime()
    for _ in range(2):
        services(app).background.tasks["sweep"].run()
    seconds = count(1_000_000)
    clock.now_ms = END
    for _ in range(2):
        clock.now_ms += MINUTE_MS
        app = make_app(MONOTONIC=lambda: float(next(seconds)), BOOT_CLOCK=lambda: clock() / 1000)
        services(app).background.sweeper.excuse_downtime()
        assert services(app).tenancy.databases.open_files() == 0
    jobs = [new_client(each, "admin", app=app).get("/api/v1/jobs/nightly").json for each in organizations]
    assert [job["overdue"] for job in jobs if job] == [False] * 3
    services(app).background.tasks["sweep"].run()
    assert new_client("globex", "admin", app=app).get("/api/v1/incidents").json == {
        "incidents": [],
        "next_cursor": None,
    }


def test_no_run_was_missed_while_the_process_stood_still(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that is paused for a snapshot: both clocks go on, and the clients wait for an answer."""
    world.add("backup", FREQUENT)
    real_seconds = [1_000_000.0]
    monkeypatch.setattr("obs.sweep.time", SimpleNamespace(monotonic=lambda: real_seconds[0]))
    world.sweep()
    world.clock.advance(minutes=30)
    real_seconds[0] += 1800
    world.sweep()
    assert world.job("backup")["overdue"] is False
    world.overdue_at("backup", world.clock() + HOUR_MS)  # the next run is waited for
