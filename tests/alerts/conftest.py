"""A job with history, and the sweep that finds what is wrong with it."""

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from obs.services import services
from tests.conftest import Clock, KeyClient


@pytest.fixture
def sweep(app: Flask) -> Callable[[], None]:
    return services(app).background.tasks["sweep"].run


@pytest.fixture
def admin(new_client: Callable[..., KeyClient]) -> KeyClient:
    return new_client("acme", "admin")


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
