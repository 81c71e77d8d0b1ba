"""A job with history, the sweep that finds what is wrong with it, receivers of alerts, and a visitor of the pages."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flask import Flask

from obs.services import services
from obs.storage.databases import Databases, Org
from obs.times import DAY_MS, HOUR_MS, format_ms
from tests.alerts.machine import PING, Server
from tests.alerts.receiver import Receiver
from tests.alerts.world import World
from tests.conftest import ACME, Clock, KeyClient
from tests.dashboard.conftest import Visitor


@pytest.fixture
def sweep(app: Flask) -> Callable[[], None]:
    return services(app).background.tasks["sweep"].run


class Job:
    """The job ``backup`` of ``acme``, which pings every hour."""

    def __init__(self, client: KeyClient, clock: Clock, sweep: Callable[[], None]) -> None:
        self.client, self.clock, self.sweep = client, clock, sweep

    def ping_hourly(self, times: int) -> None:
        for _ in range(times):
            self.clock.advance(hours=1)
            assert self.client.post("/api/v1/heartbeat/backup/ping").status_code == 200
            self.sweep()

    def end(self, status: str) -> None:
        self.clock.advance(hours=1)
        assert self.client.post(f"/api/v1/heartbeat/backup/end?status={status}").status_code == 200
        self.sweep()

    def read(self) -> dict[str, Any]:
        answer = self.client.get("/api/v1/jobs/backup")
        assert answer.status_code == 200
        return dict(answer.json or {})

    def go_silent(self) -> str:
        """Move to the moment from which it is overdue, and sweep; returns that moment."""
        overdue_at = str(self.read()["overdue_at"])
        self.clock.set(overdue_at)
        self.sweep()
        return overdue_at

    def incidents(self) -> list[list[Any]]:
        """[kind, start, end] of all incidents, oldest first."""
        query = "SELECT kind, time, ended_at FROM incidents ORDER BY time BETWEEN '2026-01-01' AND '2027-01-01'"
        answer = self.client.post("/api/v1/dsl", json={"query": query})
        assert answer.status_code == 200, answer.json
        return list((answer.json or {})["rows"])


@pytest.fixture
def job(client: KeyClient, clock: Clock, sweep: Callable[[], None]) -> Job:
    made = Job(client, clock, sweep)
    made.ping_hourly(8)
    return made


@pytest.fixture
def world(app: Flask, new_client: Callable[..., KeyClient], clock: Clock) -> World:
    return World(app, new_client("acme", "admin"), clock)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    one = Receiver()
    yield one
    one.close()


@pytest.fixture
def other_receiver() -> Iterator[Receiver]:
    one = Receiver()
    yield one
    one.close()


@pytest.fixture
def visitor(world: World) -> Visitor:
    """Signed in to the organization of `world` as an admin."""
    one = Visitor(world.app)
    one.sign_in(str(world.client.key))
    one.get("/settings")
    return one


@pytest.fixture
def server(make_app: Callable[..., Flask], new_client: Callable[..., KeyClient], clock: Clock) -> Server:
    """A machine on which the job ``backup`` has pinged every hour for four days."""
    server = Server(make_app, new_client, clock)
    for hours in range(100, -1, -1):
        server.client.post(PING, query_string={"time": format_ms(clock() - hours * HOUR_MS)})
    server.sweep()
    return server


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of processor time, which do not depend on other processes, of each unit of work that is written."""
    found: list[float] = []
    write = Databases.write

    def measured(self: Databases, org: Org, unit: Callable[[sqlite3.Connection], Any]) -> Any:
        def timed(db: sqlite3.Connection) -> Any:
            started = time.thread_time()
            try:
                return unit(db)
            finally:
                found.append(time.thread_time() - started)

        return write(self, org, timed)

    monkeypatch.setattr(Databases, "write", measured)
    return found


def add_overdue_jobs(databases: Databases, count: int, now_ms: int) -> None:
    """Add jobs to ``acme`` that become overdue at `now_ms`."""

    def add(db: sqlite3.Connection) -> None:
        db.executemany(
            "INSERT INTO jobs (name, created_at, last_heartbeat_at, last_event_id, learned_event_id, expected_at,"
            " overdue_at) VALUES (?1, ?2, ?2, 1, 1, ?3, ?3)",
            [(f"job-{number}", now_ms - DAY_MS, now_ms) for number in range(count)],
        )

    databases.write(ACME, add)
