"""The memory of the service during many heartbeats, which must not grow.

    python -m tests.benchmarks.memory [--heartbeats 10000000] [--jobs 100]

Needs wrk. After each fiftieth of the heartbeats, prints the resident memory of the worker process and of the other
processes (the supervisor, those that run queries), and the size of the organization's file.
"""

import argparse
import tempfile
from collections import deque
from pathlib import Path

from tests.benchmarks.load import Case, run
from tests.crash.served import Service, file_of, running_service

SECONDS = 10


def resident_mb(pid: int) -> float:
    """Resident memory of a process in megabytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def processes(service: Service) -> list[int]:
    """The process ids of the service, each after its parent."""
    assert service.process is not None
    found, waiting = [], deque([service.process.pid])
    while waiting:
        pid = waiting.popleft()
        found.append(pid)
        for task in Path(f"/proc/{pid}/task").iterdir():
            waiting.extend(map(int, (task / "children").read_text().split()))
    return found


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--heartbeats", type=int, default=10_000_000)
    arguments.add_argument("--jobs", type=int, default=100)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name, running_service(Path(name)) as service:
        sent, shown, errors = 0.0, 0.0, 0
        print(f"{'heartbeats':>12}{'per second':>12}{'worker MB':>11}{'others MB':>11}{'file MB':>9}{'errors':>8}")
        while sent < options.heartbeats:
            done = run(Case(jobs=options.jobs), service.port, [service.key], SECONDS, Path(name))
            sent += done.per_second * SECONDS
            errors += done.errors
            if sent < shown and sent < options.heartbeats:
                continue
            shown += options.heartbeats / 50
            workers = [resident_mb(pid) for pid in processes(service)]
            size = file_of(service.instance, "crash").stat().st_size / 1e6
            rest = sum(workers) - workers[1]
            print(
                f"{sent:12.0f}{done.per_second:12.0f}{workers[1]:11.1f}{rest:11.1f}{size:9.0f}{errors:8d}", flush=True
            )


if __name__ == "__main__":
    main()
