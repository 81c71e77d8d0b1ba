"""A maintenance window for some jobs, or one that recurs, holds for those jobs and those times, and for no others."""

from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest
from flask import Flask

from obs.alerts.store.channels import FILTER_DEFAULTS, Channel
from obs.heartbeat.store import maintenance
from obs.heartbeat.store.record import Attribution
from obs.services import services
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, format_ms, parse_iso
from tests.conftest import ACME, Clock, KeyClient

PLACES = {
    "db/dump": Attribution("nas01", "postgres", "shop"),
    "db/vacuum": Attribution("nas01", "postgres", None),
    "web/cache": Attribution("web01", "nginx", "shop"),
    "Db/other": Attribution(None, None, None),
}
NIGHTLY = {"cron": "0 22 * * *", "timezone": "America/New_York", "duration_seconds": 8 * 3600}


class World:
    """Jobs in several places that ran every hour until now, 2026-06-21 10:00 in UTC."""

    def __init__(self, make_app: Callable[..., Flask], new_client: Callable[..., KeyClient], clock: Clock) -> None:
        self.make_app, self.new_client, self.clock, self.lag_ms = make_app, new_client, clock, 0
        clock.set("2026-06-21T00:00:00Z")
        self.start()

    def start(self) -> None:
        """Start the service, or start it again."""
        self.app = self.make_app(
            MONOTONIC=lambda: (self.clock() - self.lag_ms) / 1000,
            BOOT_CLOCK=lambda: (self.clock() - self.lag_ms) / 1000,
        )
        self.client = self.new_client("acme", "admin", app=self.app)
        services(self.app).background.sweeper.excuse_downtime()
        self.sweep()

    def sweep(self) -> None:
        services(self.app).background.tasks["sweep"].run()

    def run_hourly(self, *jobs: str, times: int = 10) -> None:
        for _ in range(times):
            self.clock.advance(hours=1)
            for name in jobs:
                self.send(name, "ping")
            self.sweep()

    def expect_hourly(self, *jobs: str) -> None:
        """Let these jobs run, and be overdue after 70 minutes of silence."""
        self.run_hourly(*jobs)
        for name in jobs:
            pin = {"interval_seconds": 3600, "grace_seconds": 600}
            assert self.client.patch(f"/api/v1/jobs/{name}", json={"pin": pin}).status_code == 200
        self.sweep()

    def send(self, name: str, what: str) -> None:
        headers = {f"X-Platform-{part.title()}": value for part, value in PLACES[name]._asdict().items() if value}
        assert self.client.post(f"/api/v1/heartbeat/{name}/{what}", headers=headers).status_code == 200

    def maintain(self, **fields: Any) -> dict[str, Any]:
        made = self.client.post("/api/v1/maintenance", json=fields)
        assert made.status_code == 201, made.json
        return dict(made.json or {})

    def maintain_for(self, hours: int, **fields: Any) -> dict[str, Any]:
        now_ms = self.clock()
        times = {"start_time": format_ms(now_ms), "end_time": format_ms(now_ms + hours * HOUR_MS)}
        return self.maintain(**times, **fields)

    def windows(self) -> list[dict[str, Any]]:
        return list((self.client.get("/api/v1/maintenance").json or {})["maintenance_windows"])

    def pass_time(self, until: str, step_ms: int = 20 * MINUTE_MS) -> None:
        end = parse_iso(until)
        while self.clock() < end:
            self.clock.now_ms = min(end, self.clock() + step_ms)
            self.sweep()

    def job(self, name: str) -> dict[str, Any]:
        return dict(self.client.get(f"/api/v1/jobs/{name}").json or {})

    def incidents(self) -> set[tuple[str, str]]:
        found = (self.client.get("/api/v1/incidents?state=open").json or {})["incidents"]
        return {(one["job"], one["kind"]) for one in found}


