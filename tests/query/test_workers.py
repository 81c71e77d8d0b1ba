"""Queries in processes of their own: the same answers and errors; one that ends takes only its query along."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from obs import SOURCES
from obs.errors import ServiceError
from obs.query.engine import Question
from obs.query.limits import Limits
from obs.query.routes import WORKERS
from obs.query.workers import Workers
from obs.tenancy import auth
from obs.times import DAY_MS
from tests.conftest import KeyClient


@pytest.fixture
def client(make_app: Callable[..., Flask], new_client: Callable[..., KeyClient]) -> Iterator[KeyClient]:
    """A client of an application that runs queries in two processes."""
    app = make_app(QUERY_WORKERS=2)
    yield new_client(app=app)
    app.extensions[WORKERS].close()


def ask(client: KeyClient, query: str) -> TestResponse:
    return client.post("/api/v1/dsl", json={"query": query})


def children() -> set[int]:
    """The processes that this one has started and that have not ended."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        found.update(map(int, (task / "children").read_text().split()))
    return found


def test_answers_and_errors_are_those_of_one_process(client: KeyClient, make_app: Callable[..., Flask]) -> None:
    client.post("/api/v1/heartbeat/backup/end?duration_ms=1500")
    alone = make_app().test_client()
    assert isinstance(alone, KeyClient)
    alone.key = client.key
    for query in (
        "SELECT job, status, duration_ms FROM runs LAST 1h",
        "SELECT count(*) FROM runs BY job EVERY 1h LAST 1d",
        "SHOW SOURCES",
        "EXPLAIN SELECT count(*) FROM runs LAST 1h",
        "SELECT durationms FROM runs LAST 1h",
        "SELECT count(*) FROM",
        "SELECT count(*) FROM runs EVERY 1s LAST 90d FILL 0",
        "x" * 10_001,
    ):
        there, here = ask(client, query), ask(alone, query)
        assert (there.status_code, there.json) == (here.status_code, here.json), query


def test_a_process_that_ends_takes_only_its_query_along(client: KeyClient) -> None:
    before = children()
    assert ask(client, "SHOW SOURCES").status_code == 200
    (worker,) = children() - before
    os.kill(worker, signal.SIGKILL)
    assert ask(client, "SHOW SOURCES").json["error"] == "internal_error"
    assert ask(client, "SHOW SOURCES").status_code == 200


def test_processes_end_with_the_service(make_app: Callable[..., Flask], new_client: Callable[..., KeyClient]) -> None:
    before = children()
    app = make_app(QUERY_WORKERS=2)
    assert ask(new_client(app=app), "SHOW SOURCES").status_code == 200
    assert children() - before
    app.extensions[WORKERS].close()
    assert children() == before


def test_a_query_that_gets_no_turn_in_time_is_told_so(app: Flask, client: KeyClient) -> None:
    before = children()
    workers = Workers(SOURCES, 1)
    path = app.extensions[auth.EXTENSION].databases.path("acme")
    limits = Limits(max_rows=10, max_bytes_scanned=1 << 20, max_seconds=600, max_length=100, rate_per_minute=9)
    question = Question("SHOW SOURCES", path, 0, limits)
    workers.ask("acme", question)
    (worker,) = children() - before
    os.kill(worker, signal.SIGSTOP)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(workers.ask, "acme", question)
        while not workers.is_full():
            assert not first.done()
        with pytest.raises(ServiceError) as refused:
            workers.ask("globex", question._replace(limits=replace(limits, max_seconds=1)))
        os.kill(worker, signal.SIGCONT)
        assert first.result()[0].output_type == "table"
    workers.close()
    assert refused.value.error == "query_busy"
    assert refused.value.headers["Retry-After"] == "1"


def test_a_process_that_does_not_answer_in_time_is_ended(app: Flask, client: KeyClient) -> None:
    before = children()
    workers = Workers(SOURCES, 1)
    path = app.extensions[auth.EXTENSION].databases.path("acme")
    limits = Limits(max_rows=10, max_bytes_scanned=1 << 20, max_seconds=1, max_length=100, rate_per_minute=9)
    workers.prepare()
    (worker,) = children() - before
    os.kill(worker, signal.SIGSTOP)
    with pytest.raises(ServiceError) as refused:
        workers.ask("acme", Question("SHOW SOURCES", path, 0, limits))
    assert refused.value.extra["limit"] == "max_seconds"
    assert children() == before
    workers.close()


@pytest.mark.skipif(sys.platform != "linux", reason="macOS does not hold a process to its address space")
def test_a_query_that_wants_too_much_memory_fails_alone(app: Flask, client: KeyClient) -> None:
    workers = Workers(SOURCES, 1)
    path = app.extensions[auth.EXTENSION].databases.path("acme")
    limits = Limits(max_rows=10**9, max_bytes_scanned=1 << 40, max_seconds=600, max_length=100, rate_per_minute=9)
    question = Question("SELECT count(*) FROM runs EVERY 1ms FILL 0 LAST 1d", path, 90 * DAY_MS, limits)
    with pytest.raises(ServiceError) as refused:
        workers.ask("acme", question)
    assert (refused.value.status, refused.value.extra["limit"]) == (422, "memory")
    assert workers.ask("acme", question._replace(text="SHOW SOURCES"))[0].output_type == "table"
    workers.close()
