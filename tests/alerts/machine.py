"""A machine whose wall clock a test can set wrong, with the service and a job on it."""

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from obs.background import Background
from obs.services import services
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, parse_iso
from tests.conftest import Clock, KeyClient

PING = "/api/v1/heartbeat/backup/ping"
JOB = "/api/v1/jobs/backup"
PINS = pytest.mark.parametrize("pin", [None, {"interval_seconds": 3600, "grace_seconds": 600}], ids=["learned", "pin"])


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
