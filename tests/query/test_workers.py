"""Query processes: they give the same responses as one process, and the end of one fails only its query."""

import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing.connection import Connection

import pytest
from flask import Flask

from obs import SOURCES
from obs.errors import ServiceError
from obs.query.execution.run import QueryRequest
from obs.query.execution.session import Limits
from obs.query.execution.workers import Workers
from obs.services import services
from obs.storage.databases import Org
from obs.times import DAY_MS
from tests.conftest import ACME, ApiResponse, KeyClient, children


@pytest.fixture
def client(make_app: Callable[..., Flask], new_client: Callable[..., KeyClient]) -> Iterator[KeyClient]:
    """A client of an application that runs queries in two processes."""
    app = make_app(QUERY_WORKERS=2)
    yield new_client(app=app)
    services(app).queries.workers.close()


def ask(client: KeyClient, query: str) -> ApiResponse:
    return client.post("/api/v1/dsl", json={"query": query})


def test_responses_are_those_of_one_process(client: KeyClient, make_app: Callable[..., Flask]) -> None:
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


def test_a_kept_connection_sees_new_rows_and_counts_all_bytes(client: KeyClient) -> None:
    query = "SELECT count(*) FROM runs WHERE duration_ms >= 0 LAST 1h"
    for _ in range(300):
        client.post("/api/v1/heartbeat/backup/end?duration_ms=1500")
    first, second, third = (ask(client, query) for _ in range(3))
    assert first.json["rows"] == third.json["rows"] == [[300]]
    assert int(second.headers["X-Query-Bytes-Scanned"]) == int(third.headers["X-Query-Bytes-Scanned"]) > 4096
    client.post("/api/v1/heartbeat/backup/end?duration_ms=1500")
    assert ask(client, query).json["rows"] == [[301]]
    assert ask(client, "SELECT sum(duration_ms * 6000000000000000) FROM runs LAST 1h").status_code == 400
    assert ask(client, query).json["rows"] == [[301]]


def stopped_query(client: KeyClient, pool: ThreadPoolExecutor) -> tuple[int, Future[ApiResponse]]:
    """A query that waits in a process that is stopped: the process, and the response to come."""
    before = children()
    assert ask(client, "SHOW SOURCES").status_code == 200
    (worker,) = children() - before
    os.kill(worker, signal.SIGSTOP)
    response = pool.submit(ask, client, "SELECT count(*) FROM runs LAST 1h")
    workers = services(client.application).queries.workers
    assert workers is not None
    while not workers.busy.total():
        assert not response.done()
    return worker, response


def test_a_query_whose_process_is_killed_is_answered_by_another(client: KeyClient) -> None:
    client.post("/api/v1/heartbeat/backup/end?duration_ms=1500")
    with ThreadPoolExecutor() as pool:
        worker, response = stopped_query(client, pool)
        os.kill(worker, signal.SIGKILL)
        assert (response.result().status_code, response.result().json["rows"]) == (200, [[1]])
    assert worker not in children()


def test_a_query_whose_processes_are_killed_twice_is_refused(client: KeyClient) -> None:
    before = children()
    with ThreadPoolExecutor() as pool:
        _, response = stopped_query(client, pool)
        while not response.done():
            for worker in children() - before:
                with contextlib.suppress(ProcessLookupError):  # the service has waited for it
                    os.kill(worker, signal.SIGKILL)
    refused = response.result()
    assert (refused.status_code, refused.json["error"]) == (503, "query_process_died")
    assert "out of memory" in refused.json["hint"]
    assert refused.headers["Retry-After"]
    assert ask(client, "SHOW SOURCES").status_code == 200


