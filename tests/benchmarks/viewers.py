"""What the overview costs with many jobs and runs, and what viewers cost the heartbeats.

    python -m tests.benchmarks.viewers FOLDER KEY [--viewers 5] [--pairs 3] [--seconds 6]

FOLDER and KEY are from tests.benchmarks.stored. Needs wrk. Prints the processor time of the service for the overview,
for polls without and with changes, and for GET /jobs; then the heartbeats per second beside viewers who poll every 5
seconds, as the page does, next to the heartbeats per second without viewers in the same run.
"""

import argparse
import http.client
import re
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

from tests.benchmarks.paired import Version
from tests.benchmarks.stored import known_service
from tests.crash.served import Service

POLL_SECONDS = 5


class Viewer:
    """A browser that is signed in with a key, and shows the jobs whose last runs are the latest."""

    def __init__(self, service: Service) -> None:
        self.connection = service.connect()
        self.have, self.since, self.cookie = "", "", ""
        token = re.search(r'name="csrf_token" value="([^"]+)"', self.get("/sign-in")[1])
        assert token is not None
        form = urlencode({"csrf_token": token[1], "key": service.key})
        self.get("/sign-in", form)
        self.reload()

    def get(self, path: str, form: str | None = None) -> tuple[int, str]:
        sent = {"X-Have": self.have, "Cookie": self.cookie, "Content-Type": "application/x-www-form-urlencoded"}
        try:
            self.connection.request("GET" if form is None else "POST", path, form, sent)
            response = self.connection.getresponse()
        except http.client.RemoteDisconnected:  # after ten seconds without a request; a browser connects again, too
            self.connection.close()
            self.connection.request("GET" if form is None else "POST", path, form, sent)
            response = self.connection.getresponse()
        self.cookie = (response.getheader("Set-Cookie") or self.cookie).partition(";")[0]
        return response.status, response.read().decode()

    def reload(self) -> None:
        text = self.get("/?sort=last")[1]
        version = re.search(r'data-version="(\d+)"', text)
        self.since = version[1] if version else ""
        self.have = ",".join(":".join(row) for row in re.findall(r'id="job-(\d+)" data-v="(\w+)"', text))

    def poll(self) -> int:
        """Poll once; the page would then show all changes. Returns the status."""
        status, text = self.get(f"/jobs/changes?sort=last&since={self.since}")
        if status != 204:
            rows = dict(re.findall(r'id=\\"job-(\d+)\\" data-v=\\"(\w+)\\"', text))
            shown = dict(row.split(":") for row in self.have.split(",")) | rows
            self.have = ",".join(f"{number}:{version}" for number, version in shown.items())
            version = re.search(r'"version":"(\d+)"', text)
            self.since = version[1] if version else ""
        return status


class Watching:
    """Viewers who poll in threads of this process until `stop`."""

    def __init__(self, viewers: list[Viewer]) -> None:
        self._stopped = threading.Event()
        self.polls = 0
        self._threads = [
            threading.Thread(target=self._watch, args=(viewer, (place + 0.5) * POLL_SECONDS / len(viewers)))
            for place, viewer in enumerate(viewers)
        ]
        for thread in self._threads:
            thread.start()

    def _watch(self, viewer: Viewer, first_after: float) -> None:
        wait = first_after
        while not self._stopped.wait(wait):
            viewer.poll()
            self.polls += 1
            wait = POLL_SECONDS

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()


class Cost(NamedTuple):
    """Milliseconds of processor time of the service for one call: the first, and the mean of the rest."""

    first: float
    rest: float


def cost(version: Version, call: Callable[[], object], count: int) -> Cost:
    before = version.cpu_seconds()
    call()
    between = version.cpu_seconds()
    for _ in range(count):
        call()
    return Cost((between - before) * 1000, (version.cpu_seconds() - between) * 1000 / count)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("key")
    arguments.add_argument("--viewers", type=int, default=5)
    arguments.add_argument("--pairs", type=int, default=3)
    arguments.add_argument("--seconds", type=int, default=6)
    options = arguments.parse_args()
    service = known_service(options.folder, options.key)
    service.start()
    try:
        assert service.process is not None
        version = Version(service.port, service.key, service.process.pid)
        viewers = [Viewer(service)]
        time.sleep(3)  # the background work of the start
        changed = [f"team-{number % 100:02}/job-{number:06}" for number in range(100, 10_001, 100)]

        def change(count: int, *, poll: bool = False) -> None:
            for name in changed[:count]:
                assert service.ask("POST", f"/api/v1/heartbeat/{name}/ping")[0] == 200
            if poll:
                viewers[0].poll()

        for name, call, count in (
            ("the overview", viewers[0].reload, 50),
            ("an unchanged poll", viewers[0].poll, 500),
            ("GET /jobs?limit=10", lambda: service.get("/api/v1/jobs?limit=10"), 100),
            ("GET /jobs?limit=1000", lambda: service.get("/api/v1/jobs?limit=1000"), 20),
            ("a heartbeat", lambda: change(1), 100),
            ("a heartbeat and a poll", lambda: change(1, poll=True), 100),
            ("50 heartbeats", lambda: change(50), 10),
            ("50 heartbeats and a poll", lambda: change(50, poll=True), 10),
        ):
            taken = cost(version, call, count)
            print(f"{name:28}{taken.rest:8.2f} ms of processor time, the first {taken.first:6.0f}", flush=True)
        viewers += [Viewer(service) for _ in range(options.viewers - 1)]
        speeds, costs = [], []
        with tempfile.TemporaryDirectory() as name:
            for pair in range(options.pairs):
                measured = {}
                for watched in (False, True) if pair % 2 else (True, False):
                    watching = Watching(viewers) if watched else None
                    measured[watched] = version.measure(16, options.seconds, Path(name))
                    if watching is not None:
                        watching.stop()
                alone, beside = measured[False], measured[True]
                speeds.append(beside.per_second / alone.per_second)
                costs.append(beside.cpu_us / alone.cpu_us)
                print(
                    f"{alone.per_second:.0f} heartbeats/s at {alone.cpu_us:.0f} us; {beside.per_second:.0f} beside"
                    f" {len(viewers)} viewers at {beside.cpu_us:.0f} us",
                    flush=True,
                )
        print(f"ratios: {statistics.median(speeds):.2f} of the heartbeats, {statistics.median(costs):.2f} of the time")
    finally:
        service.kill()


if __name__ == "__main__":
    main()
