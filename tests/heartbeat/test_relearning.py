"""Old expectations apply until a job is learned again, and no new heartbeat is mistaken for one that was learned."""

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from obs import sweep as sweeping
from obs.services import services
from obs.tenancy import auth
from obs.times import parse_iso
from tests.conftest import ACME, Clock, KeyClient
from tests.heartbeat.conftest import Sender

Rows = Callable[..., list[dict[str, Any]]]
Sweep = Callable[[], None]
JOBS = [f"job{number}" for number in range(6)]


def _read(client: KeyClient, job: str) -> dict[str, Any]:
    answer = client.get(f"/api/v1/jobs/{job}")
    assert answer.status_code == 200
    return dict(answer.json or {})


@pytest.fixture
def upgrade(app: Flask, make_app: Callable[..., Flask]) -> Callable[[], Sweep]:
    """Restarts the service with another version of the learner; returns its sweep."""

    def up() -> Sweep:
        tenancy: auth.Tenancy = services(app).tenancy
        tenancy.databases.write(ACME, lambda db: db.execute("UPDATE fits SET version = -1").rowcount)
        again = services(make_app()).background
        again.sweeper.excuse_downtime()
        return again.tasks["sweep"].run

    return up


@pytest.fixture
def no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep has time to learn one job."""
    for name in ("ALONE_SECONDS", "LEARNING_SECONDS"):
        monkeypatch.setattr(sweeping, name, 0.0)


@pytest.fixture
def hourly(by_path: Sender, clock: Clock, sweep: Sweep) -> None:
    """Every job has pinged every hour."""
    for _ in range(5):
        clock.advance(hours=1)
        for job in JOBS:
            by_path("ping", job)
        for _ in JOBS:  # a sweep on a busy machine may have time for one job only
            sweep()


def _learned(rows: Rows) -> int:
    return int(rows("SELECT count(*) AS n FROM fits WHERE version <> -1")[0]["n"])


@pytest.mark.usefixtures("hourly", "no_time")
def test_after_an_upgrade_one_job_after_the_other_is_learned_again(
    upgrade: Callable[[], Sweep], client: KeyClient, rows: Rows
) -> None:
    before = [_read(client, job) for job in JOBS]
    sweep = upgrade()
    for number in range(len(JOBS) + 1):
        assert _learned(rows) == number
        assert [_read(client, job) for job in JOBS] == before
        sweep()
    assert _learned(rows) == len(JOBS)


@pytest.mark.usefixtures("hourly", "no_time")
def test_a_job_that_is_not_learned_again_yet_becomes_overdue_in_time(
    upgrade: Callable[[], Sweep], client: KeyClient, clock: Clock, rows: Rows
) -> None:
    overdue_at = {_read(client, job)["overdue_at"] for job in JOBS}
    sweep = upgrade()
    clock.set(min(overdue_at))
    clock.advance(ms=-1)
    sweep()
    assert {_read(client, job)["status"] for job in JOBS} == {"late"}
    clock.set(max(overdue_at))
    assert {_read(client, job)["status"] for job in JOBS} == {"overdue"}
    sweep()
    since = rows("SELECT overdue_since FROM jobs")
    assert {row["overdue_since"] for row in since} == {parse_iso(moment) for moment in overdue_at}
    assert 0 < _learned(rows) < len(JOBS)


@pytest.mark.usefixtures("hourly", "no_time")
def test_a_heartbeat_is_learned_from_before_the_others_are_learned_again(
    upgrade: Callable[[], Sweep], client: KeyClient, by_path: Sender, clock: Clock
) -> None:
    sweep = upgrade()
    clock.advance(hours=1)
    for job in JOBS[3:]:
        by_path("ping", job)
    for _ in JOBS[3:]:
        sweep()
    for job in JOBS[3:]:
        assert parse_iso(_read(client, job)["expected_at"]) > clock()
    assert parse_iso(_read(client, JOBS[2])["expected_at"]) <= clock()


@pytest.mark.usefixtures("hourly", "no_time")
def test_a_maintenance_window_that_is_deleted_leaves_no_gap(
    new_client: Callable[..., KeyClient], client: KeyClient, clock: Clock
) -> None:
    """A job that was due to become overdue is overdue, although it was not learned again yet."""
    overdue_at = _read(client, JOBS[5])["overdue_at"]
    admin = new_client("acme", "admin")
    window = {"start_time": "2027-01-01T00:00:00Z", "end_time": "2027-01-02T00:00:00Z"}
    made = admin.post("/api/v1/maintenance", json=window).json
    assert made is not None
    assert admin.delete(f"/api/v1/maintenance/{made['id']}").status_code == 204
    clock.set(overdue_at)
    assert _read(client, JOBS[5])["status"] == "overdue"


def test_a_heartbeat_with_the_number_of_one_that_was_purged_is_learned_from(
    app: Flask, client: KeyClient, by_path: Sender, clock: Clock, sweep: Sweep, rows: Rows
) -> None:
    """SQLite reuses ids once the last rows are deleted."""
    for _ in range(4):
        clock.advance(hours=1)
        by_path("ping")
        sweep()
    (last,) = rows("SELECT max(id) AS id FROM events")
    clock.advance(days=91)
    sweep()
    assert _read(client, "backup")["status"] == "overdue"
    services(app).background.tasks["purge"].run()
    assert rows("SELECT id FROM events") == []
    assert _read(client, "backup")["status"] == "overdue"
    for _ in range(last["id"] - 1):
        by_path("ping", "other")
    by_path("ping")
    assert rows("SELECT id FROM events ORDER BY id DESC LIMIT 1") == [last]
    sweep()
    assert _read(client, "backup")["overdue"] is False
    assert parse_iso(_read(client, "backup")["overdue_at"]) > clock()
