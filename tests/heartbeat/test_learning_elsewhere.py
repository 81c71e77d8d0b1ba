"""What takes longer than a moment is learned by a process that runs queries, with the same results."""

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flask import Flask

from obs import sweep as sweeping
from obs.services import services
from tests.conftest import Clock, KeyClient, children
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

    def count(work: Callable[[], Any]) -> Any:
        found = lend(work)
        counts.append(len(found[0]) if found else 0)
        return found

    sweeper.lend = count
    return counts


def _report(by_path: Sender, clock: Clock) -> None:
    for _ in range(5):
        clock.advance(hours=1)
        for number, job in enumerate(JOBS):
            clock.advance(seconds=number)
            by_path("ping", job, headers={"X-Platform-Host": f"host{number % 2}"})


def _jobs(client: KeyClient) -> list[dict[str, Any]]:
    answer = client.get("/api/v1/jobs")
    assert answer.status_code == 200
    assert answer.json is not None
    return [dict(job) for job in answer.json["jobs"]]


def test_the_results_are_those_of_one_process(
    app: Flask, by_path: Sender, client: KeyClient, clock: Clock, sweep: Callable[[], None], lent: list[int]
) -> None:
    _report(by_path, clock)
    sweep()
    assert lent == [len(JOBS)]
    found = _jobs(client)
    assert all(job["expected_at"] and job["learned"] for job in found)
    services(app).background.sweeper.excuse_downtime()  # all are learned again
    services(app).queries.workers.close()
    for _ in JOBS:
        sweep()
    assert lent[1:] == [0] * len(lent[1:])
    assert _jobs(client) == found


def test_jobs_are_learned_although_the_other_process_dies(
    app: Flask, by_path: Sender, client: KeyClient, clock: Clock, sweep: Callable[[], None], lent: list[int]
) -> None:
    _report(by_path, clock)
    (process,) = children()
    os.kill(process, signal.SIGKILL)
    for _ in JOBS:
        sweep()
    assert set(lent) == {0}
    assert all(job["expected_at"] for job in _jobs(client))


def test_work_that_fails_in_the_other_process_is_not_done(app: Flask) -> None:
    assert services(app).queries.workers.lend(os.getpid) in children()
    assert services(app).queries.workers.lend(_fail) is None
    assert services(app).queries.workers.lend(os.getpid) is None  # the process has ended


def _fail() -> None:
    raise ValueError
