"""Durable heartbeats per second over HTTP, compared with baselines that are measured in the same run.

    python -m tests.benchmarks.heartbeats [--seconds 5] [--rounds 3] [--cases all] [--runs 5000000]

Needs wrk (Debian: apt-get install wrk) and an otherwise idle machine with two cores. The service is started as users
start it, with ``synchronous = FULL``. Each figure is the median of the rounds; each round runs every case once. The
baselines are a view of Flask that checks the key and responds at once (``x view``), the same pings recorded by threads
without HTTP (``x write``), and plain SQLite, one thread that inserts a row and commits. ``--cases all`` combines every
kind of heartbeat with 1, 100 and 10,000 jobs, 1 and 100 tenants, 16 and 64 connections, kept alive or not. ``--runs``
first adds that many runs of the last 90 days to the file. The last lines show pings while queries over 90 days run one
after another, as a share of the pings without queries.
"""

import argparse
import http.client
import itertools
import json
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from obs import config
from obs.tenancy import instance, service, store
from tests.benchmarks import baselines
from tests.benchmarks.load import Case, Measured, run
from tests.crash.served import Service, file_of, new_service

PING = Case()
CASES = [
    PING,
    Case(connections=64),
    Case(jobs=1),
    Case(jobs=10_000),
    Case(tenants=100),
    Case(tenants=100, jobs=10_000, connections=64),
    Case(keep_alive=False),
    Case(kind="pair"),
    Case(kind="pair", jobs=10_000, connections=64),
    Case(kind="log", body_bytes=1024),
    Case(kind="log", body_bytes=10 * 1024),
]
ALL_CASES = [
    Case(kind, size, jobs, tenants, connections, keep_alive)
    for (kind, size), jobs, tenants, connections, keep_alive in itertools.product(
        (("ping", 0), ("pair", 0), ("log", 1024), ("log", 10 * 1024)),
        (1, 100, 10_000),
        (1, 100),
        (16, 64),
        (True, False),
    )
]
TENANTS = 100
QUERIES = {
    "counts by hour": "SELECT count(*) FROM runs EVERY 1h LAST 90d",
    "reads every run": "SELECT count(*), avg(duration_ms) FROM runs WHERE duration_ms >= 0 EVERY 1h LAST 90d",
    "returns 9,000 rows": "SELECT time, job, status, duration_ms FROM runs LIMIT 9000 LAST 90d",
}
VIEW, WRITE, PLAIN = "Flask view that responds at once", "group commit without HTTP", "plain SQLite, 1 thread"


def make_tenants(folder: Path) -> list[str]:
    """Create TENANTS organizations; returns their keys."""
    tenancy = instance.open_instance(folder, config.load(folder), lambda: time.time_ns() // 1_000_000)
    keys = []
    for number in range(TENANTS):
        created = service.create_organization(tenancy, f"tenant-{number}")
        added = tenancy.control.write(
            lambda db, org=created: store.add_key(  # type: ignore[misc]
                db, org, "load", ("heartbeat:write",), None, tenancy.clock()
            )
        )
        assert added is not None
        keys.append(added.key)
    tenancy.close()
    return keys


def add_runs(service: Service, runs: int) -> None:
    """Add `runs` runs of 100 jobs to the file of the organization ``crash``, spread over the last 90 days."""
    now_ms, step = time.time_ns() // 1_000_000, 90 * 86_400_000 // runs
    with sqlite3.connect(file_of(service.instance, "crash")) as db:
        db.executemany(
            "INSERT INTO jobs (name, created_at, last_heartbeat_at, last_event_id) VALUES (?, ?, ?, 0)",
            ((f"job-{number}", now_ms, now_ms) for number in range(1, 101)),
        )
        db.executemany(
            "INSERT INTO runs (job_id, status, started_at, ended_at, duration_ms, heartbeat_at)"
            " VALUES (?1, 1, ?2, ?2 + 1000, 1000, ?2)",
            ((number % 100 + 1, now_ms - (runs - number) * step) for number in range(runs)),
        )
    db.close()


@contextmanager
def querying(service: Service, query: str) -> Iterator[list[float]]:
    """Run `query` repeatedly in the background; the yielded list contains the duration of each in seconds."""
    durations: list[float] = []
    done = threading.Event()

    def query_repeatedly() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=120)
        while not done.is_set():
            started = time.perf_counter()
            connection.request(
                "POST",
                "/api/v1/dsl",
                json.dumps({"query": query}),
                {"X-API-Key": service.key, "Content-Type": "application/json"},
            )
            response = connection.getresponse()
            body = response.read()
            assert response.status == 200, body
            durations.append(time.perf_counter() - started)
        connection.close()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(query_repeatedly)
        try:
            yield durations
        finally:
            done.set()
        running.result()


