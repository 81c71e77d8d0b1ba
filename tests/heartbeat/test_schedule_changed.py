"""A person says when the schedule of a job has changed: it is learned again from what came since."""

from collections.abc import Callable
from typing import Any

import pytest

from obs.times import format_ms, parse_iso
from tests.conftest import Clock, KeyClient
from tests.heartbeat.conftest import Sender

JOB = "/api/v1/jobs/backup"


@pytest.fixture
def every(by_path: Sender, clock: Clock, sweep: Callable[[], None]) -> Callable[..., None]:
    def ping(runs: int, **interval: int) -> None:
        for _ in range(runs):
            clock.advance(**interval)
            sweep()
            by_path("ping")
            sweep()

    return ping


def _job(admin: KeyClient) -> dict[str, Any]:
    return dict(admin.get(JOB).json or {})


def test_an_hourly_job_that_became_daily_is_learned_from_its_first_daily_run_on(
    admin: KeyClient, every: Callable[..., None], clock: Clock, sweep: Callable[[], None]
) -> None:
    every(30, hours=1)
    clock.advance(hours=5)
    sweep()
    assert _job(admin)["overdue"] is True
    answer = admin.patch(JOB, json={"schedule_changed_at": format_ms(clock())})
    assert answer.status_code == 200
    sweep()
    job = _job(admin)
    assert (job["overdue"], job["expected_at"], job["status"]) == (False, None, "new")
    assert (job["schedule_changed_at"], job["learned"]["summary"]) == (
        format_ms(clock()),
        "Learning: 0 of 3 runs so far",
    )
    every(4, days=1)
    job = _job(admin)
    assert parse_iso(job["expected_at"]) - clock() == pytest.approx(86_400_000, abs=60_000)
    incidents = admin.post("/api/v1/dsl", json={"query": "SELECT ended_at FROM incidents LAST 30d"}).json["rows"]
    assert len(incidents) == 1
    assert incidents[0][0] is not None


def test_a_schedule_cannot_change_in_the_future(admin: KeyClient, every: Callable[..., None], clock: Clock) -> None:
    every(30, hours=1)
    before = _job(admin)
    answer = admin.patch(JOB, json={"schedule_changed_at": format_ms(clock() + 1)})
    assert (answer.status_code, answer.json["error"]) == (422, "invalid_field")
    assert _job(admin) == before


def test_without_a_time_all_heartbeats_are_learned_from_again(
    admin: KeyClient, every: Callable[..., None], clock: Clock, sweep: Callable[[], None]
) -> None:
    every(30, hours=1)
    before = _job(admin)
    for schedule_changed_at in (format_ms(clock()), None):
        assert admin.patch(JOB, json={"schedule_changed_at": schedule_changed_at}).status_code == 200
        sweep()
    after = _job(admin)
    assert (after["expected_at"], after["overdue_at"]) == (before["expected_at"], before["overdue_at"])
    assert after["learned"]["evidence"] == "Learned from 30 runs (all match)"


def test_a_job_with_a_pin_keeps_it(admin: KeyClient, every: Callable[..., None], clock: Clock) -> None:
    every(3, hours=1)
    pinned = admin.patch(JOB, json={"pin": {"interval_seconds": 7200}}).json
    changed = admin.patch(JOB, json={"schedule_changed_at": format_ms(clock())}).json
    assert (changed["pin"], changed["expected_at"]) == (pinned["pin"], pinned["expected_at"])
