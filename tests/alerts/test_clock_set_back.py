"""The wall clock runs ahead when the service starts, and is then set back."""

from collections.abc import Callable

from flask import Flask

from obs.services import services
from obs.times import HOUR_MS
from tests.conftest import Clock, KeyClient


def test_a_job_that_falls_silent_after_the_clock_was_set_back_is_overdue_at_its_moment(
    make_app: Callable[..., Flask], new_client: Callable[..., KeyClient], clock: Clock
) -> None:
    """No job is overdue before the service has been up for a while; that time must not reach into the future."""
    error_ms = 48 * HOUR_MS  # of the wall clock; the monotonic clock has none
    app = make_app(MONOTONIC=lambda: (clock() - error_ms) / 1000)
    client = new_client("acme", app=app)
    background = services(app).background
    sweep = background.tasks["sweep"].run
    wrong_start = clock.advance(ms=error_ms)
    background.sweeper.excuse_downtime()
    sweep()

    clock.advance(ms=-error_ms)
    error_ms = 0
    sweep()
    for _ in range(8):
        clock.advance(hours=1)
        assert client.post("/api/v1/heartbeat/backup/ping").status_code == 200
        sweep()
    overdue_at = client.get("/api/v1/jobs/backup").json["overdue_at"]
    assert clock.set(overdue_at) < wrong_start
    sweep()
    assert client.get("/api/v1/jobs/backup").json["overdue"] is True