@contextmanager
def flask_view(prepared: Service) -> Iterator[None]:
    """Run the baseline with the view of Flask on the instance of `prepared`."""
    command = [sys.executable, "-m", baselines.__name__, str(prepared.port), str(prepared.instance)]
    with prepared.log.open("ab") as log:
        prepared.process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        prepared.wait_until_ready()
        yield
    finally:
        prepared.process.terminate()
        prepared.process.wait()


def show(measured: dict[str, list[Measured]]) -> None:
    medians = {
        name: Measured(*(statistics.median(values) for values in zip(*rounds, strict=True)))
        for name, rounds in measured.items()
    }
    print(f"{'':48}{'per s':>8}{'x view':>8}{'x write':>9}{'p50 ms':>8}{'p99':>8}{'p99.9':>8}{'errors':>8}")
    for name, one in medians.items():
        ratios = one.per_second / medians[VIEW].per_second, one.per_second / medians[WRITE].per_second
        errors = sum(each.errors for each in measured[name])
        print(
            f"{name:48}{one.per_second:8.0f}{ratios[0]:8.2f}{ratios[1]:9.2f}"
            f"{one.p50_ms:8.1f}{one.p99_ms:8.1f}{one.p999_ms:8.1f}{errors:8d}"
        )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=int, default=5)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--cases", choices=("usual", "all"), default="usual")
    arguments.add_argument("--runs", type=int, default=0)
    options = arguments.parse_args()
    measured: dict[str, list[Measured]] = {}
    durations: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        folder = Path(name)
        (folder / "view").mkdir()
        service = new_service(folder, {"OBS_QUERY_RATE_PER_MINUTE": "1000000"})
        view = new_service(folder / "view")
        keys = [service.key, *make_tenants(service.instance)]
        if options.runs:
            add_runs(service, options.runs)
        service.start()
        try:
            for case in (
                Case(jobs=10_000),
                Case(jobs=10_000, tenants=TENANTS),
            ):  # creates the jobs, and warms the caches
                run(case, service.port, keys, 5, folder)
            for number in range(options.rounds):
                print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
                measured.setdefault(PLAIN, []).append(baselines.plain_sqlite(folder, options.seconds))
                measured.setdefault(WRITE, []).append(baselines.group_commit(folder, 100, 16, options.seconds))
                with flask_view(view):
                    measured.setdefault(VIEW, []).append(run(PING, view.port, [view.key], options.seconds, folder))
                for case in CASES if options.cases == "usual" else ALL_CASES:
                    measured.setdefault(str(case), []).append(run(case, service.port, keys, options.seconds, folder))
                for name, query in QUERIES.items():
                    with querying(service, query) as seconds:
                        beside = run(PING, service.port, keys, options.seconds, folder)
                    measured.setdefault(f"ping, while a query {name}", []).append(beside)
                    durations.setdefault(name, []).extend(seconds)
        finally:
            service.kill()
    show(measured)
    alone = statistics.median(one.per_second for one in measured[str(PING)])
    for name, seconds in durations.items():
        share = statistics.median(one.per_second for one in measured[f"ping, while a query {name}"]) / alone
        print(
            f"{share:.2f} of the pings while a query {name}, {len(seconds)} in {statistics.median(seconds):.3f} s each"
        )


if __name__ == "__main__":
    main()
