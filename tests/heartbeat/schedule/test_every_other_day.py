"""A job of the crontab line ``0 3 */2 * *`` runs on odd days, so on the 31st and on the 1st."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from flask import Flask

from obs.services import services
from obs.times import format_ms, parse_iso
from tests.conftest import Clock, KeyClient


def test_it_is_expected_on_the_first_after_the_thirty_first(app: Flask, client: KeyClient, clock: Clock) -> None:
    sweep: Callable[[], None] = services(app).background.tasks["sweep"].run
    day = datetime(2026, 6, 23, 3, tzinfo=UTC)
    while day <= datetime(2026, 8, 31, 3, tzinfo=UTC):
        if day.day % 2 == 1:
            clock.now_ms = round(day.timestamp() * 1000)
            assert client.post("/api/v1/heartbeat/backup/ping").status_code == 200
            sweep()
        day += timedelta(days=1)
    job = client.get("/api/v1/jobs/backup").json
    assert job["expected_at"] == "2026-09-01T03:00:00.000Z"
    assert parse_iso(job["overdue_at"]) < parse_iso("2026-09-02T03:00:00Z")
    clock.set(format_ms(parse_iso(job["overdue_at"])))
    sweep()
    assert client.get("/api/v1/jobs/backup").json["overdue"] is True
