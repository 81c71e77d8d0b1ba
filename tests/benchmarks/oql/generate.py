"""Fill an instance with runs: 5 million in 90 days over 100 jobs, and the same rows in a file of DuckDB's own.

    python -m tests.benchmarks.oql.generate FOLDER [--runs 5000000]

The rows are the same every time: job, start, status and duration come from a seeded generator. 1 % fail, 1 % are lost,
durations are log-normal around a minute. A fifth of a million log messages stands beside them.
"""

import argparse
import math
import random
import sqlite3
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb

from obs import create_app
from obs.heartbeat import rollups
from obs.heartbeat import service as heartbeats_service
from obs.services import services
from obs.tenancy import auth, keys, service, store
from obs.times import DAY_MS, parse_iso

ORG = "bench"
JOBS = 100
DAYS = 90
NOW_MS = parse_iso("2026-06-21T10:00:00Z")
WORDS = [
    "backup",
    "copied",
    "rows",
    "files",
    "bytes",
    "table",
    "index",
    "retry",
    "connection",
    "timeout",
    "disk",
    "full",
    "user",
    "mail",
    "sent",
    "queue",
    "done",
]
_BATCH = 50_000


def rows(runs: int) -> Iterator[tuple[int, int, int, int | None, int | None]]:
    """job_id, status, started_at, duration_ms, exit_code; ascending in time, as they would have come in."""
    chance = random.Random(1)
    step = DAYS * DAY_MS / runs
    for number in range(runs):
        started_at = int(NOW_MS - DAYS * DAY_MS + number * step + chance.random() * step)
        dice = chance.random()
        status = 2 if dice < 0.01 else 3 if dice < 0.02 else 1
        duration = None if status == 3 else int(math.exp(chance.gauss(11, 0.7)))
        yield chance.randint(1, JOBS), status, started_at, duration, None if status == 3 else status - 1


def messages(count: int) -> Iterator[tuple[int, int, str]]:
    """job_id, received_at, message."""
    chance = random.Random(2)
    step = DAYS * DAY_MS / count
    for number in range(count):
        text = " ".join(chance.choices(WORDS, k=12))
        if number % 10_000 == 0:
            text += " needle"
        yield chance.randint(1, JOBS), int(NOW_MS - DAYS * DAY_MS + number * step), text


def fill(db: sqlite3.Connection, runs: int, progress: bool) -> None:
    """Put everything into the organization's file."""
    db.executemany(
        "INSERT INTO jobs (id, name, created_at, last_heartbeat_at, last_event_id) VALUES (?, ?, 0, ?, 0)",
        [(number, f"job-{number:03}", NOW_MS) for number in range(1, JOBS + 1)],
    )
    insert = (
        "INSERT INTO runs (job_id, status, started_at, duration_ms, exit_code, heartbeat_at) VALUES (?, ?, ?, ?, ?, 0)"
    )
    batch = []
    began = time.monotonic()
    for number, row in enumerate(rows(runs), 1):
        batch.append(row)
        if len(batch) == _BATCH or number == runs:
            db.executemany(insert, batch)
            batch.clear()
            if progress:
                part = number / runs
                left = (time.monotonic() - began) * (1 - part) / part
                sys.stderr.write(f"\r[{'#' * int(part * 40):40}] {part:4.0%}, {left:3.0f} s left ")
                sys.stderr.flush()
    db.executemany(
        "INSERT INTO events (job_id, kind, received_at, time, message) VALUES (?, 1, ?, 0, ?)", messages(runs // 25)
    )
    if progress:
        sys.stderr.write("\n")


def copy_to_duckdb(path: Path, target: Path) -> None:
    """The same runs, with the names of the jobs and of the states, in DuckDB's own format."""
    source = sqlite3.connect(path)
    db = duckdb.connect(str(target))
    db.execute("SET TimeZone = 'UTC'")
    db.execute("CREATE TABLE runs (job VARCHAR, status VARCHAR, time BIGINT, duration_ms BIGINT, exit_code INTEGER)")
    names = ["open", "success", "failed", "lost"]
    cursor = source.execute("SELECT job_id, status, started_at, duration_ms, exit_code FROM runs ORDER BY started_at")
    csv = target.with_suffix(".csv")
    with csv.open("w") as file:
        for job, status, started_at, duration, code in cursor:
            file.write(
                f"job-{job:03},{names[status]},{started_at},{'' if duration is None else duration},{'' if code is None else code}\n"
            )
    db.execute(f"COPY runs FROM '{csv}' (HEADER false)")
    csv.unlink()
    db.execute("CREATE TABLE logs (time BIGINT, job VARCHAR, message VARCHAR)")
    logs = source.execute(
        "SELECT received_at, job_id, message FROM events WHERE message IS NOT NULL ORDER BY received_at"
    )
    with csv.open("w") as file:
        file.writelines(f"{received_at},job-{job:03},{message}\n" for received_at, job, message in logs)
    db.execute(f"COPY logs FROM '{csv}' (HEADER false)")
    csv.unlink()
    db.close()
    source.close()


def make(folder: Path, runs: int, *, progress: bool = True) -> str:
    """Make the instance and DuckDB's file in `folder`; returns a key."""
    app = create_app({"TESTING": True, "INSTANCE": folder / "instance", "CLOCK": lambda: NOW_MS})
    tenancy: auth.Tenancy = services(app).tenancy
    org = service.create_organization(tenancy, ORG)
    added = tenancy.control.write(lambda db: store.add_key(db, org, "bench", keys.SCOPES[:-1], None, NOW_MS))
    assert added is not None
    tenancy.databases.write(org, lambda db: fill(db, runs, progress))
    while heartbeats_service.index_messages(tenancy.databases, org):
        pass
    while rollups.roll_up(tenancy.databases, org, NOW_MS, DAYS + 1):
        pass
    copy_to_duckdb(tenancy.databases.path(org), folder / "runs.duckdb")
    (folder / "key").write_text(added[1])
    return added[1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=5_000_000)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    make(given.folder, given.runs)
