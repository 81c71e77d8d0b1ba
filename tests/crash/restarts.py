"""Restart the service again and again while many clients send heartbeats that they never repeat.

    python -m tests.crash.restarts [--times 20] [--clients 200] [--kill]

Each client opens a new connection for every heartbeat. SIGHUP replaces the service by the installed version; with
--kill, the worker process is killed instead, which may cut the connections that it has accepted, but no others. No
connection may be refused, every heartbeat must be acknowledged, and the acknowledged ones must be stored exactly once.
"""

import argparse
import asyncio
import os
import signal
import sqlite3
import statistics
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.served import Service, file_of, running_service

PATIENCE_SECONDS = 60
BETWEEN_SECONDS = 0.2


@dataclass
class Result:
    """What the clients saw: answers by status or error, acknowledged heartbeats by job, and waits in seconds."""

    outcomes: Counter[str] = field(default_factory=Counter)
    acknowledged: Counter[str] = field(default_factory=Counter)
    waits: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        quantiles = statistics.quantiles(self.waits, n=100)
        return (
            f"{dict(self.outcomes)}; waits p50 {quantiles[49] * 1000:.0f}, p99 {quantiles[98] * 1000:.0f},"
            f" most {max(self.waits) * 1000:.0f} ms"
        )


async def _heartbeat(service: Service, job: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
    try:
        writer.write(
            f"POST /api/v1/heartbeat/{job}/ping HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {service.key}\r\n"
            f"Content-Length: 0\r\nConnection: close\r\n\r\n".encode()
        )
        answer = await reader.read()
    finally:
        writer.close()
    return answer[9:12].decode() or "closed without an answer"


async def _client(service: Service, job: str, result: Result, stop: asyncio.Event) -> None:
    while not stop.is_set():
        begun = time.monotonic()
        try:
            outcome = await _heartbeat(service, job)
        except OSError as error:
            outcome = type(error).__name__
        result.waits.append(time.monotonic() - begun)
        result.outcomes[outcome] += 1
        result.acknowledged[job] += outcome == "200"
        await asyncio.sleep(BETWEEN_SECONDS)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def _restart(service: Service, *, kill: bool) -> None:
    """Replace the worker, and return when another one has reported that it listens."""
    assert service.process is not None
    before = service.logged().count("obs listens at")
    if kill:
        os.kill(children(service.process.pid)[0], signal.SIGKILL)
    else:
        service.process.send_signal(signal.SIGHUP)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while service.logged().count("obs listens at") == before:
            assert service.process.poll() is None, service.logged()[-3000:]
            await asyncio.sleep(0.05)


async def _run(service: Service, times: int, clients: int, *, kill: bool) -> Result:
    result, stop = Result(), asyncio.Event()
    tasks = [asyncio.create_task(_client(service, f"job-{number}", result, stop)) for number in range(clients)]
    for _ in range(times):
        await asyncio.sleep(BETWEEN_SECONDS)
        await _restart(service, kill=kill)
    stop.set()
    await asyncio.gather(*tasks)
    return result


def restart_under_load(service: Service, times: int, clients: int, *, kill: bool = False) -> Result:
    """Restart `times` times while `clients` send heartbeats of a job each."""
    with ThreadPoolExecutor(1) as thread:  # Playwright's event loop may run in this one
        return thread.submit(lambda: asyncio.run(_run(service, times, clients, kill=kill))).result()


def stored(service: Service) -> Counter[str]:
    """The number of stored heartbeats by job."""
    with closing(sqlite3.connect(file_of(service.instance, "crash"))) as db:
        return Counter(
            dict(db.execute("SELECT name, count(*) FROM events JOIN jobs ON jobs.id = job_id GROUP BY name").fetchall())
        )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--times", type=int, default=20)
    arguments.add_argument("--clients", type=int, default=200)
    arguments.add_argument("--kill", action="store_true")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder, running_service(Path(folder)) as service:
        result = restart_under_load(service, options.times, options.clients, kill=options.kill)
        print(result)
        if not options.kill and (set(result.outcomes) != {"200"} or stored(service) != result.acknowledged):
            raise SystemExit("heartbeats were lost")
        if result.outcomes["ConnectionRefusedError"]:
            raise SystemExit("connections were refused")


if __name__ == "__main__":
    main()
