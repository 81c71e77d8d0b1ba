"""What takes longer than a moment is learned by a process that runs queries, with the same results."""

import os
import signal
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from flask import Flask

from obs import SOURCES, sweep as sweeping
from obs.heartbeat.store.expectations import JOBS_A_BATCH
from obs.query.execution.workers import Workers
from obs.services import services
from tests.conftest import ACME, Clock, children
from tests.heartbeat.conftest import Sender

JOBS = [f"job{number}" for number in range(8)]


@pytest.fixture
def app(make_app: Callable[..., Flask], monkeypatch: pytest.MonkeyPatch) -> Iterator[Flask]:
    """Learns nothing by itself while it has a process for queries."""
    monkeypatch.setattr(sweeping, "ALONE_SECONDS", 0.0)
    app = make_app(QUERY_WORKERS=1)
    services(app).queries.workers.prepare()
    yield app
    services(app).queries.workers.close()


@pytest.fixture
def lent(app: Flask) -> list[int]:
    """How many jobs were learned each time that the other process was asked; 0 if it could not."""
    counts, sweeper = list[int](), services(app).background.sweeper
    lend = sweeper.lend

    def count(works: Sequence[Callable[[], Any]]) -> list[Any]:
        found = lend(works)
        counts.append(sum(len(learned) for learned, _ in found))
        return found

    sweeper.lend = count
    return counts


def _report(by_path: Sender, clock: Clock) -> None:
    """Each job pings every hour from one host, and half an hour later from another one."""
    for half_hour in range(48):
        clock.advance(minutes=30)
        for number, job in enumerate(JOBS):
            clock.advance(seconds=number)
            by_path("ping", job, headers={"X-Platform-Host": f"host{half_hour % 2}"})


def _learned(rows: Callable[..., list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    jobs = "SELECT name, interval_ms, expected_at, overdue_at, grace_ms, by_host, too_often_since FROM jobs"
    hosts = "SELECT * FROM host_schedules ORDER BY job_id, host"
    return [rows(each) for each in (jobs, "SELECT * FROM fits", "SELECT * FROM memories", hosts)]


def test_the_results_are_those_of_one_process(
    app: Flask,
    by_path: Sender,
    clock: Clock,
    sweep: Callable[[], None],
    lent: list[int],
    rows: Callable[..., list[dict[str, Any]]],
) -> None:
    _report(by_path, clock)
    sweep()
    assert lent == [len(JOBS)]
    found = _learned(rows)
    assert [len(each) for each in found] == [len(JOBS), len(JOBS), len(JOBS), 2 * len(JOBS)]

    def forget(db: sqlite3.Connection) -> None:
        for table in ("fits", "memories", "host_schedules"):
            db.execute(f"DELETE FROM {table}")
        db.execute("UPDATE jobs SET learned_event_id = NULL, expected_at = NULL, overdue_at = NULL")

    services(app).tenancy.databases.write(ACME, forget)
    services(app).background.sweeper.excuse_downtime()  # so that they are swept
    services(app).queries.workers.close()
    for _ in JOBS:
        sweep()
    assert set(lent[1:]) == {0}
    assert _learned(rows) == found


def test_jobs_are_learned_although_the_other_process_dies(
    by_path: Sender,
    clock: Clock,
    sweep: Callable[[], None],
    lent: list[int],
    rows: Callable[..., list[dict[str, Any]]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    _report(by_path, clock)
    (process,) = children()
    os.kill(process, signal.SIGKILL)
    for _ in JOBS:
        sweep()
    assert set(lent) == {0}
    assert all(job["expected_at"] for job in rows("SELECT expected_at FROM jobs"))
    assert "A process has ended, or did not start, for other work" in caplog.text


def test_work_that_fails_in_the_other_process_is_not_done(app: Flask) -> None:
    (done,) = services(app).queries.workers.lend([os.getpid])
    assert done in children()
    assert services(app).queries.workers.lend([_fail]) == []
    assert services(app).queries.workers.lend([os.getpid]) == []  # the process has ended


def test_many_jobs_are_learned_by_two_processes(
    app: Flask,
    by_path: Sender,
    clock: Clock,
    sweep: Callable[[], None],
    rows: Callable[..., list[dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sweeping, "LEARNING_SECONDS", 60.0)
    services(app).queries.workers.close()
    workers, ids = Workers(SOURCES, 2), list[list[int]]()

    def lend(works: Sequence[Callable[[], Any]]) -> list[Any]:
        found = workers.lend(works)
        if len(found) == 2:
            ids.extend([one.job_id for one in learned] for learned, _ in found)
        return found

    services(app).background.sweeper.lend = lend
    for number in range(3 * JOBS_A_BATCH):  # the first batch is learned by one process
        by_path("ping", f"job{number}")
        clock.advance(seconds=1)
    sweep()
    processes = len(children())
    workers.close()
    assert processes == 2
    first, second, *_ = ids
    assert first
    assert second
    assert not {*first} & {*second}
    assert rows("SELECT 1 FROM jobs WHERE learned_event_id IS NOT last_event_id") == []


def test_jobs_whose_process_dies_are_learned_although_the_other_one_is_done(
    app: Flask, by_path: Sender, clock: Clock, sweep: Callable[[], None], rows: Callable[..., list[dict[str, Any]]]
) -> None:
    sweeper = services(app).background.sweeper
    lend, counts = sweeper.lend, list[int]()

    def lend_the_last(works: Sequence[Callable[[], Any]]) -> list[Any]:
        counts.append(len(works))
        return lend(works[-1:])

    sweeper.lend = lend_the_last
    for number in range(2 * JOBS_A_BATCH + 1):
        by_path("ping", f"job{number}")
        clock.advance(seconds=1)
    for _ in range(5):
        sweep()
    assert 2 in counts
    assert rows("SELECT 1 FROM jobs WHERE learned_event_id IS NOT last_event_id") == []


def _fail() -> None:
    raise ValueError
