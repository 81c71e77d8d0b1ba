"""When planned silence ends by itself: what is still wrong with a job is an incident again."""

import pytest

from obs.times import DAY_MS, format_ms, parse_iso
from tests.alerts.conftest import Job
from tests.conftest import Clock, KeyClient

JOB = "/api/v1/jobs/backup"


def _open(job: Job) -> list[str]:
    return [kind for kind, _, end in job.incidents() if end is None]


def test_a_job_that_still_fails_has_an_incident_once_its_pause_is_over(
    job: Job, admin: KeyClient, clock: Clock
) -> None:
    job.end("fail")
    until = format_ms(clock() + 1_800_000)
    assert admin.patch(JOB, json={"paused_until": until}).status_code == 200
    job.sweep()
    assert _open(job) == []
    clock.set(until)
    clock.advance(ms=-1)
    job.sweep()
    assert _open(job) == []
    clock.set(until)
    job.sweep()
    assert _open(job) == ["failing"]


def test_a_job_that_lost_a_run_has_an_incident_once_its_pause_is_over(job: Job, admin: KeyClient, clock: Clock) -> None:
    for _ in range(2):
        clock.advance(hours=1)
        job.client.post("/api/v1/heartbeat/backup/start")
    job.sweep()
    assert _open(job) == ["lost"]
    until = format_ms(clock() + 1_800_000)
    admin.patch(JOB, json={"paused_until": until})
    job.sweep()
    assert _open(job) == []
    clock.set(until)
    job.sweep()
    assert _open(job) == ["lost"]


@pytest.mark.parametrize("first", [0, 1], ids=["earlier first", "later first"])
def test_of_two_windows_in_a_row_both_excuse(job: Job, admin: KeyClient, clock: Clock, first: int) -> None:
    bounds = [clock(), clock() + 2 * DAY_MS, clock() + 4 * DAY_MS]
    for number in (first, 1 - first):
        window = {"start_time": format_ms(bounds[number]), "end_time": format_ms(bounds[number + 1])}
        assert admin.post("/api/v1/maintenance", json=window).status_code == 201
    for _ in range(7):
        clock.advance(hours=13)
        job.sweep()
        assert (job.read()["overdue"], job.incidents()) == (False, [])
    assert parse_iso(job.read()["overdue_at"]) > bounds[2]
    job.go_silent()
    assert _open(job) == ["overdue"]


def test_after_a_heartbeat_in_the_first_of_two_windows_the_second_excuses_too(
    job: Job, admin: KeyClient, clock: Clock
) -> None:
    bounds = [clock(), clock() + 2 * DAY_MS, clock() + 4 * DAY_MS]
    for number in (1, 0):
        window = {"start_time": format_ms(bounds[number]), "end_time": format_ms(bounds[number + 1])}
        admin.post("/api/v1/maintenance", json=window)
    job.ping_hourly(2)
    assert parse_iso(job.read()["overdue_at"]) > bounds[2]
