"""Compare the heartbeats per second of two versions of the service.

    python -m tests.benchmarks.paired OLD NEW [--pairs 5] [--seconds 3] [--connections 16 64]

OLD and NEW are the `obs` commands of two virtual environments. Both services run on new instances, and wrk (Debian:
apt-get install wrk) sends pings of 100 jobs to one of them at a time. Each pair of runs gives one ratio, NEW to OLD;
the order within a pair alternates. Other load on the machine slows both runs of a pair, so that the median of the
ratios is usable on a busy machine. The processor time of a heartbeat, of all processes of the service together, depends
least on other load.
"""

import argparse
import contextlib
import os
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.load import Case, run
from tests.crash.served import START_SECONDS, free_port

WARM_UP_SECONDS = 3


class Speed(NamedTuple):
    """Heartbeats per second, and the processor time of one in microseconds."""

    per_second: float
    cpu_us: float


class Version(NamedTuple):
    """A running version of the service, and a key that may send heartbeats."""

    port: int
    key: str
    process: int

    def measure(self, connections: int, seconds: float, folder: Path) -> Speed:
        before = self.cpu_seconds()
        measured = run(Case(connections=connections), self.port, [self.key], seconds, folder)
        assert measured.errors == 0, measured
        used = self.cpu_seconds() - before
        return Speed(measured.per_second, used / (measured.per_second * seconds) * 1e6)

    def cpu_seconds(self) -> float:
        """Processor time of all processes of the service so far; wrk waits for the last response, so none is lost."""
        ticks = 0
        waiting = [self.process]
        while waiting:
            process = Path(f"/proc/{waiting.pop()}")
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])  # utime and stime, see proc_pid_stat(5)
            for task in (process / "task").iterdir():
                waiting.extend(map(int, (task / "children").read_text().split()))
        return ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def running(command: str, folder: Path) -> Iterator[Version]:
    """The version of the service that `command` starts, on a new instance in `folder`."""
    port, log = free_port(), folder / "log"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OBS_")}
    environment["OBS_MAX_HEARTBEATS_PER_MINUTE"] = str(1 << 40)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [Path(command).absolute(), "serve", "--instance", str(folder / "instance"), "--port", str(port)],
            stdout=output,
            stderr=output,
            cwd=folder,  # a checkout here would be imported in place of the installed version
            env=environment,
        )
    try:
        end = time.monotonic() + START_SECONDS
        while (key := re.search(r"obs_default_\w+", log.read_text())) is None:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
        version = Version(port, key[0], process.pid)
        while True:
            with contextlib.suppress(subprocess.CalledProcessError, AssertionError):
                version.measure(16, WARM_UP_SECONDS, folder)
                break
            assert time.monotonic() < end, log.read_text()
        yield version
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("old")
    arguments.add_argument("new")
    arguments.add_argument("--pairs", type=int, default=5)
    arguments.add_argument("--seconds", type=int, default=3)
    arguments.add_argument("--connections", type=int, nargs="+", default=[16, 64])
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        folders = Path(name) / "old", Path(name) / "new"
        for folder in folders:
            folder.mkdir()
        with running(options.old, folders[0]) as old, running(options.new, folders[1]) as new:
            for connections in options.connections:
                speeds, costs = [], []
                for number in range(options.pairs):
                    order = (old, new) if number % 2 == 0 else (new, old)
                    measured = {version: version.measure(connections, options.seconds, folders[0]) for version in order}
                    speeds.append(measured[new].per_second / measured[old].per_second)
                    costs.append(measured[new].cpu_us / measured[old].cpu_us)
                    print(
                        f"{connections} connections: {measured[old].per_second:.0f} -> {measured[new].per_second:.0f}"
                        f" per second, ratio {speeds[-1]:.3f}; {measured[old].cpu_us:.0f} -> {measured[new].cpu_us:.0f}"
                        f" us each, ratio {costs[-1]:.3f}",
                        flush=True,
                    )
                print(
                    f"{connections} connections: median ratio of heartbeats per second {statistics.median(speeds):.3f},"
                    f" of processor time {statistics.median(costs):.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
