"""Clients wait while the service restarts, and a worker that hangs is replaced; the long form is restarts.py."""

import os
import signal
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.crash.restarts import children, restart_under_load, stored
from tests.crash.served import running_service

RESTARTED_SECONDS = 15
"""2 s on an idle machine; a busy one takes longer to load the program."""

REPLACED_SECONDS = 30
"""A worker hangs for at most 15 s; a busy machine may take longer."""


@pytest.mark.slow
def test_restarts_refuse_and_lose_nothing(tmp_path: Path) -> None:
    with running_service(tmp_path) as service:
        result = restart_under_load(service, times=20, clients=200)
        assert set(result.outcomes) == {"200"}, result
        assert stored(service) == result.acknowledged
        assert max(result.waits) < RESTARTED_SECONDS, result


@pytest.mark.slow
def test_clients_that_were_not_accepted_survive_the_death_of_a_worker(tmp_path: Path) -> None:
    with running_service(tmp_path) as service:
        result = restart_under_load(service, 3, 50, kill=True)
        assert result.outcomes["ConnectionRefusedError"] == 0
        assert result.outcomes["200"] > 0
        held = stored(service)
        assert all(held[job] >= count for job, count in result.acknowledged.items())


@pytest.mark.slow
def test_a_worker_that_hangs_is_replaced(tmp_path: Path) -> None:
    with running_service(tmp_path) as service:
        assert service.process is not None
        hanging = children(service.process.pid)[0]
        os.kill(hanging, signal.SIGSTOP)
        while Path(f"/proc/{hanging}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            time.sleep(0.01)  # a busy machine takes a moment to stop it
        begun = time.monotonic()
        assert service.get("/readyz")[0] == 200
        assert time.monotonic() - begun < REPLACED_SECONDS
        assert f"worker process {hanging} hangs" in service.logged()
        assert children(service.process.pid)[0] != hanging


@pytest.mark.slow
def test_a_suspended_machine_is_no_reason_to_replace_a_worker(tmp_path: Path) -> None:
    with running_service(tmp_path) as service:
        assert service.process is not None
        worker = children(service.process.pid)[0]
        for stopped in (signal.SIGSTOP, signal.SIGCONT):
            os.killpg(service.process.pid, stopped)
            if stopped == signal.SIGSTOP:
                time.sleep(20)  # longer than a worker may hang; the supervisor must not count it
        for _ in range(3):
            assert service.get("/readyz")[0] == 200
        assert children(service.process.pid)[0] == worker


@pytest.mark.slow
def test_a_connection_that_has_sent_nothing_yet_is_waited_for(tmp_path: Path) -> None:
    with running_service(tmp_path) as service, closing(service.connect()) as slow:
        assert service.process is not None
        slow.connect()
        assert service.get("/healthz")[0] == 200  # connections are accepted one after the other
        service.process.send_signal(signal.SIGTERM)
        while service.is_ready("/healthz"):
            pass
        time.sleep(0.5)  # longer than the worker would take to stop
        slow.request("GET", "/healthz")
        assert slow.getresponse().status == 200
        assert service.process.wait(10) == 0
