"""Baselines for heartbeats per second: a view of Flask without a write, the write without HTTP, and plain SQLite.

    python -m tests.benchmarks.baselines PORT INSTANCE

serves an instance with a view of Flask in place of the heartbeat endpoint. The view checks the key, responds at once,
and records nothing.
"""

import random
import sqlite3
import statistics
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from flask import Flask, Response, request
from granian import Granian
from granian.constants import HTTPModes, Interfaces

from migrations import tenant
from obs import create_app
from obs.heartbeat.runs import Heartbeat, Kind
from obs.heartbeat.store.record import JobHeartbeat, record
from obs.services import services
from obs.storage.databases import Databases, Org
from obs.storage.file import FileOptions
from obs.tenancy.auth import authenticate
from tests.benchmarks.load import Measured

_ANSWER = b'{"job": "job-1", "event": "ping", "run_id": 1, "run_status": "success", "time": "2026-06-21T10:00:00.000Z"}'
_THREADS = 64


def respond_at_once(instance: Path) -> Callable[..., Any]:
    """The application without its middleware, with a view of Flask that responds to pings and records nothing."""
    app = create_app({"INSTANCE": instance})

    def ping(job_name: str) -> Response:
        authenticate(services(app).tenancy, request.environ, "heartbeat:write")
        return Response(_ANSWER, content_type="application/json")

    app.add_url_rule("/api/v1/heartbeat/<job_name:job_name>/ping", view_func=ping, methods=["POST"])
    services(app).background.start()
    return partial(Flask.wsgi_app, app)


def group_commit(folder: Path, jobs: int, threads: int, seconds: float) -> Measured:
    """Record pings in `threads` threads of this process: the write path without HTTP."""
    databases = Databases(folder, FileOptions(tenant.migrations, 5, 1_000), 4)
    bare = Org("bare", 1)
    databases.create(bare)
    end = time.perf_counter() + seconds
    durations_ms: list[float] = []

    def ping() -> None:
        own = []
        while (started := time.perf_counter()) < end:
            now_ms = time.time_ns() // 1_000_000
            sent = JobHeartbeat(f"job-{random.randrange(jobs)}", Heartbeat(Kind.PING, now_ms))
            databases.write(bare, partial(record, sent=sent, now_ms=now_ms))
            own.append((time.perf_counter() - started) * 1000)
        durations_ms.extend(own)

    senders = [threading.Thread(target=ping) for _ in range(threads)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    databases.close()
    return _measured(durations_ms, seconds)


def plain_sqlite(folder: Path, seconds: float) -> Measured:
    """One row per commit in one thread, with ``synchronous = FULL``: what the disk allows without group commit."""
    connection = sqlite3.connect(folder / "plain.sqlite", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS heartbeats (id INTEGER PRIMARY KEY, job TEXT, at INTEGER)")
    durations_ms = []
    end = time.perf_counter() + seconds
    while (started := time.perf_counter()) < end:
        connection.execute("INSERT INTO heartbeats (job, at) VALUES ('job-1', ?)", (time.time_ns(),))
        durations_ms.append((time.perf_counter() - started) * 1000)
    connection.close()
    return _measured(durations_ms, seconds)


def _measured(durations_ms: list[float], seconds: float) -> Measured:
    thousandths = statistics.quantiles(durations_ms, n=1000)
    return Measured(len(durations_ms) / seconds, thousandths[499], thousandths[989], thousandths[998], 0)


def main() -> None:
    port, instance = int(sys.argv[1]), Path(sys.argv[2])
    server = Granian(
        "obs",
        port=port,
        interface=Interfaces.WSGI,
        workers=1,
        blocking_threads=_THREADS,
        http=HTTPModes.http1,
        websockets=False,
    )
    server.serve(target_loader=partial(_load, instance), wrap_loader=False)


def _load(instance: Path) -> Callable[..., Any]:
    return respond_at_once(instance)


if __name__ == "__main__":
    main()
