"""Kill the service with SIGKILL while heartbeats of all kinds come in, start it again, and look at what it holds.

    python -m tests.crash.kill_under_load [--times 1000] [--seconds 0.5] [--seed 1] [--fresh-every 40]

After each kill the service is started again; some are killed once more while they start. Then every acknowledged event
must be there exactly once and as it was answered (also those that were sent again with their Idempotency-Key or run id
because the answer was cut off), what was never sent must not be there, no run may be in a state that no heartbeats lead
to, every job's counters must be what its rows say, and SQLite's own checks must pass. A new instance is taken every so
often, so that the first minutes of a file are tested as well.
"""

import argparse
import json
import random
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from tests.crash.consistency import STATUSES, problems
from tests.crash.senders import Ledger, Load
from tests.crash.served import Service, running_service

ORGS = ("crash", "second", "third")


def make_organizations(service: Service) -> dict[str, str]:
    """The organizations of the load, each with its key."""
    return {ORGS[0]: service.key, **service.add_organizations(ORGS[1:])}


def kill_and_look(
    service: Service, keys: Mapping[str, str], ledger: Ledger, name: str, seconds: float, chance: random.Random
) -> list[str]:
    """One round: load, kill after `seconds`, start again; returns what is wrong then."""
    with Load(service.port, keys, ledger, name, chance) as load:
        load.wait(seconds)
        service.kill()
    if chance.random() < 0.2:
        service.start(wait=False)
        assert service.process is not None
        time.sleep(chance.uniform(0.05, 0.6))  # somewhere in the start; nothing is asserted of where
        service.kill()
    service.start()
    return [*problems(service.instance, ledger, keys), *_shown_otherwise(service, keys, ledger, chance)]


def _shown_otherwise(service: Service, keys: Mapping[str, str], ledger: Ledger, chance: random.Random) -> list[str]:
    """What the service itself shows of a few acknowledged events, where it is not what was answered."""
    acknowledged = [sent for sent in ledger.acknowledged().values() if sent.answer.get("run_id")]
    found = []
    for sent in chance.sample(acknowledged, min(5, len(acknowledged))):
        status, body = service.get(f"/api/v1/runs/{sent.answer['run_id']}", keys[sent.mark.org])
        shown = json.loads(body)
        if status != 200 or shown["status"] not in STATUSES or shown["job"] != sent.mark.job:
            found.append(f"{sent.mark} was answered {sent.answer}, and its run is shown as {status} {shown}")
    return found


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--times", type=int, default=20)
    arguments.add_argument("--seconds", type=float, default=0.5, help="of load before a kill, in the mean")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--fresh-every", type=int, default=40, help="kills on one instance")
    options = arguments.parse_args()
    chance = random.Random(options.seed)
    begun, kills, sent, acknowledged = time.monotonic(), 0, 0, 0
    while kills < options.times:
        with tempfile.TemporaryDirectory() as folder, running_service(Path(folder)) as service:
            keys, ledger = make_organizations(service), Ledger()
            for _ in range(min(options.fresh_every, options.times - kills)):
                seconds = chance.uniform(0.05, 2 * options.seconds)
                wrong = kill_and_look(service, keys, ledger, f"k{kills}", seconds, chance)
                kills += 1
                if wrong:
                    print("\n".join(wrong[:20]))
                    raise SystemExit(f"{len(wrong)} problems after kill {kills} (seed {options.seed})")
            sent += len(ledger.sent)
            acknowledged += len(ledger.acknowledged())
            print(f"{kills} kills, {sent} events sent, {acknowledged} acknowledged, 0 problems", flush=True)
    print(f"done in {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
