"""The minute's peak: heartbeats of many jobs that all come within one second, each on a connection of its own.

    python -m tests.crash.burst [--jobs 10000] [--times 3] [--kill]

Each job sends one ping with an Idempotency-Key on a connection that is opened within that second too. A client that is
told 503, or whose connection breaks, tries again after Retry-After (or a second) with the same key, as `curl --retry`
does. With --kill the service is killed in the middle and started again. In the end every job must have been
acknowledged and must hold exactly one event and one run. Latencies are measured from the moment at which a heartbeat
was due, to the answer that acknowledged it.
"""

import argparse
import heapq
import re
import resource
import selectors
import socket
import sqlite3
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.consistency import damages, impossible
from tests.crash.served import Service, file_of, running_service

_CONTENT_LENGTH = re.compile(rb"content-length: (\d+)", re.I)
_RETRY_AFTER = re.compile(rb"retry-after: (\d+)", re.I)
PATIENCE_SECONDS = 120


@dataclass(eq=False)
class Job:
    """One client: what it sends, and how that went."""

    request: bytes
    due: float = 0.0
    connection: socket.socket | None = None
    received: bytes = b""
    tries: int = 0
    acknowledged_at: float | None = None


@dataclass
class Result:
    """How a burst went; times in seconds from its beginning, latencies in milliseconds."""

    answers: Counter[int] = field(default_factory=Counter)
    cut: int = 0
    sent_within: float = 0.0
    all_within: float = 0.0
    latencies_ms: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        quantiles = statistics.quantiles(self.latencies_ms, n=1000)
        return (
            f"answers {dict(self.answers)}, {self.cut} cut; sent within {self.sent_within:.2f} s, all acknowledged"
            f" after {self.all_within:.2f} s; latency p50 {quantiles[499]:.0f}, p99 {quantiles[989]:.0f},"
            f" p99.9 {quantiles[998]:.0f}, most {max(self.latencies_ms):.0f} ms"
        )


class Burst:
    """All clients in one thread."""

    def __init__(self, service: Service, jobs: int, name: str, keys: Sequence[str] = ()) -> None:
        """Jobs `name`-0, `name`-1 and so on; with `keys`, each in turn with the next of these."""
        self._address = ("127.0.0.1", service.port)
        self._selector = selectors.EpollSelector()
        self._waiting: list[tuple[float, int, Job]] = []
        self.result = Result()
        self.jobs = [
            Job(
                f"POST /api/v1/heartbeat/{name}-{number}/ping HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                f"X-API-Key: {keys[number % len(keys)] if keys else service.key}\r\n"
                f"Idempotency-Key: {name}-{number}\r\nContent-Length: 0\r\n\r\n".encode()
            )
            for number in range(jobs)
        ]

    def run(self, in_the_middle: Callable[[], None] | None = None) -> Result:
        """Send all within a second and wait until all are acknowledged; raises AssertionError where one is not."""
        begun = time.monotonic()
        for number, job in enumerate(self.jobs):
            job.due = begun + number / len(self.jobs)
            self._waiting.append((job.due, number, job))
        left = len(self.jobs)
        while left:
            now = time.monotonic()
            assert now < begun + PATIENCE_SECONDS, f"{left} were never acknowledged: {self.result.answers}"
            if in_the_middle is not None and left < len(self.jobs) / 2:
                in_the_middle()
                in_the_middle = None
            due = 0
            while self._waiting and self._waiting[0][0] <= now and due < 200:
                self._send(heapq.heappop(self._waiting)[2])
                due += 1
            pause = max(0.0, self._waiting[0][0] - now) if self._waiting else 1.0
            for key, _ in self._selector.select(pause):
                left -= self._receive(key.data)
        for job in self.jobs:
            assert job.acknowledged_at is not None
            self.result.latencies_ms.append((job.acknowledged_at - job.due) * 1000)
        self.result.all_within = max(job.acknowledged_at or 0 for job in self.jobs) - begun
        self.result.sent_within = self._last_first_try - begun
        self._selector.close()
        return self.result

    def _send(self, job: Job) -> None:
        if job.tries == 0:
            self._last_first_try = time.monotonic()
        job.tries += 1
        job.connection = socket.socket()
        job.connection.setblocking(False)
        job.connection.connect_ex(self._address)
        self._selector.register(job.connection, selectors.EVENT_WRITE, job)

    def _receive(self, job: Job) -> int:
        """Go on with a connection that is ready; 1 when its heartbeat was acknowledged."""
        connection = job.connection
        assert connection is not None
        if self._selector.get_key(connection).events == selectors.EVENT_WRITE:
            self._selector.modify(connection, selectors.EVENT_READ, job)
            try:
                connection.send(job.request)
            except OSError:
                self.result.cut += 1
                self._again(job, 1)
            return 0
        try:
            piece = connection.recv(65536)
        except OSError:
            piece = b""
        job.received += piece
        head, found, body = job.received.partition(b"\r\n\r\n")
        length = _CONTENT_LENGTH.search(head)
        if not piece:
            self.result.cut += 1
            self._again(job, 1)
            return 0
        if not found or length is None or len(body) < int(length[1]):
            return 0
        status = int(head.split(b" ", 2)[1])
        self.result.answers[status] += 1
        if status == 503:
            retry_after = _RETRY_AFTER.search(head)
            assert retry_after is not None, head
            self._again(job, int(retry_after[1]))
            return 0
        assert status == 200, job.received
        job.acknowledged_at = time.monotonic()
        self._close(job)
        return 1

    def _again(self, job: Job, seconds: float) -> None:
        self._close(job)
        heapq.heappush(self._waiting, (time.monotonic() + seconds, id(job), job))

    def _close(self, job: Job) -> None:
        assert job.connection is not None
        self._selector.unregister(job.connection)
        job.connection.close()
        job.connection, job.received = None, b""


