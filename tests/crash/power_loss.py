"""Cut the power, simulated: drop what was not synced, and look whether everything acknowledged is still there.

    python -m tests.crash.power_loss [--lives 50] [--cuts 10] [--seconds 1] [--seed 1]

Needs a C compiler. The service and the `obs` commands run with a shim (faults.c) that notes every write, sync and name
change. After some load all processes are killed; the disk is then rebuilt from the notes (diskmodel.py) as it may be
after a power cut at `--cuts` random moments: with nothing of what was not synced, or with random sectors, sizes and
names of it. In each of these images every event acknowledged up to that moment must be there exactly once and as
answered, organizations and keys made by then must be there, and the files must be sound. The service is then started on
the last image, must show the same, and lives on to the next cut. Every life makes an organization and a key while the
others report, and sends that organization's first heartbeat at once.
"""

import argparse
import hashlib
import http.client
import json
import random
import re
import shutil
import sqlite3
import subprocess
import tempfile
import threading
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.consistency import problems
from tests.crash.diskmodel import Disk, lay_out, read_journal
from tests.crash.faults import Faults
from tests.crash.senders import Ledger, Load, Mark, Sent
from tests.crash.served import Service, free_port

KEEPS = (0, 0, 0.1, 0.5, 0.9, 0.99, 1)
"""Shares of what is not durable that are there after all. Nothing is the likeliest to show a sync that is missing."""


@dataclass
class Made:
    """Organizations and keys by the moment at which the command had printed that they are made."""

    orgs: dict[str, float] = field(default_factory=dict)
    keys: dict[str, tuple[str, float]] = field(default_factory=dict)

    def orgs_by(self, until: float) -> list[str]:
        return [org for org, at in self.orgs.items() if at <= until]

    def lost_keys(self, instance: Path, until: float) -> list[str]:
        with closing(sqlite3.connect(instance / "control.db")) as control:
            kept = {row[0] for row in control.execute("SELECT sha256 FROM api_keys")}
        return [
            f"the key {key} was printed and is lost"
            for key, (_, at) in self.keys.items()
            if at <= until and hashlib.sha256(key.encode()).digest() not in kept
        ]