@pytest.fixture
def world(make_app: Callable[..., Flask], new_client: Callable[..., KeyClient], clock: Clock) -> World:
    return World(make_app, new_client, clock)


@pytest.mark.parametrize(
    ("fields", "covered"),
    [
        ({}, set(PLACES)),
        ({"job_prefix": None, "host": None}, set(PLACES)),
        ({"job_prefix": "db/"}, {"db/dump", "db/vacuum"}),
        ({"job_prefix": "db/dumps"}, set()),
        ({"host": "nas01"}, {"db/dump", "db/vacuum"}),
        ({"host": "NAS01"}, set()),
        ({"host": "nas0"}, set()),
        ({"service": "nginx"}, {"web/cache"}),
        ({"project": "shop"}, {"db/dump", "web/cache"}),
        ({"host": "nas01", "project": "shop"}, {"db/dump"}),
        ({"host": "nas01", "service": "nginx"}, set()),
        ({"job_prefix": "db/v", "host": "nas01", "service": "postgres"}, {"db/vacuum"}),
    ],
)
def test_a_window_covers_the_jobs_that_a_channel_with_the_same_fields_would_report(
    world: World, fields: dict[str, Any], covered: set[str]
) -> None:
    made = world.maintain_for(2, **fields)
    assert {name: made[name] for name in fields} == fields
    for name in PLACES:
        world.send(name, "end?status=fail")
    world.clock.advance(minutes=1)
    world.sweep()
    assert world.incidents() == {(name, "failing") for name in PLACES.keys() - covered}
    channel = Channel(1, "x", "webhook", "", "", None, enabled=True, filter={**FILTER_DEFAULTS, **fields})
    assert {name for name, place in PLACES.items() if channel.wants("failed", name, place)} == covered
    world.clock.advance(hours=2)
    world.sweep()
    assert world.incidents() == {(name, "failing") for name in PLACES}


def test_only_jobs_of_the_host_are_not_overdue(world: World) -> None:
    world.expect_hourly("db/dump", "web/cache")
    world.maintain_for(8, host="nas01")
    world.pass_time("2026-06-21T18:00:00Z")
    assert world.incidents() == {("web/cache", "overdue")}
    assert (world.job("db/dump")["overdue"], world.job("db/dump")["status"]) == (False, "ok")
    world.pass_time("2026-06-21T20:00:00Z")
    assert world.incidents() == {("web/cache", "overdue"), ("db/dump", "overdue")}
    assert "2026-06-21T19:00" <= world.job("db/dump")["overdue_at"] < "2026-06-21T19:30"


@pytest.mark.parametrize("change", [{"host": "nas01"}, {"name": "db/moved"}])
def test_a_job_that_is_moved_into_maintenance_does_not_become_overdue(world: World, change: dict[str, str]) -> None:
    world.expect_hourly("web/cache")
    world.maintain_for(8, host="nas01") if "host" in change else world.maintain_for(8, job_prefix="db/")
    assert world.client.patch("/api/v1/jobs/web/cache", json=change).status_code == 200
    world.pass_time("2026-06-21T18:00:00Z")
    assert world.incidents() == set()
    world.pass_time("2026-06-21T20:00:00Z")
    assert world.incidents() == {(change.get("name", "web/cache"), "overdue")}


def test_a_job_that_moves_to_another_host_is_judged_again(world: World) -> None:
    world.expect_hourly("db/dump")
    world.maintain_for(8, host="nas01")
    world.client.post("/api/v1/heartbeat/db/dump/ping", headers={"X-Platform-Host": "web01"})
    world.pass_time("2026-06-21T12:30:00Z")
    assert world.incidents() == {("db/dump", "overdue")}


