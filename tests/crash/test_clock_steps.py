"""The wall clock of the running service is set back and forth by hours, as by a time server or a resumed machine."""

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from obs.times import parse_iso
from tests.crash.faults import Faults
from tests.crash.served import START_SECONDS, Service, running_service

pytestmark = [pytest.mark.slow, pytest.mark.compiler]

JOBS = 20


class Shifted:
    """A service with jobs that ping every five minutes, whose wall clock the test sets."""

    def __init__(self, service: Service, faults: Faults) -> None:
        self.service = service
        self.faults = faults
        self.offset = 0.0

    def set(self, seconds: float) -> None:
        self.offset = seconds
        self.faults.set(clock_offset_seconds=seconds)

    def ping(self, job: str, seconds_ago: float = 0) -> tuple[int, dict[str, Any]]:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + self.offset - seconds_ago))
        status, _, body = self.service.ask("POST", f"/api/v1/heartbeat/{job}/ping?time={at}")
        return status, json.loads(body)

    def learn(self, job: str) -> None:
        """Ping every five minutes for an hour, ending now, and wait until the sweep has learned that."""
        for number in range(12, -1, -1):
            assert self.ping(job, number * 300)[0] == 200
        self.wait(lambda: self.read(job)["interval_ms"] is not None)

    def read(self, job: str) -> dict[str, Any]:
        return dict(json.loads(self.service.get(f"/api/v1/jobs/{job}")[1]))

    def wait(self, is_so: Callable[[], bool]) -> None:
        end = time.monotonic() + START_SECONDS
        while not is_so():
            assert time.monotonic() < end, self.service.logged()

    def query(self) -> int:
        return self.service.ask("POST", "/api/v1/dsl", body={"query": "SELECT count(*) FROM runs LAST 1h"})[0]


def run_starts(service: Service, job: str) -> list[int]:
    """The starts of the runs of a job in milliseconds since the epoch, the latest first."""
    runs = json.loads(service.get(f"/api/v1/jobs/{job}/runs?limit=1000")[1])["runs"]
    return [parse_iso(run["started_at"]) for run in runs]


def are_corrected(service: Service, before: list[int]) -> bool:
    """Whether the latest run starts in this minute, and all others start as they did before."""
    latest, *others = run_starts(service, "backup")
    return bool(abs(latest - time.time() * 1000) < 60_000 and others == pytest.approx(before, abs=10))


@pytest.fixture
def shifted(tmp_path: Path) -> Iterator[Shifted]:
    faults = Faults(tmp_path)
    environment = {**faults.environment, "OBS_QUERY_RATE_PER_MINUTE": "3"}
    with running_service(tmp_path, environment) as service:
        yield Shifted(service, faults)


@pytest.mark.parametrize("hours", [-6, 6])
def test_a_step_of_the_clock(shifted: Shifted, hours: int) -> None:
    service = shifted.service
    for number in range(JOBS):
        shifted.learn(f"job-{number}")
    before = run_starts(service, "job-0")
    run_id = json.loads(service.ask("POST", "/api/v1/heartbeat/long/start")[2])["run_id"]
    while shifted.query() != 429:
        pass

    shifted.set(hours * 3600)
    status, answer = shifted.ping("after")
    assert (status, answer["run_status"]) == (200, "success")
    assert shifted.query() == 200, "who was limited before is not limited for hours"
    shifted.wait(lambda: "the clock was set by" in service.logged())
    shifted.learn("new")  # so the sweep goes on, and has looked at all jobs since
    overdue = [number for number in range(JOBS) if shifted.read(f"job-{number}")["overdue"]]
    assert overdue == []
    assert run_starts(service, "job-0") == before

    ended = json.loads(service.ask("POST", "/api/v1/heartbeat/long/end")[2])
    assert (ended["run_id"], ended["run_status"]) == (run_id, "success")
    run = json.loads(service.get(f"/api/v1/runs/{run_id}")[1])
    assert run["ended_at"] >= run["started_at"]
    assert run["duration_ms"] >= 0

    key = service.command("key", "create", "crash", "--label", "x", "--expires", "+30d", "--scope", "query:read")
    shifted.wait(lambda: service.get("/api/v1/jobs", key)[0] == 200)
    cookie = service.sign_in("crash")
    assert service.ask("GET", "/", headers={"Cookie": cookie})[0] == 200

    shifted.set(0)
    shifted.wait(lambda: service.logged().count("the clock was set by") == 2)
    shifted.learn("newer")
    assert [number for number in range(JOBS) if shifted.read(f"job-{number}")["overdue"]] == []
    assert run_starts(service, "job-0") == before
    assert "Traceback" not in service.logged()


def clock_warning(service: Service) -> str:
    return str(json.loads(service.get("/readyz")[1]).get("clock", ""))


@pytest.mark.parametrize("days", [100, -2000])
def test_a_start_with_a_clock_that_is_wrong(tmp_path: Path, days: int) -> None:
    """The service is killed, starts with a wrong clock, which is corrected while it is stopped or while it runs."""
    faults = Faults(tmp_path)
    with running_service(tmp_path, faults.environment) as service:
        shifted = Shifted(service, faults)
        shifted.learn("backup")
        before = run_starts(service, "backup")
        for is_stopped in (True, False):
            service.kill()
            shifted.set(days * 86_400)
            service.start()
            assert "obs accept-clock" in clock_warning(service)
            assert shifted.ping("backup")[0] == 200
            if is_stopped:
                service.kill()
            shifted.set(0)
            if is_stopped:
                service.start()
            shifted.wait(lambda: clock_warning(service) == "")
            shifted.wait(partial(are_corrected, service, before))
            before = run_starts(service, "backup")
        assert "Traceback" not in service.logged()


def test_what_is_due_is_done_by_a_service_that_runs_for_seconds(tmp_path: Path) -> None:
    faults = Faults(tmp_path)
    with running_service(tmp_path, faults.environment) as service:
        shifted = Shifted(service, faults)
        assert shifted.ping("backup", 3 * 86_400)[0] == 200
        service.kill()
        service.environment["OBS_RUN_RETENTION_DAYS"] = "1"
        service.start()
        started = time.monotonic()
        shifted.wait(lambda: run_starts(service, "backup") == [])
        assert time.monotonic() - started < 20
