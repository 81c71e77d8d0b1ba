"""Incidents that ended before the retention are deleted; one that lasts is kept, however old it is."""

from collections.abc import Callable

import pytest
from flask import Flask

from obs.services import services
from tests.alerts.conftest import Job
from tests.alerts.receiver import Receiver
from tests.alerts.world import World, titles
from tests.conftest import Clock

RETENTION_DAYS = 90


@pytest.fixture
def purge(app: Flask) -> Callable[[], None]:
    return services(app).background.tasks["purge"].run


def test_an_incident_is_kept_until_the_retention_after_its_end_is_over(
    job: Job, clock: Clock, purge: Callable[[], None]
) -> None:
    job.end("fail")
    clock.advance(days=30)
    job.end("ok")
    clock.advance(days=RETENTION_DAYS)
    purge()
    assert "failing" in [kind for kind, _, _ in job.incidents()]
    clock.advance(ms=1)
    purge()
    assert "failing" not in [kind for kind, _, _ in job.incidents()]


def test_an_incident_that_lasts_is_kept(job: Job, clock: Clock, purge: Callable[[], None]) -> None:
    overdue_at = job.go_silent()
    clock.advance(days=RETENTION_DAYS + 1)
    purge()
    assert job.incidents() == [["overdue", overdue_at, None]]


def test_what_ended_is_deleted_beside_what_lasts(job: Job, clock: Clock, purge: Callable[[], None]) -> None:
    job.go_silent()
    job.ping_hourly(8)
    overdue_at = job.go_silent()
    assert len(job.incidents()) == 2
    clock.advance(days=RETENTION_DAYS + 1)
    purge()
    assert job.incidents() == [["overdue", overdue_at, None]]


def test_the_end_of_an_incident_that_lasts_longer_than_the_retention_is_reported(
    world: World, receiver: Receiver
) -> None:
    world.add_channel(receiver)
    world.end("backup", "fail")
    for _ in range(2):
        world.pass_time(seconds=10)
    world.client.patch("/api/v1/jobs/backup", json={"pin": {"never": True}})
    world.pass_time(days=91)
    services(world.app).background.tasks["purge"].run()
    world.end("backup", "ok")
    world.pass_time(seconds=1)
    world.pass_time(minutes=10)
    assert titles(receiver)[-1] == "backup is OK again, after 91 d"
