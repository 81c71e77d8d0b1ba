"""Fill an instance with runs: 5 million in 90 days over 200 jobs, and the same rows in a file of DuckDB's own.

    python -m tests.benchmarks.oql.generate FOLDER [--runs 5000000]

The rows are the same every time: they come from a few hashes of their number, in SQL. The jobs run on 12 hosts, in 4
services and 3 projects, some of them on several. 1 % of the runs fail, with four exit codes, 1 % are lost, and
durations are log-normal around a minute. A log message stands beside each 25th run.
"""

import argparse
import math
import sqlite3
import time
from pathlib import Path

import duckdb

from obs import create_app
from obs.heartbeat.service import roll_up
from obs.heartbeat.store import upkeep
from obs.services import services
from obs.storage.databases import in_batches
from obs.tenancy import auth, keys, service, store
from obs.times import DAY_MS, parse_iso

ORG = "bench"
JOBS = 200
PLACES = 48
DAYS = 90
NOW_MS = parse_iso("2026-06-21T20:37:12.345Z")
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

_RUNS = """
    WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < :runs),
    dice AS (
        SELECT n, share(n, 1) AS a, share(n, 2) AS b, share(n, 3) AS c, share(n, 4) AS d, share(n, 5) AS e FROM numbers
    ),
    drawn AS (
        SELECT n, a, d, CAST(b * b * :jobs AS INTEGER) + 1 AS job,
            CASE WHEN c < 0.01 THEN 2 WHEN c < 0.02 THEN 3 ELSE 1 END AS status,
            CAST(exp(11 + 0.7 * 1.73 * (a + b + d + e - 2)) AS INTEGER) AS duration, e
        FROM dice
    )
    INSERT INTO runs (job_id, status, started_at, ended_at, duration_ms, exit_code, attribution_id, late_ms,
        heartbeat_at)
    SELECT job, status, CAST(:start + (n + a) * :step AS INTEGER),
        CASE WHEN status <> 3 THEN CAST(:start + (n + a) * :step AS INTEGER) + duration END,
        CASE WHEN status <> 3 THEN duration END,
        CASE status WHEN 1 THEN 0 WHEN 2 THEN CASE CAST(d * 4 AS INTEGER) WHEN 0 THEN 1 WHEN 1 THEN 2 WHEN 2 THEN 137
            ELSE 143 END END,
        (job * 7 + CASE WHEN job % 10 < 7 THEN 0 WHEN job % 10 < 9 THEN n % 2 ELSE n % 5 END) % :places + 1,
        CASE WHEN e < 0.03 THEN CAST(e * 4000000 AS INTEGER) END, 0
    FROM drawn
"""


def _share(number: int, salt: int) -> float:
    """A number from 0 to 1 that depends on both arguments alone."""
    mixed = (number * 0x9E3779B97F4A7C15 + salt * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    mixed = ((mixed ^ (mixed >> 31)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return (mixed >> 11) / 2**53


def fill(db: sqlite3.Connection, runs: int, jobs: int) -> None:
    """Put everything into the organization's file."""
    db.create_function("share", 2, _share, deterministic=True)
    db.create_function("exp", 1, math.exp, deterministic=True)
    db.executemany(
        "INSERT INTO jobs (id, name, created_at, last_heartbeat_at, last_event_id) VALUES (?, ?, 0, ?, 0)",
        [(number, f"job-{number:03}", NOW_MS) for number in range(1, jobs + 1)],
    )
    db.executemany(
        "INSERT INTO attributions (id, host, service, project) VALUES (?, ?, ?, ?)",
        [
            (place, f"host-{place % 12:02}", f"service-{place // 12 % 4}", f"project-{place % 3}")
            for place in range(1, PLACES + 1)
        ],
    )
    made = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'runs' AND sql <> ''"
    indexes = db.execute(made).fetchall()
    for name, _ in indexes:
        db.execute(f"DROP INDEX {name}")
    values = {
        "runs": runs,
        "jobs": jobs,
        "places": PLACES,
        "start": NOW_MS - DAYS * DAY_MS,
        "step": DAYS * DAY_MS / runs,
    }
    db.execute(_RUNS, values)
    for _, sql in indexes:
        db.execute(sql)
    count = runs // 25
    step = DAYS * DAY_MS / count
    messages = (
        (
            int(_share(number, 6) * jobs) + 1,
            int(NOW_MS - DAYS * DAY_MS + number * step),
            " ".join(WORDS[int(_share(number, 7 + word) * len(WORDS))] for word in range(12))
            + (" needle" if number % 10_000 == 0 else ""),
        )
        for number in range(count)
    )
    db.executemany("INSERT INTO events (job_id, kind, received_at, time, message) VALUES (?, 1, ?, 0, ?)", messages)


def copy_to_duckdb(path: Path, target: Path) -> None:
    """The same runs, with all names, in DuckDB's own format."""
    source = sqlite3.connect(path)
    db = duckdb.connect(str(target))
    db.execute("SET TimeZone = 'UTC'")
    tables = {
        "runs": (
            "job VARCHAR, status VARCHAR, time BIGINT, duration_ms BIGINT, exit_code INTEGER, host VARCHAR,"
            " service VARCHAR, project VARCHAR, late_ms BIGINT, id BIGINT",
            "SELECT jobs.name, CASE status WHEN 1 THEN 'success' WHEN 2 THEN 'failed' ELSE 'lost' END, started_at,"
            " coalesce(duration_ms, ''), coalesce(exit_code, ''), host, service, project, coalesce(late_ms, ''), runs.id"
            " FROM runs JOIN jobs ON jobs.id = job_id JOIN attributions ON attributions.id = runs.attribution_id"
            " ORDER BY runs.id",
        ),
        "logs": (
            "time BIGINT, job VARCHAR, message VARCHAR",
            "SELECT received_at, jobs.name, message FROM events JOIN jobs ON jobs.id = job_id ORDER BY received_at",
        ),
    }
    csv = target.with_suffix(".csv")
    for table, (columns, select) in tables.items():
        db.execute(f"CREATE TABLE {table} ({columns})")
        with csv.open("w") as file:
            for row in source.execute(select):
                file.write(",".join(map(str, row)) + "\n")
        db.execute(f"COPY {table} FROM '{csv}' (HEADER false)")
        csv.unlink()
    db.close()
    source.close()


def make(folder: Path, runs: int, jobs: int) -> str:
    """Make the instance and DuckDB's file in `folder`; returns a key."""
    app = create_app({"TESTING": True, "INSTANCE": folder / "instance", "CLOCK": lambda: NOW_MS})
    tenancy: auth.Tenancy = services(app).tenancy
    org = service.create_organization(tenancy, ORG)
    added = tenancy.control.write(lambda db: store.add_key(db, org, "bench", keys.SCOPES[:-1], None, NOW_MS))
    assert added is not None
    (folder / "key").write_text(added.key)
    tenancy.databases.write(org, lambda db: fill(db, runs, jobs))
    copy_to_duckdb(tenancy.databases.path(org), folder / "runs.duckdb")
    in_batches(tenancy.databases, org, upkeep.index_messages)
    began = time.process_time()
    while roll_up(tenancy.databases, org, NOW_MS, DAYS + 1):
        pass
    print(f"rolled up in {time.process_time() - began:.1f} s of CPU")
    return added.key


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=5_000_000)
    parser.add_argument("--jobs", type=int, default=JOBS)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    make(given.folder, given.runs, given.jobs)
