"""A job that runs more often than it used to is an incident of its own kind, until it keeps its pace again."""

from obs.times import format_ms
from tests.alerts.conftest import Job
from tests.conftest import Clock, KeyClient


def _twice_an_hour(job: Job, clock: Clock, hours: int) -> None:
    """A second run ten minutes before each hourly one, as of a line that stands in two crontabs."""
    for _ in range(hours):
        for minutes in (50, 10):
            clock.advance(minutes=minutes)
            assert job.client.post("/api/v1/heartbeat/backup/ping").status_code == 200
            job.sweep()


def test_runs_that_come_double_again_and_again_are_an_incident(job: Job, clock: Clock) -> None:
    job.ping_hourly(24)
    _twice_an_hour(job, clock, 2)
    assert job.incidents() == []
    _twice_an_hour(job, clock, 1)
    assert job.incidents() == [["too_often", format_ms(clock()), None]]


def test_it_is_over_once_the_job_keeps_its_pace_again(job: Job, clock: Clock, admin: KeyClient) -> None:
    job.ping_hourly(24)
    _twice_an_hour(job, clock, 3)
    ((_, began, _),) = job.incidents()
    job.ping_hourly(12)
    ((kind, time, ended),) = job.incidents()
    assert (kind, time) == ("too_often", began)
    assert ended is not None
    query = "SELECT job, kind, ended_at FROM incidents WHERE job = 'backup' LAST 7d"
    answer = admin.post("/api/v1/dsl", json={"query": query}).json
    assert answer is not None
    assert answer["rows"] == [["backup", "too_often", ended]]
    bands = admin.get("/api/v1/annotations?name_prefix=incident/backup").json
    assert bands is not None
    ((title, start, end),) = [(band["title"], band["start_time"], band["end_time"]) for band in bands["annotations"]]
    assert (title, start, end) == ("backup runs more often than expected", began, ended)


def test_one_manual_run_is_no_incident(job: Job, clock: Clock) -> None:
    job.ping_hourly(24)
    _twice_an_hour(job, clock, 1)
    job.ping_hourly(3)
    assert job.incidents() == []


def test_a_pinned_job_is_not_judged_by_what_was_learned(job: Job, clock: Clock, admin: KeyClient) -> None:
    admin.patch("/api/v1/jobs/backup", json={"pin": {"interval_seconds": 7200}})
    job.ping_hourly(24)
    _twice_an_hour(job, clock, 4)
    assert job.incidents() == []
