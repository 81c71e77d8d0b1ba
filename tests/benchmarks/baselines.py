"""What heartbeats a second are held against: the same view without the write, the same write without HTTP, bare SQLite.

    python -m tests.benchmarks.baselines PORT INSTANCE

serves an instance whose heartbeats are answered at once by Flask's own view, with the key checked and nothing recorded.
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

from flask import Flask
from granian import Granian
from granian.constants import HTTPModes, Interfaces

from migrations import tenant
from obs import create_app
from obs.heartbeat.runs import Heartbeat, Kind
from obs.heartbeat.store.attributions import NOWHERE
from obs.heartbeat.store.record import record
from obs.services import services
from obs.storage.databases import Databases
from tests.benchmarks.load import Measured

_ANSWER = b'{"job": "job-1", "event": "ping", "run_id": 1, "run_status": "success", "time": "2026-06-21T10:00:00.000Z"}'
_THREADS = 64


def answer_at_once(instance: Path) -> Callable[..., Any]:
    """The application as it is, but for the lane in front of Flask and for the write behind the view."""
    app = create_app({"INSTANCE": instance})
    app.extensions["obs.heartbeat"].take = lambda *_: _ANSWER
    services(app).background.start()
    return partial(Flask.wsgi_app, app)


def group_commit(folder: Path, jobs: int, threads: int, seconds: float) -> Measured:
    """Pings recorded by so many threads in this process: the write path without HTTP."""
    databases = Databases(folder, tenant.migrations, busy_seconds=5, most_waiting=1_000, most_files=4)
    databases.create("bare")
    end = time.perf_counter() + seconds
    taken: list[float] = []

    def ping() -> None:
        own = []
        while (begun := time.perf_counter()) < end:
            now_ms = time.time_ns() // 1_000_000
            heartbeat = Heartbeat(Kind.PING, now_ms)
            databases.write(
                "bare",
                partial(
                    record,
                    name=f"job-{random.randrange(jobs)}",
                    heartbeat=heartbeat,
                    attribution=NOWHERE,
                    idempotency_key=None,
                    now_ms=now_ms,
                ),
            )
            own.append((time.perf_counter() - begun) * 1000)
        taken.extend(own)

    senders = [threading.Thread(target=ping) for _ in range(threads)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    databases.close()
    return _measured(taken, seconds)


def bare_sqlite(folder: Path, seconds: float) -> Measured:
    """One row, one commit, one thread, ``synchronous = FULL``: what the disk gives without group commit."""
    connection = sqlite3.connect(folder / "bare.sqlite", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS heartbeats (id INTEGER PRIMARY KEY, job TEXT, at INTEGER)")
    taken = []
    end = time.perf_counter() + seconds
    while (begun := time.perf_counter()) < end:
        connection.execute("INSERT INTO heartbeats (job, at) VALUES ('job-1', ?)", (time.time_ns(),))
        taken.append((time.perf_counter() - begun) * 1000)
    connection.close()
    return _measured(taken, seconds)


def _measured(taken: list[float], seconds: float) -> Measured:
    thousandths = statistics.quantiles(taken, n=1000)
    return Measured(len(taken) / seconds, thousandths[499], thousandths[989], thousandths[998], 0)


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
    return answer_at_once(instance)


if __name__ == "__main__":
    main()
