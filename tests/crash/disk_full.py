"""Fill the disk under load: clear refusals, reading goes on, and all is well again when there is room.

    python -m tests.crash.disk_full [--times 20] [--seconds 2] [--seed 1] [--tmpfs]

Needs a C compiler, or with --tmpfs the right to mount: then the instance is on a small file system that is really full,
else the shim (faults.c) refuses every write that would make a file longer. While the disk is full every heartbeat must
be acknowledged or told 503 with Retry-After, and /readyz must say so; what is read must be answered; the log must not
be flooded. The service is stopped, killed or left as it is meanwhile. When there is room again it must take heartbeats
without a restart, and the files must hold what was acknowledged and nothing that was refused.
"""

import argparse
import random
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

from tests.crash.consistency import problems
from tests.crash.faults import Faults
from tests.crash.kill_under_load import make_organizations
from tests.crash.senders import Ledger, Load
from tests.crash.served import Service, new_service

READ = ("/healthz", "/metrics", "/api/v1/jobs", "/api/v1/jobs/pings/runs", "/api/v1/annotations")


class Room(Protocol):
    """A disk that can be filled."""

    @property
    def environment(self) -> Mapping[str, str]: ...

    def fill(self) -> None: ...

    def empty(self) -> None: ...


class Shim:
    """Files cannot grow while it is full."""

    def __init__(self, root: Path) -> None:
        self.faults = Faults(root)
        self.environment = self.faults.environment

    def fill(self) -> None:
        self.faults.set(disk_full=True)

    def empty(self) -> None:
        self.faults.set(disk_full=False)


class Tmpfs:
    """A file system of 48 MB, with a file that takes what room there is."""

    environment: Mapping[str, str] = {"OBS_DISK_RESERVE_BYTES": "1"}  # every heartbeat is tried

    def __init__(self, root: Path) -> None:
        self._ballast = root / "ballast"

    def fill(self) -> None:
        with self._ballast.open("ab", buffering=0) as ballast:
            try:
                while True:
                    ballast.write(bytes(4096))
            except OSError:
                return  # no room any more: that is what was wanted

    def empty(self) -> None:
        self._ballast.unlink()


@contextmanager
def tmpfs(root: Path) -> Iterator[None]:
    """A small file system at `root`. Raises CalledProcessError where mounting is not allowed."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(root)], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(root)], check=True)  # a killed process may not be quite gone


def fill_and_look(
    service: Service,
    room: Room,
    keys: Mapping[str, str],
    ledger: Ledger,
    name: str,
    seconds: float,
    chance: random.Random,
    while_full: str,
) -> list[str]:
    """Load, fill the disk under it, go on, make room, go on; returns what is wrong.

    `while_full` says what is done to the service meanwhile: ``nothing``, ``stop`` or ``kill`` (and start).
    """
    found = []
    logged = len(service.logged().splitlines())
    with Load(service.port, keys, ledger, f"{name}-before", chance) as load:
        load.wait(seconds / 4)
        room.fill()
        load.wait(seconds / 2)
    with Load(service.port, keys, ledger, f"{name}-full", chance) as load:
        load.wait(seconds / 4)
    refused = Counter(sent.answer["error"] for sent in ledger.sent.values() if sent.status == 503)
    if set(refused) != {"storage_full"}:
        found.append(f"refusals are {dict(refused)}")
    for path in READ:
        status, body = service.get(path)
        if status != 200:
            found.append(f"{path} is answered {status} {body!r} while the disk is full")
    end = time.monotonic() + 10
    while (ready := service.get("/readyz"))[0] == 200 and time.monotonic() < end:
        pass  # it tries a write every five seconds
    if ready[0] != 503 or b"No space left on device" not in ready[1]:
        found.append(f"/readyz says {ready} while the disk is full")
    if while_full == "stop":
        code, took = service.stop()
        if code != 0 or took > 5:
            found.append(f"stopping took {took:.1f} s and ended with {code}")
    if while_full == "kill":
        service.kill()
    if while_full != "nothing" and _starts(service, found):
        with Load(service.port, keys, ledger, f"{name}-restarted", chance) as load:
            load.wait(seconds / 4)
    room.empty()
    if service.process is None or service.process.poll() is not None:
        service.start()
    service.wait_until_ready()
    sent = len(ledger.acknowledged())
    with Load(service.port, keys, ledger, f"{name}-after", chance) as load:
        load.wait(seconds / 4)
    if len(ledger.acknowledged()) == sent:
        found.append("nothing is taken though there is room again")
    lines = service.logged().splitlines()[logged:]
    if len(lines) > 30 or any("Traceback" in line for line in lines):
        found.append(f"the log has {len(lines)} lines: {lines[:40]}")
    return found + problems(service.instance, ledger, keys)


def _starts(service: Service, found: list[str]) -> bool:
    """Start while the disk is full; where not even an empty file can be made, that must be said."""
    try:
        service.start(ready="/healthz")
    except AssertionError:
        if not service.logged().endswith("Error: The disk is full; nothing was recorded.\n"):
            found.append(f"a start on a full disk says {service.logged()[-500:]!r}")
        return False
    return True


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--times", type=int, default=20)
    arguments.add_argument("--seconds", type=float, default=2)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--tmpfs", action="store_true")
    options = arguments.parse_args()
    chance = random.Random(options.seed)
    for number in range(options.times):
        with tempfile.TemporaryDirectory() as folder, ExitStack() as mounted:
            root = Path(folder) / "disk"
            root.mkdir()
            if options.tmpfs:
                mounted.enter_context(tmpfs(root))
            room: Room = Tmpfs(root) if options.tmpfs else Shim(root)
            service = new_service(root, room.environment)
            service.log = Path(folder) / "service.log"
            try:
                service.start()
                keys, ledger = make_organizations(service), Ledger()
                meanwhile = ("nothing", "stop", "kill")[number % 3]
                wrong = fill_and_look(service, room, keys, ledger, "full", options.seconds, chance, meanwhile)
            finally:
                service.kill()
            told = Counter(sent.status for sent in ledger.sent.values())
            print(f"{number + 1} ({meanwhile}): answers {dict(told)}, {len(wrong)} problems", flush=True)
            if wrong:
                print("\n".join(wrong[:20]))
                raise SystemExit(1)


if __name__ == "__main__":
    main()