class World:
    """A service on a disk that loses its power again and again."""

    def __init__(self, folder: Path, chance: random.Random, *, syncs_count: bool = True) -> None:
        """With `syncs_count` False the disk ignores all syncs: then the checks must find losses."""
        self.chance = chance
        self.ledger = Ledger()
        self.made = Made()
        self.cuts = 0
        self.dropped = 0
        self._folder = folder
        self._syncs_count = syncs_count
        self._lives = 0
        self._root = folder / "disk"
        self._root.mkdir()
        self.service = Service(self._root / "instance", free_port())
        self.service.log = folder / "service.log"

    def live(self, seconds: float, cuts: int) -> list[str]:
        """Start, report for `seconds`, lose the power; returns what is wrong at any of the moments looked at."""
        self._lives += 1
        journal = self._folder / "journal"
        journal.unlink(missing_ok=True)
        disk = Disk(self._root)
        begun = time.monotonic()
        self.service.environment = Faults(self._root, journal).environment
        self.service.start()
        known = {org: key for key, (org, _) in self.made.keys.items()}
        newcomer = threading.Thread(target=self._make_organization, args=(f"org-{self._lives}",))
        newcomer.start()
        if known:
            chosen = dict(self.chance.sample(sorted(known.items()), min(3, len(known))))
            with Load(self.service.port, chosen, self.ledger, f"l{self._lives}", self.chance) as load:
                load.wait(self.chance.uniform(0.3, 1.7) * seconds)
                if self.chance.random() < 0.5 or self._lives == 1:
                    newcomer.join()
                if self.chance.random() < 0.3:
                    self.service.stop()  # closing moves the logs into the files and deletes them
                self.service.kill()
        else:
            newcomer.join()
            self.service.kill()
        newcomer.join()
        end = time.monotonic()
        moments = sorted([*(self.chance.uniform(begun, end) for _ in range(cuts - 1)), end])
        return self._look(disk, journal, moments)

    def restarted(self) -> list[str]:
        """Start once more on what the last cut has left; returns what the service shows otherwise than it was told."""
        self.service.environment = self._without_journal()
        self.service.start()
        found = []
        for key, (org, _) in self.made.keys.items():
            status, body = self.service.get("/api/v1/jobs?limit=1", key)
            if status != 200:
                found.append(f"{org}: {status} {body!r}")
        status, _ = self.service.get("/sign-in/unknown")
        if status != 401:
            found.append(f"the sign-in page answers {status}")
        found += problems(self.service.instance, self.ledger, self.made.orgs)
        self.service.stop()
        return found

    def first_start(self, cuts: int) -> list[str]:
        """Let the service make its first organization, cut the power at moments of that, and start each again."""
        journal = self._folder / "journal"
        self.service.environment = Faults(self._root, journal).environment
        begun = time.monotonic()
        self.service.start()
        printed_at = time.monotonic()
        key = re.findall(r"obs_default_[0-9A-Za-z]{32}", self.service.logged())[0]
        self.service.kill()
        moments = sorted([*(self.chance.uniform(begun, printed_at) for _ in range(cuts - 2)), printed_at, printed_at])
        records = list(read_journal(journal))
        moments += [record.at_ns / 1e9 for record in self.chance.sample(records, cuts)]
        self.service.environment = self._without_journal()
        found = []
        for moment in sorted(moments):
            disk = Disk(self._empty())
            for record in records:
                if record.at_ns > moment * 1e9:
                    break
                disk.apply(record)
            self._lay_out(disk.image(self.chance.choice(KEEPS), self.chance))
            self.cuts += 1
            self.service.start()
            if moment >= printed_at and self.service.get("/api/v1/jobs", key)[0] != 200:
                found.append("the first key was printed and is lost")
            if self.service.get("/sign-in/unknown")[0] != 401:
                found.append("nobody can sign in")
            self.service.stop()
        return found

    def _without_journal(self) -> dict[str, str]:
        """Also with the shim: all starts see the same clocks."""
        return Faults(self._root).environment

    def _empty(self) -> Path:
        shutil.rmtree(self._root)
        self._root.mkdir()
        return self._root

    def _look(self, disk: Disk, journal: Path, moments: list[float]) -> list[str]:
        found: list[str] = []
        records = read_journal(journal)
        record = next(records, None)
        for moment in moments:
            while record is not None and record.at_ns <= moment * 1e9:
                disk.apply(record, syncs_count=self._syncs_count)
                record = next(records, None)
            # Of a new instance nothing is durable but what was synced: no cut shows more, so it is always made.
            new = self._lives == 1 and moment == moments[-1]
            image = disk.image(0 if new else self.chance.choice(KEEPS), self.chance)
            self.cuts += 1
            self.dropped += disk.unsynced()
            self._lay_out(image)
            instance = self.service.instance
            wrong = []
            if self.made.orgs_by(moment) or (instance / "control.db").exists():
                wrong = problems(instance, self.ledger, self.made.orgs_by(moment), moment)
                wrong = wrong or self.made.lost_keys(instance, moment)
            found += [f"life {self._lives}, {moments[-1] - moment:.3f} s before its end: {one}" for one in wrong]
        self._lay_out(image)
        return found

    def _lay_out(self, image: dict[str, bytes | None]) -> None:
        lay_out(image, self._empty())

    def _make_organization(self, org: str) -> None:
        """Make an organization and its key with the commands, and send its first heartbeat, unless the power is cut."""
        with suppress(OSError, http.client.HTTPException, subprocess.CalledProcessError, json.JSONDecodeError):
            self.service.command("org", "create", org)
            self.made.orgs[org] = time.monotonic()
            key = self.service.command("key", "create", org, "--label", "x", "--scope", "admin")
            self.made.keys[key] = org, time.monotonic()
            sent = Sent(
                Mark(org, "first", "ping", "key", org),
                "/api/v1/heartbeat/first/ping",
                None,
                {"X-API-Key": key, "Idempotency-Key": org},
            )
            self.ledger.add(sent)
            status = 401
            while status == 401:  # until the service has seen that there is a new key
                status, _, body = self.service.ask("POST", sent.path, key, None, sent.headers)
            sent.status, sent.answer, sent.answered_at = status, json.loads(body), time.monotonic()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--lives", type=int, default=20)
    arguments.add_argument("--cuts", type=int, default=10, help="moments at which the power is cut, in each life")
    arguments.add_argument("--seconds", type=float, default=1.0, help="of load in a life, in the mean")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--fresh-every", type=int, default=20, help="lives of one instance")
    arguments.add_argument("--without-syncs", action="store_true", help="ignore all syncs: must find losses")
    options = arguments.parse_args()
    chance = random.Random(options.seed)
    lives = cuts = acknowledged = dropped = 0
    while lives < options.lives:
        with tempfile.TemporaryDirectory() as folder:
            world = World(Path(folder), chance, syncs_count=not options.without_syncs)
            try:
                for _ in range(min(options.fresh_every, options.lives - lives)):
                    wrong = world.live(options.seconds, options.cuts) or world.restarted()
                    lives += 1
                    if wrong:
                        print("\n".join(wrong[:20]))
                        raise SystemExit(f"{len(wrong)} problems in life {lives} (seed {options.seed})")
            finally:
                if world.service.process is not None:
                    world.service.kill()
            cuts, dropped = cuts + world.cuts, dropped + world.dropped
            acknowledged += len(world.ledger.acknowledged())
            print(
                f"{lives} lives, {cuts} cuts, {acknowledged} events acknowledged,"
                f" {dropped / cuts:.0f} unsynced changes at a cut, 0 problems",
                flush=True,
            )


if __name__ == "__main__":
    main()
