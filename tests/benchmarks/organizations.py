"""What many organizations cost: heartbeats per second across all of them, and what the service does while idle.

    python -m tests.benchmarks.organizations FOLDER [--organizations 1000] [--seconds 10] [--idle 60]

Needs wrk. The instance in FOLDER is created if it is missing. Prints how long the service takes to start again, the
heartbeats per second to one organization and to all, with baselines and ratios, then the memory, the processor time and
the bytes written of the idle service.
"""

import argparse
import json
import time
from pathlib import Path

from tests.benchmarks.load import Case, run
from tests.benchmarks.memory import processes, resident_mb
from tests.benchmarks.paired import Version
from tests.crash.served import Service, free_port, new_service


def written_bytes(service: Service) -> int:
    """The bytes that the processes of the service have written to disk so far."""
    total = 0
    for pid in processes(service):
        fields = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
        total += int(fields["write_bytes"])
    return total


def open_service(folder: Path, organizations: int) -> tuple[Service, list[str]]:
    """A service that was not started yet, and a key of each organization."""
    known = folder / "keys.json"
    if not known.exists():
        folder.mkdir(parents=True, exist_ok=True)
        service = new_service(folder)
        keys = service.add_organizations(f"org-{number}" for number in range(organizations))
        known.write_text(json.dumps([service.key, *keys.values()]))
    keys_of_all = json.loads(known.read_text())
    return Service(folder / "instance", free_port(), keys_of_all[0]), keys_of_all


def start_seconds(service: Service) -> float:
    """Start the service twice, as a first start may create or learn something; how long the second start took."""
    service.start()
    service.stop()
    begun = time.monotonic()
    service.start()
    return time.monotonic() - begun


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--organizations", type=int, default=1_000)
    arguments.add_argument("--seconds", type=int, default=10)
    arguments.add_argument("--idle", type=int, default=60)
    options = arguments.parse_args()
    service, keys = open_service(options.folder, options.organizations)
    alone = new_service(options.folder / "alone")
    try:
        start_alone = start_seconds(alone)
    finally:
        alone.kill()
    try:
        started = start_seconds(service)
        print(f"start: {start_alone:.1f} s, of {len(keys)} organizations {started:.1f} s; {started / start_alone:.2f}")
        assert service.process is not None
        version = Version(service.port, service.key, service.process.pid)
        time.sleep(40)  # until the sweep has opened all files
        one = run(Case(), service.port, keys[:1], options.seconds, options.folder)
        run(Case(jobs=1, tenants=len(keys)), service.port, keys, options.seconds, options.folder)  # opens the files
        every = run(Case(jobs=1, tenants=len(keys)), service.port, keys, options.seconds, options.folder)
        print(
            f"one organization:      {one.per_second:8.0f} heartbeats/s, p99 {one.p99_ms:.0f} ms, {one.errors} errors"
        )
        print(
            f"{len(keys)} organizations: {every.per_second:8.0f} heartbeats/s, p99 {every.p99_ms:.0f} ms, {every.errors} errors"
        )
        print(
            f"ratio {every.per_second / one.per_second:.2f}; memory {resident_mb(processes(service)[1]):.0f} MB",
            flush=True,
        )
        time.sleep(90)  # until what the heartbeats brought is learned, indexed and counted
        cpu, written = version.cpu_seconds(), written_bytes(service)
        time.sleep(options.idle)
        cpu, written = version.cpu_seconds() - cpu, written_bytes(service) - written
        print(
            f"idle, a minute: {cpu * 60 / options.idle:.2f} s of processor time,"
            f" {written / 1e6 * 60 / options.idle:.2f} MB written"
        )
    finally:
        service.kill()


if __name__ == "__main__":
    main()
