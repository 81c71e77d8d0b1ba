"""A job is learned from more heartbeats than are stored as runs, and from each of them once, whenever it arrives."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from obs.heartbeat import schedule
from obs.services import services
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, format_ms, parse_iso
from tests.conftest import ACME, Clock, KeyClient
from tests.heartbeat.conftest import Sender

Rows = Callable[..., list[dict[str, Any]]]
Sweep = Callable[[], None]
MIDNIGHT = parse_iso("2026-03-02T00:00:00Z")


def _job(client: KeyClient, name: str = "backup") -> dict[str, Any]:
    answer = client.get(f"/api/v1/jobs/{name}")
    assert answer.status_code == 200
    return dict(answer.json)


def _schedule(client: KeyClient, name: str = "backup") -> tuple[Any, ...]:
    job = _job(client, name)
    return job["expected_at"], job["overdue_at"], job["learned"]


def _add_runs(app: Flask, times: list[int]) -> None:
    """Stores pings of the job `backup`, except for their events: so many requests would take minutes."""

    def add(db: Any) -> None:
        (job_id,) = db.execute("SELECT id FROM jobs WHERE name = 'backup'").fetchone()
        db.executemany(
            "INSERT INTO runs (job_id, status, started_at, ended_at, heartbeat_at) VALUES (?1, 1, ?2, ?2, ?2)",
            [(job_id, time) for time in times],
        )

    services(app).tenancy.databases.write(ACME, add)


def test_the_end_of_a_job_that_ran_every_minute_is_noticed_after_a_quiet_hour_too(
    app: Flask, client: KeyClient, by_path: Sender, clock: Clock, sweep: Sweep
) -> None:
    """Its last 256 runs are from four hours, and say nothing about the hours of the day."""
    last = MIDNIGHT + 15 * DAY_MS + 59 * MINUTE_MS
    clock.now_ms = last - 9 * MINUTE_MS
    by_path("ping")
    _add_runs(app, list(range(MIDNIGHT, clock(), MINUTE_MS)))
    sweep()
    while clock() < last:
        clock.advance(minutes=1)
        by_path("ping")
        sweep()
    for _ in range(30):
        assert not _job(client)["overdue"] or clock() > last + MINUTE_MS
        clock.advance(minutes=1)
        sweep()
    assert _job(client)["overdue"] is True


def test_what_was_purged_stays_in_the_memory_also_after_a_restart(
    app: Flask, make_app: Callable[..., Flask], new_client: Callable[..., KeyClient], clock: Clock, rows: Rows
) -> None:
    """A monthly job, with runs of the last 90 days in the file."""
    times = []
    client, tasks = new_client("acme", "admin"), services(app).background.tasks
    for month in range(24):
        clock.set(f"{2026 + month // 12}-{month % 12 + 1:02}-05T04:00:00Z")
        tasks["sweep"].run()
        if month == 20:
            again = make_app()
            client, tasks = new_client("acme", "admin", app=again), services(again).background.tasks
        Sender(client, "path")("ping")
        times.append(clock())
        tasks["sweep"].run()
        tasks["purge"].run()
    assert rows("SELECT count(*) AS n FROM runs")[0]["n"] <= 4
    fit = None
    for count in range(len(times)):
        fit = schedule.learn(times[: count + 1], ["UTC"], fit)
    assert fit is not None
    overdue_at = fit.overdue_at
    assert overdue_at is not None
    assert overdue_at < clock() + 33 * DAY_MS
    assert _job(client)["overdue_at"] == format_ms(overdue_at)
    clock.now_ms = overdue_at
    tasks["sweep"].run()
    assert _job(client)["overdue"] is True


@pytest.mark.parametrize("seed", range(3))
def test_heartbeats_that_arrive_late_and_in_any_order_are_learned_as_in_order(
    seed: int, client: KeyClient, by_path: Sender, clock: Clock, sweep: Sweep
) -> None:
    chosen = random.Random(seed)
    times = [clock() - number * HOUR_MS + chosen.randrange(20_000) for number in range(400, 0, -1)]
    for time in times:
        by_path("ping", "in-order", time=format_ms(time))
    sweep()
    late = [*chosen.sample(times[:-1], 399)]
    late.insert(100, times[-1])
    for number, time in enumerate(late):
        by_path("ping", "shuffled", time=format_ms(time))
        if number % 37 == 0 or number == len(late) - 1:
            clock.advance(seconds=1)
            sweep()
    assert _schedule(client, "shuffled") == _schedule(client, "in-order")


def test_a_run_that_is_old_when_it_is_reported_is_learned_from(
    app: Flask, client: KeyClient, by_path: Sender, clock: Clock, sweep: Sweep, rows: Rows
) -> None:
    """It is not among the last 256 runs, and alone in its hour."""
    clock.now_ms = MIDNIGHT + 10 * DAY_MS
    by_path("ping")
    _add_runs(app, [clock() - number * MINUTE_MS for number in range(1, 300)])
    sweep()
    before = schedule.Memory.decode(rows("SELECT memory FROM memories")[0]["memory"]).times
    clock.advance(minutes=1)
    by_path("ping", time=format_ms(MIDNIGHT))
    sweep()
    after = schedule.Memory.decode(rows("SELECT memory FROM memories")[0]["memory"]).times
    assert after == (MIDNIGHT, *before)


def test_the_memory_goes_with_its_job_and_survives_a_new_name(
    new_client: Callable[..., KeyClient], by_path: Sender, clock: Clock, sweep: Sweep, rows: Rows
) -> None:
    for _ in range(4):
        clock.advance(hours=1)
        by_path("ping")
        sweep()
    memory = rows("SELECT memory FROM memories")
    assert len(memory) == 1
    admin = new_client("acme", "admin")
    assert admin.patch("/api/v1/jobs/backup", json={"name": "copy"}).status_code == 200
    sweep()
    assert rows("SELECT memory FROM memories") == memory
    assert admin.delete("/api/v1/jobs/copy").status_code == 204
    assert rows("SELECT memory FROM memories") == []


def test_a_file_without_memories_gets_them_from_its_runs(
    app: Flask, client: KeyClient, by_path: Sender, clock: Clock, sweep: Sweep
) -> None:
    """As after the migration, or after an import."""
    for _ in range(50):
        clock.advance(hours=1)
        by_path("ping")
        sweep()
    services(app).tenancy.databases.write(ACME, lambda db: db.execute("DELETE FROM memories").rowcount)
    clock.advance(hours=1)
    by_path("ping")
    sweep()
    services(app).tenancy.databases.write(ACME, lambda db: db.execute("DELETE FROM runs").rowcount)
    clock.advance(hours=1)
    by_path("ping")
    sweep()
    assert _job(client)["expected_at"] == format_ms(clock() + HOUR_MS)
