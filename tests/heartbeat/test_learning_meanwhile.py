"""What is learned while other things change: floods of heartbeats, upgrades, windows that are deleted."""

import itertools
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from flask import Flask

from obs.services import services
from obs.storage.databases import Org
from obs.times import format_ms, parse_iso
from tests.conftest import ACME, Clock, KeyClient
from tests.heartbeat.conftest import Sender

Sweep = Callable[[], None]
JOBS = [f"job{number}" for number in range(4)]


def _read(client: KeyClient, job: str) -> dict[str, Any]:
    return dict(client.get(f"/api/v1/jobs/{job}").json)


def _incidents(client: KeyClient) -> list[Any]:
    query = "SELECT kind, ended_at FROM incidents BETWEEN '2026-01-01' AND '2027-01-01'"
    return list(client.post("/api/v1/dsl", json={"query": query}).json["rows"])


@pytest.fixture
def hourly(by_path: Sender, clock: Clock, sweep: Sweep) -> None:
    """Every job has pinged every hour, and all of it was learned from."""
    for _ in range(8):
        clock.advance(hours=1)
        for job in JOBS:
            by_path("ping", job)
        for _ in JOBS:  # a sweep on a busy machine may have time for one job only
            sweep()


@pytest.mark.usefixtures("hourly")
def test_a_heartbeat_that_was_not_learned_from_yet_is_not_overdue_by_the_deadline_before_it(
    client: KeyClient, by_path: Sender, clock: Clock, sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    overdue_at = {_read(client, job)["overdue_at"] for job in JOBS}
    clock.set(min(overdue_at))
    clock.advance(ms=-1)
    silent, *others = JOBS
    for job in others:
        by_path("ping", job)
    clock.set(max(overdue_at))
    monkeypatch.setattr("time.monotonic", itertools.count(step=60).__next__)  # each sweep learns from one job only
    for _ in JOBS:
        sweep()
        assert _read(client, silent)["overdue"] is True
        assert [_read(client, job)["overdue"] for job in others] == [False] * len(others)
    monkeypatch.undo()
    assert _incidents(client) == [["overdue", None]]


@pytest.mark.usefixtures("hourly")
def test_an_upgrade_does_not_end_a_spell(
    app: Flask, make_app: Callable[..., Flask], client: KeyClient, clock: Clock, sweep: Sweep
) -> None:
    clock.set(max(_read(client, job)["overdue_at"] for job in JOBS))
    sweep()
    before = [_read(client, job) for job in JOBS]
    assert all(job["overdue"] for job in before)

    def forget(db: sqlite3.Connection) -> None:
        db.execute("UPDATE fits SET version = -1")

    services(app).tenancy.databases.write(ACME, forget)
    background = services(make_app()).background
    background.sweeper.excuse_downtime()
    for _ in JOBS:
        background.tasks["sweep"].run()
    after = [_read(client, job) for job in JOBS]
    assert [job["status"] for job in after] == ["overdue"] * len(JOBS)
    assert _incidents(client) == [["overdue", None]] * len(JOBS)


def test_a_window_that_is_deleted_while_it_is_learned_excuses_nothing(
    app: Flask,
    new_client: Callable[..., KeyClient],
    by_path: Sender,
    clock: Clock,
    sweep: Sweep,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for _ in range(8):
        clock.advance(hours=1)
        by_path("ping")
        sweep()
    admin = new_client("acme", "admin")
    clock.advance(hours=1)
    window = {"start_time": format_ms(clock()), "end_time": format_ms(clock() + 30 * 86_400_000)}
    made = admin.post("/api/v1/maintenance", json=window).json
    by_path("ping")
    databases = services(app).tenancy.databases
    read = databases.read
    deleted: list[int] = []

    @contextmanager
    def delete_after_reading(org: Org) -> Iterator[sqlite3.Connection]:
        with read(org) as db:
            yield db
        if not deleted:
            deleted.append(admin.delete(f"/api/v1/maintenance/{made['id']}").status_code)

    monkeypatch.setattr(databases, "read", delete_after_reading)
    sweep()
    assert deleted == [204]
    sweep()
    assert parse_iso(_read(admin, "backup")["overdue_at"]) < parse_iso(window["end_time"])
