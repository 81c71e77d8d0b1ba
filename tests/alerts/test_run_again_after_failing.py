"""A run that is started again soon after a failed one belongs to it: it says nothing about the schedule."""

import random

from tests.alerts.conftest import Job
from tests.conftest import Clock, KeyClient


def _run(job: Job, status: str) -> None:
    assert job.client.post(f"/api/v1/heartbeat/backup/end?status={status}").status_code == 200
    job.sweep()


def test_runs_again_after_failures_are_neither_too_often_nor_cause_false_alarms(job: Job, clock: Clock) -> None:
    """An hourly job. Three runs in ten fail and are started again every two minutes, at most three times."""
    job.ping_hourly(12)
    rng = random.Random(3)
    tries = 0
    for _ in range(96):
        clock.advance(minutes=60 - 2 * tries)
        tries = rng.randrange(1, 4) if rng.random() < 0.3 else 0
        _run(job, "fail" if tries else "success")
        for number in range(tries):
            clock.advance(minutes=2)
            job.sweep()
            _run(job, "success" if number == tries - 1 else "fail")
    assert {kind for kind, *_ in job.incidents()} == {"failing"}
    clock.advance(hours=1, minutes=3)
    job.sweep()
    assert [kind for kind, _, ended in job.incidents() if ended is None] == ["overdue"]


def test_a_pin_counts_from_each_run_also_from_those_that_nothing_is_learned_from(
    job: Job, admin: KeyClient, clock: Clock
) -> None:
    """An hourly job is pinned to every 20 minutes, and fails from then on."""
    assert admin.patch("/api/v1/jobs/backup", json={"pin": {"cron": "*/20 * * * *"}}).status_code == 200
    for minutes in (20, 18, 18, 18):
        clock.advance(minutes=minutes)
        _run(job, "fail")
        clock.advance(minutes=2)
        job.sweep()
    assert {kind for kind, *_ in job.incidents()} == {"failing"}


def test_a_schedule_that_changes_while_every_run_fails_is_learned(job: Job, clock: Clock) -> None:
    """An hourly job becomes one that runs every 6 hours, and none of its runs is successful."""
    job.ping_hourly(24)
    for _ in range(20):
        for _ in range(6):
            clock.advance(hours=1)
            job.sweep()
        _run(job, "fail")
    overdue = [ended for kind, _, ended in job.incidents() if kind == "overdue"]
    assert len(overdue) <= 2
    assert None not in overdue


def test_a_job_that_begins_to_run_more_often_while_it_fails_is_not_overdue(job: Job, clock: Clock) -> None:
    job.ping_hourly(24)
    for _ in range(60):
        clock.advance(minutes=20)
        _run(job, "fail")
    assert "overdue" not in {kind for kind, *_ in job.incidents()}