def test_a_process_that_cannot_be_started_is_reported(client: KeyClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    with monkeypatch.context() as patch:
        patch.setattr("subprocess.Popen", refuse)
        refused = ask(client, "SELECT count(*) FROM runs LAST 1h")
    assert (refused.status_code, refused.json["error"]) == (503, "query_process_died")
    assert ask(client, "SELECT count(*) FROM runs LAST 1h").status_code == 200


def test_an_idle_process_that_was_killed_fails_no_query(client: KeyClient) -> None:
    before = children()
    assert ask(client, "SHOW SOURCES").status_code == 200
    (worker,) = children() - before
    os.kill(worker, signal.SIGKILL)
    os.waitid(os.P_PID, worker, os.WEXITED | os.WNOWAIT)
    assert ask(client, "SHOW SOURCES").status_code == 200
    assert worker not in children()


def test_processes_end_with_the_service(make_app: Callable[..., Flask], new_client: Callable[..., KeyClient]) -> None:
    before = children()
    app = make_app(QUERY_WORKERS=2)
    assert ask(new_client(app=app), "SHOW SOURCES").status_code == 200
    assert children() - before
    services(app).queries.workers.close()
    assert children() == before


LIMITS = Limits(max_rows=10, max_bytes_scanned=1 << 20, max_seconds=600, max_length=100, rate_per_minute=9)


@pytest.fixture
def query_request(app: Flask, client: KeyClient) -> QueryRequest:
    client.get("/api/v1/jobs")  # creates the file
    return QueryRequest("SHOW SOURCES", services(app).tenancy.databases.path(ACME), 0, LIMITS)


def test_a_process_adds_nothing_to_the_log_of_the_server(
    query_request: QueryRequest, capfd: pytest.CaptureFixture[str]
) -> None:
    workers = Workers(SOURCES, 1)
    workers.run(ACME, query_request)
    workers.close()
    assert capfd.readouterr() == ("", "")


def test_a_process_whose_answer_nobody_read_adds_nothing_to_the_log() -> None:
    """Closing a socket with an unread answer resets the connection: so it goes when the service is stopped."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-c", "from obs.query.execution.workers import main; main()", str(theirs.fileno())]
    with theirs, subprocess.Popen(command, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE) as worker:
        with Connection(ours.detach()) as connection:
            connection.send(SOURCES)
            assert connection.poll(60)
        assert worker.communicate(timeout=60)[1] == b""
    assert worker.returncode == 0


def test_a_query_that_gets_no_turn_in_time_is_refused(query_request: QueryRequest) -> None:
    before = children()
    workers = Workers(SOURCES, 1)
    workers.run(ACME, query_request)
    (worker,) = children() - before
    os.kill(worker, signal.SIGSTOP)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(workers.run, ACME, query_request)
        while not workers.busy.total():
            assert not first.done()
        with pytest.raises(ServiceError) as refused:
            workers.run(Org("globex", 2), query_request._replace(limits=replace(LIMITS, max_seconds=1)))
        os.kill(worker, signal.SIGCONT)
        assert b'"table"' in first.result().body
    workers.close()
    assert refused.value.error == "query_busy"
    assert refused.value.headers["Retry-After"] == "1"


def test_a_process_that_does_not_respond_in_time_is_killed(query_request: QueryRequest) -> None:
    before = children()
    workers = Workers(SOURCES, 1)
    workers.prepare()
    (worker,) = children() - before
    os.kill(worker, signal.SIGSTOP)
    with pytest.raises(ServiceError) as refused:
        workers.run(ACME, query_request._replace(limits=replace(LIMITS, max_seconds=1)))
    assert refused.value.extra["limit"] == "max_seconds"
    assert children() == before
    workers.close()


def test_a_second_process_has_only_the_time_that_is_left(query_request: QueryRequest) -> None:
    before = children()
    workers = Workers(SOURCES, 1)
    workers.prepare()
    (first,) = children() - before
    os.kill(first, signal.SIGSTOP)
    slow = query_request._replace(  # takes a third of a second
        statement="SELECT count(*) FROM runs EVERY 1ms FILL 0 LAST 1m",
        now_ms=90 * DAY_MS,
        limits=replace(LIMITS, max_rows=10**9, max_bytes_scanned=1 << 40, max_seconds=1),
    )
    with ThreadPoolExecutor() as pool:
        response = pool.submit(workers.run, ACME, slow)
        with pytest.raises(TimeoutError):  # of the 1.2 seconds after which a process is killed
            response.result(timeout=1.1)
        os.kill(first, signal.SIGKILL)
        with pytest.raises(ServiceError) as refused:
            response.result()
    assert refused.value.extra["limit"] == "max_seconds"
    workers.close()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux enforces the limit on address space")
def test_a_query_that_needs_too_much_memory_fails_alone(query_request: QueryRequest) -> None:
    before, workers = children(), Workers(SOURCES, 1)
    large = query_request._replace(
        statement="SELECT count(*) FROM runs EVERY 1ms FILL 0 LAST 1d",
        now_ms=90 * DAY_MS,
        limits=replace(LIMITS, max_rows=10**9, max_bytes_scanned=1 << 40),
    )
    with pytest.raises(ServiceError) as refused:
        workers.run(ACME, large)
    assert (refused.value.status, refused.value.extra["limit"]) == (422, "memory")
    assert not children() - before  # what it took is free again
    assert b"table" in workers.run(ACME, query_request).body
    workers.close()


def test_the_queries_of_one_organization_do_not_block_another(query_request: QueryRequest) -> None:
    """With two processes, each organization can use one: when a query of globex ends, acme still has no turn."""
    before = children()
    workers = Workers(SOURCES, 2)
    with ThreadPoolExecutor() as pool:
        workers.run(ACME, query_request)
        (first,) = children() - before
        os.kill(first, signal.SIGSTOP)
        acme = [pool.submit(workers.run, ACME, query_request) for _ in range(3)]
        while workers.busy.total() < 1:
            assert not any(one.done() for one in acme)
        workers.run(Org("globex", 2), query_request)
        (second,) = children() - before - {first}
        os.kill(second, signal.SIGSTOP)
        others = [
            pool.submit(workers.run, org, query_request)
            for org in (Org("globex", 2), Org("initech", 3), Org("umbrella", 4))
        ]
        while workers.busy.total() < 2:
            assert not any(one.done() for one in others)
        os.kill(second, signal.SIGCONT)
        assert all(b"table" in one.result().body for one in others)
        assert not any(one.done() for one in acme)
        os.kill(first, signal.SIGCONT)
        assert all(b"table" in one.result().body for one in acme)
    workers.close()


def test_organizations_take_turns(query_request: QueryRequest) -> None:
    """Three organizations have sent many queries each when a fourth sends one: it is answered in the next round."""
    before = children()
    workers = Workers(SOURCES, 1)
    workers.run(ACME, query_request)
    (worker,) = children() - before
    os.kill(worker, signal.SIGSTOP)
    order: list[str] = []

    def run(org: Org) -> None:
        workers.run(org, query_request)
        order.append(org.slug)

    with ThreadPoolExecutor(20) as pool:
        heavy = [pool.submit(run, Org(f"heavy-{number % 3}", number % 3 + 2)) for number in range(15)]
        while workers.waiting.total() < 14:
            assert not any(each.done() for each in heavy)
        light = pool.submit(run, Org("light", 9))
        while workers.waiting.total() < 15:
            assert not light.done()
        os.kill(worker, signal.SIGCONT)
    assert "light" in order[:4]
    assert sorted(order[1:4]) != [order[0]] * 3
    assert len(order) == 16
    workers.close()


def test_queries_of_one_organization_do_not_wait_in_all_threads(query_request: QueryRequest) -> None:
    before = children()
    workers = Workers(SOURCES, 1)
    workers.run(ACME, query_request)
    (worker,) = children() - before
    os.kill(worker, signal.SIGSTOP)
    with ThreadPoolExecutor(20) as pool:
        accepted = [pool.submit(workers.run, ACME, query_request) for _ in range(9)]
        while workers.waiting.total() < 8:
            assert not any(each.done() for each in accepted)
        with pytest.raises(ServiceError) as refused:
            workers.run(ACME, query_request)
        assert refused.value.error == "query_busy"
        os.kill(worker, signal.SIGCONT)
        assert all(b"table" in each.result().body for each in accepted)
    workers.close()


def test_a_query_is_stopped_within_a_fifth_of_a_second_of_its_limit(query_request: QueryRequest) -> None:
    """Even in one long call, in which no thread of the process gets to run. Its hint takes no longer."""
    before = children()
    workers = Workers(SOURCES, 1)
    workers.prepare()
    (worker,) = children() - before
    os.kill(worker, signal.SIGSTOP)
    began = time.monotonic()
    with pytest.raises(ServiceError) as refused:
        workers.run(ACME, query_request._replace(limits=replace(LIMITS, max_seconds=1)))
    assert refused.value.extra["limit"] == "max_seconds"
    assert time.monotonic() - began < 1.5  # 1.2, and starting nothing else; the rest is for a busy machine
    workers.close()
