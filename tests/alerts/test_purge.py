"""Incidents are deleted after the retention, but never while they are open."""

from flask import Flask

from obs.services import services
from obs.times import format_ms
from tests.alerts.conftest import Job
from tests.conftest import Clock


def test_only_incidents_that_ended_before_the_retention_are_deleted(app: Flask, job: Job, clock: Clock) -> None:
    purge = services(app).background.tasks["purge"].run
    days = int(app.config["RUN_RETENTION_DAYS"])
    job.end("fail")
    old_start = format_ms(clock())
    job.end("ok")
    old_end = format_ms(clock())
    job.end("fail")
    open_start = format_ms(clock())
    assert job.incidents() == [["failing", old_start, old_end], ["failing", open_start, None]]

    clock.set(old_end)
    clock.advance(days=days)
    purge()
    assert job.incidents() == [["failing", old_start, old_end], ["failing", open_start, None]]

    clock.advance(days=1)
    purge()
    assert job.incidents() == [["failing", open_start, None]]