def lost_or_double(service: Service, name: str, jobs: int) -> list[str]:
    """What the organization's file says otherwise than that each job of the burst has one event and one run."""
    with closing(sqlite3.connect(file_of(service.instance, "crash"))) as db:
        db.row_factory = sqlite3.Row
        rows = db.execute(
            "SELECT j.name, (SELECT count(*) FROM events AS e WHERE e.job_id = j.id) AS events,"
            " (SELECT count(*) FROM runs AS r WHERE r.job_id = j.id) AS runs FROM jobs AS j WHERE j.name LIKE ?",
            (f"{name}-%",),
        ).fetchall()
        found = [
            f"{row['name']} has {row['events']} events and {row['runs']} runs"
            for row in rows
            if tuple(row)[1:] != (1, 1)
        ]
        found += [f"{len(rows)} of {jobs} jobs are there"] if len(rows) != jobs else []
        return found + damages(db) + impossible(db)


def allow_sockets(wanted: int) -> None:
    """Raise the limit of open files, here and in what is started from here. Raises AssertionError."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert hard in (resource.RLIM_INFINITY,) or hard >= wanted, f"{wanted} sockets need a higher limit than {hard}"
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--jobs", type=int, default=10_000)
    arguments.add_argument("--times", type=int, default=3)
    arguments.add_argument("--kill", action="store_true")
    options = arguments.parse_args()
    allow_sockets(options.jobs + 100)
    with tempfile.TemporaryDirectory() as folder, running_service(Path(folder)) as service:

        def kill() -> None:
            service.kill()
            service.start(wait=False)

        for time_number in range(options.times):
            name = f"burst{time_number}"
            burst = Burst(service, options.jobs, name)
            print(burst.run(kill if options.kill else None), flush=True)
            wrong = lost_or_double(service, name, options.jobs)
            if wrong:
                print("\n".join(wrong[:20]))
                raise SystemExit(f"{len(wrong)} problems")


if __name__ == "__main__":
    main()