def test_what_is_over_of_a_deleted_window_stays_unknown_and_only_for_its_jobs(world: World) -> None:
    world.expect_hourly("db/dump", "web/cache")
    before = world.job("web/cache")["overdue_at"]
    made = world.maintain_for(24, host="nas01")
    world.pass_time("2026-06-21T10:50:00Z")
    world.clock.set("2026-06-21T11:30:00Z")
    assert world.client.delete(f"/api/v1/maintenance/{made['id']}").status_code == 204
    world.sweep()
    assert (world.windows(), world.job("web/cache")["overdue_at"]) == ([], before)
    assert world.incidents() == {("web/cache", "overdue")}
    assert "2026-06-21T12:00" <= world.job("db/dump")["overdue_at"] < "2026-06-21T13:00"
    world.pass_time("2026-06-21T13:00:00Z")
    assert world.incidents() == {("web/cache", "overdue"), ("db/dump", "overdue")}


def test_a_job_that_is_renamed_after_a_window_keeps_what_was_unknown(world: World) -> None:
    world.client.put("/api/v1/jobs/db-x", json={"pin": {"cron": "0 2 * * *"}})
    world.clock.set("2026-06-25T00:00:00Z")
    world.client.post("/api/v1/heartbeat/db-x/ping")
    window = {"start_time": "2026-06-25T01:30:00Z", "end_time": "2026-06-25T06:00:00Z", "job_prefix": "db-"}
    assert world.client.post("/api/v1/maintenance", json=window).status_code == 201
    world.clock.set("2026-06-25T10:00:00Z")
    world.sweep()
    assert world.client.patch("/api/v1/jobs/db-x", json={"name": "pg-x"}).status_code == 200
    world.sweep()
    renamed = world.client.get("/api/v1/jobs/pg-x").json
    assert (renamed["overdue"], renamed["expected_at"]) == (False, "2026-06-26T02:00:00.000Z")


@pytest.mark.parametrize(
    ("cron", "status"), [("0 0 29 2 */7", 201), ("0 0 */31 2 1#5", 422), ("0 1,4,7,10,13,16,19,22 * * *", 422)]
)
def test_a_window_may_begin_seldom_but_not_before_it_has_ended_on_any_day_of_a_year(
    world: World, cron: str, status: int
) -> None:
    world.clock.set("2026-12-01T00:00:00Z")  # far from the day with 23 hours
    window = {"cron": cron, "timezone": "Europe/Berlin", "duration_seconds": 9_000}
    assert world.client.post("/api/v1/maintenance", json=window).status_code == status


def test_a_deleted_window_that_had_not_begun_leaves_nothing(world: World) -> None:
    world.expect_hourly("db/dump")
    before = world.job("db/dump")
    made = world.maintain(start_time="2026-06-21T10:30:00Z", end_time="2026-06-21T20:00:00Z", host="nas01")
    assert world.job("db/dump")["overdue_at"] != before["overdue_at"]
    world.client.delete(f"/api/v1/maintenance/{made['id']}")
    world.sweep()
    assert world.job("db/dump") == before


def test_a_recurring_window_has_the_times_of_its_current_or_next_occurrence(world: World) -> None:
    made = world.maintain(**NIGHTLY, host="nas01", title="Disks")
    assert made == world.windows()[0]
    assert {name: made[name] for name in NIGHTLY} == NIGHTLY
    assert (made["start_time"], made["end_time"]) == ("2026-06-21T02:00:00.000Z", "2026-06-21T10:00:00.000Z")
    for now, start in (("09:59:59", "21T02"), ("10:00:00", "22T02"), ("23:00:00", "22T02")):
        world.clock.set(f"2026-06-21T{now}Z")
        world.sweep()
        assert [one["start_time"][:13] for one in world.windows()] == [f"2026-06-{start}"]
    world.clock.set("2026-06-23T03:00:00Z")
    during = world.maintain(**NIGHTLY)
    assert during["start_time"] == "2026-06-23T02:00:00.000Z"


