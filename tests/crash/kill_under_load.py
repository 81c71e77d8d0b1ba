"""Kill the service with SIGKILL while heartbeats come in, start it again, and look for every acknowledged heartbeat.

python tests/crash/kill_under_load.py --times 20
"""

import argparse
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

SENDERS = 16
START_SECONDS = 30


@dataclass
class Service:
    """`obs serve` on an instance, in a process group of its own."""

    instance: Path
    port: int
    key: str = ""
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and return when it is ready."""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "obs", "serve", "--instance", str(self.instance), "--port", str(self.port)],
            start_new_session=True,
            stdout=subprocess.DEVNULL,
        )
        end = time.monotonic() + START_SECONDS
        while not self.is_ready():
            assert time.monotonic() < end, "not ready in time"
            try:
                raise AssertionError(f"ended with {self.process.wait(timeout=0.05)} while starting")
            except subprocess.TimeoutExpired:
                continue

    def is_ready(self) -> bool:
        try:
            return self.get("/readyz")[0] == 200
        except OSError:
            return False

    def kill(self) -> None:
        """SIGKILL to all its processes at once, as when the machine's memory is full or the power is cut."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def get(self, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", path, headers={"X-API-Key": self.key})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


@dataclass
class Acknowledged:
    """What the service has answered with 200: run ids by the last status that was acknowledged."""

    runs: dict[str, str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


def send_until_killed(service: Service, acknowledged: Acknowledged, sender: int, round_number: int) -> None:
    """Report runs, one after the other, until the connection breaks."""
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=10)
    headers = {"X-API-Key": service.key}
    try:
        for number in range(1_000_000):
            run_id = f"{round_number}-{sender}-{number}"
            for event, status in (("start", "open"), ("end", "success")):
                connection.request("POST", f"/api/v1/heartbeat/job-{sender}/{event}?run_id={run_id}", headers=headers)
                answer = connection.getresponse()
                answer.read()
                if answer.status == 200:
                    with acknowledged.lock:
                        acknowledged.runs[run_id] = status
    except (OSError, http.client.HTTPException):
        return  # killed: what was not acknowledged may be lost
    finally:
        connection.close()


def kept_runs(service: Service) -> dict[str, str]:
    """All runs that the service shows, by run id."""
    kept = {}
    for sender in range(SENDERS):
        cursor = ""
        while True:
            status, body = service.get(f"/api/v1/jobs/job-{sender}/runs?limit=1000{cursor}")
            if status == 404:
                break
            assert status == 200, body
            page = json.loads(body)
            kept.update({run["run_id"]: run["status"] for run in page["runs"]})
            if page["next_cursor"] is None:
                break
            cursor = f"&cursor={page['next_cursor']}"
    return kept


def kill_and_look(service: Service, acknowledged: Acknowledged, round_number: int, seconds: float) -> list[str]:
    """One round: load, kill after `seconds`, start again; returns what was acknowledged and is not there."""
    senders = [
        threading.Thread(target=send_until_killed, args=(service, acknowledged, sender, round_number))
        for sender in range(SENDERS)
    ]
    for sender in senders:
        sender.start()
    senders[0].join(seconds)
    service.kill()
    for sender in senders:
        sender.join()
    service.start()
    kept = kept_runs(service)
    return [
        run_id
        for run_id, status in acknowledged.runs.items()
        if run_id not in kept or (status == "success" and kept[run_id] != "success")
    ]


@contextmanager
def running_service(folder: Path) -> Iterator[Service]:
    """A service on a new instance in `folder`, stopped at the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    service = Service(folder / "instance", port)
    for command in (["org", "create", "crash"], ["key", "create", "crash", "--label", "crash test"]):
        done = subprocess.run(
            [sys.executable, "-m", "obs", *command, "--instance", str(service.instance)],
            check=True,
            capture_output=True,
            text=True,
        )
        service.key = done.stdout.strip()
    service.start()
    try:
        yield service
    finally:
        service.kill()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--times", type=int, default=20)
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder, running_service(Path(folder)) as service:
        acknowledged = Acknowledged()
        for round_number in range(options.times):
            missing = kill_and_look(service, acknowledged, round_number, chance.uniform(0.3, 3))
            print(f"kill {round_number + 1}: {len(acknowledged.runs)} runs acknowledged, {len(missing)} missing")
            if missing:
                raise SystemExit(f"lost: {missing[:10]}")


if __name__ == "__main__":
    main()
