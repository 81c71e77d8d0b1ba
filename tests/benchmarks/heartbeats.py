"""Durable heartbeats a second over HTTP, beside bare SQLite commits on the same disk, in the same run.

    python tests/benchmarks/heartbeats.py [--seconds 10] [--rounds 3]

Needs wrk (Debian: apt-get install wrk). The service is started as users start it, with synchronous=FULL. Each figure
is the median of the rounds, which take the cases in turn. The baseline is one thread that inserts one row and commits,
also with synchronous=FULL: what this disk gives without group commit.
"""

import argparse
import re
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent / "crash"))
from kill_under_load import Service, running_service

CONNECTIONS = 16
SCRIPT = """
local jobs = {jobs}
wrk.headers["X-API-Key"] = "{key}"
request = function()
  return wrk.format("POST", "/api/v1/heartbeat/job-" .. math.random(jobs) .. "/ping")
end
done = function(summary, latency)
  io.write(string.format("RESULT %f %f %f %d\\n", summary.requests / summary.duration * 1e6,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000,
    summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.timeout))
end
"""


class Measured(NamedTuple):
    """Requests (or commits) a second; latencies in milliseconds; answers other than 2xx."""

    per_second: float
    p50_ms: float
    p99_ms: float
    errors: int


def over_http(service: Service, jobs: int, connections: int, seconds: int, folder: Path) -> Measured:
    """Pings of `jobs` jobs in turn, with wrk."""
    script = folder / "ping.lua"
    script.write_text(SCRIPT.format(jobs=jobs, key=service.key))
    address = f"http://127.0.0.1:{service.port}"
    done = subprocess.run(
        ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(script), address],
        check=True,
        capture_output=True,
        text=True,
    )
    result = re.search(r"RESULT (\S+) (\S+) (\S+) (\d+)", done.stdout)
    assert result is not None, done.stdout
    return Measured(float(result[1]), float(result[2]), float(result[3]), int(result[4]))


def bare_sqlite(folder: Path, seconds: int) -> Measured:
    """One row, one commit, one thread."""
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS heartbeats (id INTEGER PRIMARY KEY, job TEXT, at INTEGER)")
    taken = []
    end = time.perf_counter() + seconds
    while (begun := time.perf_counter()) < end:
        connection.execute("INSERT INTO heartbeats (job, at) VALUES ('job-1', ?)", (time.time_ns(),))
        taken.append((time.perf_counter() - begun) * 1000)
    connection.close()
    quantiles = statistics.quantiles(taken, n=100)
    return Measured(len(taken) / seconds, quantiles[49], quantiles[98], 0)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=int, default=10)
    arguments.add_argument("--rounds", type=int, default=3)
    options = arguments.parse_args()
    measured: dict[str, list[Measured]] = {}
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name, running_service(Path(name)) as service:
        folder = Path(name)
        over_http(service, 100, CONNECTIONS, 2, folder)  # makes the jobs, warms the caches
        for _ in range(options.rounds):
            measured.setdefault("bare SQLite, 1 thread", []).append(bare_sqlite(folder, options.seconds))
            for jobs in (1, 100):
                for connections in (CONNECTIONS, 4 * CONNECTIONS):
                    case = f"ping, {jobs} jobs, {connections} connections"
                    measured.setdefault(case, []).append(over_http(service, jobs, connections, options.seconds, folder))
    baseline = statistics.median(one.per_second for one in measured["bare SQLite, 1 thread"])
    print(f"{'':34}{'per second':>12}{'x bare':>8}{'p50 ms':>8}{'p99 ms':>8}{'errors':>8}")
    for case, rounds in measured.items():
        median = [statistics.median(values) for values in zip(*rounds, strict=True)]
        print(
            f"{case:34}{median[0]:12.0f}{median[0] / baseline:8.2f}{median[1]:8.1f}{median[2]:8.1f}"
            f"{sum(one.errors for one in rounds):8d}"
        )


if __name__ == "__main__":
    main()