def test_a_sweep_does_not_read_windows_while_none_recurs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be thousands of them."""
    world.maintain_for(1)
    world.maintain(**NIGHTLY)
    world.sweep()
    window = Mock(side_effect=maintenance.MaintenanceWindow)
    window.__slots__ = maintenance.MaintenanceWindow.__slots__
    monkeypatch.setattr(maintenance, "MaintenanceWindow", window)
    world.pass_time("2026-06-21T09:40:00Z")
    assert not window.called
    world.pass_time("2026-06-21T10:00:00Z")
    assert window.called


def test_a_window_is_deleted_after_the_retention_and_its_time_stays_unknown(world: World) -> None:
    world.expect_hourly("db/dump")
    world.maintain_for(3, host="nas01")
    recurring = world.maintain(**NIGHTLY, host="web01")
    purge = services(world.app).background.tasks["purge"].run
    covered = "SELECT start_time, end_time FROM unknown_times_by_job WHERE job_id = 1 AND end_time - start_time = ?"
    with services(world.app).tenancy.databases.read(ACME) as db:
        before = db.execute(covered, (3 * HOUR_MS,)).fetchall()
    assert len(before) == 1
    world.clock.advance(hours=3, days=90)
    world.sweep()
    purge()
    assert len(world.windows()) == 2
    world.clock.advance(ms=1)
    purge()
    assert [one["id"] for one in world.windows()] == [recurring["id"]]
    with services(world.app).tenancy.databases.read(ACME) as db:
        assert db.execute(covered, (3 * HOUR_MS,)).fetchall() == before


def test_nothing_becomes_overdue_in_any_occurrence_and_everything_does_between_them(world: World) -> None:
    world.expect_hourly("db/dump", "web/cache")
    world.maintain(cron="0 11 * * *", duration_seconds=6 * 3600, host="nas01")
    for day in (21, 22):
        world.pass_time(f"2026-06-{day}T17:00:00Z")
        assert ("db/dump", "overdue") not in world.incidents()
        assert ("web/cache", "overdue") in world.incidents() or day == 22
        world.run_hourly("db/dump", times=17 if day == 21 else 1)
    world.pass_time("2026-06-22T20:00:00Z")
    assert ("db/dump", "overdue") in world.incidents()


def test_the_learner_does_not_take_occurrences_for_the_schedule(world: World) -> None:
    """The job is silent for the same six hours of five days. On the day after the window is deleted, it is missed."""
    made = world.maintain(cron="30 10 * * *", duration_seconds=6 * 3600, job_prefix="db/")
    for _ in range(5):
        world.run_hourly("db/dump")
        world.pass_time(format_ms(world.clock() + 6 * HOUR_MS), HOUR_MS)
        world.run_hourly("db/dump", times=8)
    assert world.incidents() == set()
    world.run_hourly("db/dump")
    assert world.client.delete(f"/api/v1/maintenance/{made['id']}").status_code == 204
    world.pass_time(format_ms(world.clock() + 2 * HOUR_MS))
    assert world.incidents() == {("db/dump", "overdue")}


@pytest.mark.parametrize(
    ("day", "nights"),
    [
        (
            "2026-10-30",
            [
                ("2026-10-31T02", "2026-10-31T10"),
                ("2026-11-01T02", "2026-11-01T10"),
                ("2026-11-02T03", "2026-11-02T11"),
            ],
        ),
        (
            "2027-03-12",
            [
                ("2027-03-13T03", "2027-03-13T11"),
                ("2027-03-14T03", "2027-03-14T11"),
                ("2027-03-15T02", "2027-03-15T10"),
            ],
        ),
    ],
)
def test_occurrences_follow_the_clock_of_their_zone(world: World, day: str, nights: list[tuple[str, str]]) -> None:
    world.clock.set(f"{day}T12:00:00Z")
    world.start()
    world.maintain(**NIGHTLY)
    found = []
    for _, end in nights:
        (window,) = world.windows()
        found.append((window["start_time"][:13], window["end_time"][:13]))
        world.clock.set(f"{end}:00:00Z")
        world.sweep()
    assert found == nights


def test_an_occurrence_that_began_while_the_service_was_down_counts_from_the_start(world: World) -> None:
    world.expect_hourly("db/dump")
    world.maintain(cron="0 12 * * *", duration_seconds=6 * 3600, host="nas01")
    world.send("db/dump", "ping")
    world.clock.set("2026-06-24T12:30:00Z")  # three days later
    world.start()
    assert world.windows()[0]["start_time"] == "2026-06-24T12:00:00.000Z"
    world.pass_time("2026-06-24T18:00:00Z")
    assert world.incidents() == set()
    world.pass_time("2026-06-24T20:00:00Z")
    assert world.incidents() == {("db/dump", "overdue")}


def test_a_wall_clock_that_was_wrong_for_a_while_does_not_move_a_recurring_window(world: World) -> None:
    world.maintain(**NIGHTLY)
    right = world.clock()
    for ahead_ms in (400 * DAY_MS, -400 * DAY_MS):
        world.clock.now_ms, world.lag_ms = right + ahead_ms, ahead_ms
        world.sweep()
        world.clock.now_ms, world.lag_ms = right + MINUTE_MS, 0
        world.sweep()
        assert world.windows()[0]["start_time"] == "2026-06-21T02:00:00.000Z"
        right += MINUTE_MS


@pytest.mark.parametrize(
    ("fields", "errors"),
    [
        ({}, {"start_time", "end_time"}),
        ({"end_time": "2026-06-22T00:00:00Z"}, {"start_time"}),
        ({"cron": "0 22 * * *"}, {"duration_seconds"}),
        ({"duration_seconds": 60}, {"cron"}),
        ({"timezone": "Europe/Berlin"}, {"cron", "duration_seconds"}),
        ({**NIGHTLY, "start_time": "2026-06-22T00:00:00Z"}, {"start_time"}),
        ({**NIGHTLY, "cron": "0 25 * * *"}, {"cron"}),
        ({**NIGHTLY, "cron": "@reboot"}, {"cron"}),
        ({**NIGHTLY, "timezone": "Mars"}, {"timezone"}),
        ({**NIGHTLY, "duration_seconds": 59}, {"duration_seconds"}),
        ({**NIGHTLY, "duration_seconds": 31 * 86400 + 1, "cron": "0 0 1 1 *"}, {"duration_seconds"}),
        ({**NIGHTLY, "duration_seconds": 86400}, {"cron"}),
        ({**NIGHTLY, "duration_seconds": 23 * 3600}, {"cron"}),
        ({**NIGHTLY, "duration_seconds": 60, "cron": "*/30 * * * *"}, {"cron"}),
        ({**NIGHTLY, "duration_seconds": 60, "cron": "* * * * * *"}, {"cron"}),
        ({**NIGHTLY, "host": ""}, {"host"}),
        ({**NIGHTLY, "job_prefix": "x" * 201}, {"job_prefix"}),
    ],
)
def test_a_window_that_is_not_valid_is_refused_by_its_fields(
    world: World, fields: dict[str, Any], errors: set[str]
) -> None:
    refused = world.client.post("/api/v1/maintenance", json=fields)
    assert refused.status_code == 422
    assert (refused.json or {})["errors"]["json"].keys() == errors
    assert world.windows() == []


@pytest.mark.parametrize(
    ("cron", "seconds"),
    [("0 * * * *", 3599), ("0 0 * * *", 23 * 3600 - 1), ("0 0 1 1 *", 31 * 86400), ("0 0 29 2 *", 60)],
)
def test_a_window_may_be_as_long_as_it_ends_before_it_begins_again(world: World, cron: str, seconds: int) -> None:
    made = world.maintain(cron=cron, duration_seconds=seconds, timezone="Europe/Berlin")
    assert parse_iso(made["end_time"]) - parse_iso(made["start_time"]) == seconds * 1000
    assert world.client.delete(f"/api/v1/maintenance/{made['id']}").status_code == 204
    assert world.windows() == []
