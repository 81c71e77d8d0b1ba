"""Write an instance with many jobs and runs directly with SQL, to measure what stored data costs.

    python -m tests.benchmarks.stored FOLDER [--jobs 10000] [--runs 1000]

FOLDER becomes the folder of the instance, with the organization ``crash``. Each job has as many runs, one a minute, the
last one now; the next is expected in 30 days, so that nothing becomes overdue. Ten million runs take a few minutes and about 1.5 GB. Prints a key that may do everything.
"""

import argparse
import json
import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from obs.heartbeat.overdue import expect
from obs.heartbeat.runs import Kind, Status
from obs.heartbeat.schedule import VERSION, describe
from obs.heartbeat.store.expectations import HISTORY
from obs.times import MINUTE_MS
from tests.crash.served import Service, free_port, new_service

_JOB = """
    INSERT INTO jobs (id, name, created_at, attribution_id, last_heartbeat_at, last_event_id, last_outcome, run_count,
                      timed_run_count, total_duration_ms, learned_event_id, interval_ms, expected_at, overdue_at,
                      grace_ms)
    VALUES (?1, ?2, ?3, 1 + ?1 % 20, ?4, ?1, ?5, ?6, ?6, ?6 * 5000, ?1, 60000, ?4 + 2592000000, ?4 + 2592000000, 30000)
"""
_RUN = """
    INSERT INTO runs (job_id, status, started_at, ended_at, duration_ms, heartbeat_at, attribution_id)
    VALUES (?1, ?2, ?3, ?3 + ?4, ?4, ?3, 1 + ?1 % 20)
"""


def store(path: Path, jobs: int, runs: int, now_ms: int) -> None:
    """Fill the new organization's file at `path`. Every job has one event, that of its last run."""
    first = now_ms - runs * MINUTE_MS
    chance = random.Random(1)

    def all_runs() -> Iterator[tuple[int, int, int, int]]:
        for number in range(runs):
            for job in range(1, jobs + 1):
                status = Status.FAILED if chance.random() < 0.01 else Status.SUCCESS
                yield job, status, first + (number + 1) * MINUTE_MS - job % 1000, 1_000 + job % 9_000

    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous = OFF")
        db.execute("PRAGMA cache_size = -200000")
        db.execute("PRAGMA wal_autocheckpoint = 0")
        indexes = db.execute(
            "SELECT name, sql FROM sqlite_schema WHERE tbl_name = 'runs' AND type = 'index'"
        ).fetchall()
        db.execute("BEGIN")
        for name, _ in indexes:
            db.execute(f"DROP INDEX {name}")
        places = [
            (number, f"host-{number % 10}", f"service-{number % 5}", f"project-{number % 4}") for number in range(1, 21)
        ]
        db.executemany("INSERT INTO attributions (id, host, service, project) VALUES (?, ?, ?, ?)", places)
        db.executemany(
            _JOB,
            (
                (job, f"team-{job % 100:02}/job-{job:06}", first, now_ms - job % 1000, Status.SUCCESS, runs)
                for job in range(1, jobs + 1)
            ),
        )
        db.executemany(_RUN, all_runs())
        db.execute(
            "INSERT INTO events (id, job_id, run_id, kind, received_at, time, run_status)"
            " SELECT jobs.id, jobs.id, runs.id, ?, last_heartbeat_at, last_heartbeat_at, runs.status FROM jobs"
            " JOIN runs ON runs.id = (SELECT max(id) FROM runs) - (SELECT count(*) FROM jobs) + jobs.id",
            (Kind.PING,),
        )
        fit = expect([first + number * MINUTE_MS for number in range(HISTORY)], [5_000] * HISTORY, ["UTC"]).fit
        db.execute(
            "INSERT INTO fits (job_id, version, fit, learned) SELECT id, ?, ?, ? FROM jobs",
            (VERSION, fit.encode(), json.dumps(asdict(describe(fit)))),
        )
        for _, sql in indexes:
            db.execute(sql)
        db.execute("COMMIT")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def new_stored_service(folder: Path, jobs: int, runs: int) -> Service:
    """A service that was not started yet, on a new instance in `folder` with that many jobs and runs of each."""
    folder.mkdir(parents=True, exist_ok=True)
    service = new_service(folder)
    store(tenant_file(service.instance), jobs, runs, time.time_ns() // 1_000_000)
    return service


def tenant_file(instance: Path) -> Path:
    """The file of the organization ``crash``."""
    (path,) = (instance / "tenants").glob("crash*.db")
    return path


def known_service(folder: Path, key: str) -> Service:
    """A service that was not started yet, on an instance that `main` wrote."""
    return Service(folder / "instance", free_port(), key)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--jobs", type=int, default=10_000)
    arguments.add_argument("--runs", type=int, default=1_000)
    options = arguments.parse_args()
    print(new_stored_service(options.folder, options.jobs, options.runs).key)


if __name__ == "__main__":
    main()
