"""When incidents begin and end: at the heartbeat that caused it, never in the future, never before their start."""

from obs.times import format_ms
from tests.alerts.conftest import Job
from tests.conftest import Clock, KeyClient

PING = "/api/v1/heartbeat/backup/ping"


def test_with_a_tolerance_an_incident_begins_with_the_first_failure(job: Job, admin: KeyClient, clock: Clock) -> None:
    admin.patch("/api/v1/jobs/backup", json={"failure_tolerance": 3})
    job.end("fail")
    first = format_ms(clock())
    job.end("fail")
    job.end("fail")
    assert job.incidents() == [["failing", first, None]]
    job.end("ok")
    assert job.incidents() == [["failing", first, format_ms(clock())]]


def test_failures_are_counted_from_the_last_success(job: Job, admin: KeyClient, clock: Clock) -> None:
    admin.patch("/api/v1/jobs/backup", json={"failure_tolerance": 2})
    job.end("fail")
    job.end("ok")
    job.end("fail")
    first = format_ms(clock())
    assert job.incidents() == []
    job.end("fail")
    assert job.incidents() == [["failing", first, None]]


def test_an_incident_ends_at_the_heartbeat_and_not_at_the_sweep_after_it(
    job: Job, client: KeyClient, clock: Clock
) -> None:
    overdue_at = job.go_silent()
    came_at = format_ms(clock.advance(hours=1))
    assert client.post(PING).status_code == 200
    clock.advance(minutes=5)
    job.sweep()
    assert job.incidents() == [["overdue", overdue_at, came_at]]


def test_an_incident_does_not_end_in_the_future(job: Job, client: KeyClient, clock: Clock) -> None:
    """The heartbeat that ends it comes from a host whose clock is some minutes ahead."""
    overdue_at = job.go_silent()
    clock.advance(hours=1)
    assert client.post(f"{PING}?time={format_ms(clock() + 120_000)}").status_code == 200
    job.sweep()
    assert job.incidents() == [["overdue", overdue_at, format_ms(clock())]]


def test_an_incident_does_not_end_before_its_start(job: Job, client: KeyClient, clock: Clock) -> None:
    """The heartbeat that ends it is about a moment before its start; it ends when that is known."""
    overdue_at = job.go_silent()
    earlier = format_ms(clock() - 1_000)
    clock.advance(minutes=1)
    assert client.post(f"{PING}?time={earlier}").status_code == 200
    job.sweep()
    assert job.incidents() == [["overdue", overdue_at, format_ms(clock())]]
