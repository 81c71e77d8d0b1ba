"""Lives of jobs that several hosts report, through the service: heartbeats over HTTP, the sweep, and incidents.

    .venv/bin/python -m tests.heartbeat.host_stories [NAME ...] [--seeds N] [--first N]

prints the false alarms of each story. For those in which a host dies, it also prints the delay until its incident, and
that of a job with this host alone.
"""

import argparse
import itertools
import random
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from obs import create_app
from obs.services import services
from obs.tenancy import service
from obs.times import DAY_MS, MINUTE_MS, SECOND_MS, parse_iso
from tests.conftest import Clock, KeyClient
from tests.heartbeat.schedule.stories import runs

MONDAY = parse_iso("2026-03-02T00:00:00Z")
Beats = list[tuple[int, str]]  # times, each with the host that reports; an empty one is not sent


@dataclass(frozen=True)
class Story:
    """The heartbeats of a job, until when it is watched, and the host that dies at `died_at`, if one does."""

    beats: Beats
    end: int
    dead: str = ""
    died_at: int = 0


def cron(expression: str, host: str, rng: random.Random, days: float, since: int = MONDAY) -> Beats:
    return [(time, host) for time in runs(expression, rng, days, since)]


KINDS = {
    # Expressions of three hosts, and how many days until one of them dies.
    "daily, same time": ("0 2 * * *", "0 2 * * *", "0 2 * * *", 25),
    "daily, other times": ("0 2 * * *", "0 3 * * *", "30 14 * * *", 25),
    "weekdays": ("0 6 * * 1-5", "15 6 * * 1-5", "0 6 * * 1-5", 25),
    "hourly": ("0 * * * *", "0 * * * *", "20 * * * *", 9),
    "every 10 minutes": ("*/10 * * * *", "*/10 * * * *", "*/10 * * * *", 2),
    "every minute": ("* * * * *", "* * * * *", "* * * * *", 0.2),
    "weekly": ("0 4 * * 0", "0 4 * * 0", "0 5 * * 0", 80),
    "hourly and daily": ("0 * * * *", "0 3 * * *", "30 * * * *", 14),
}


def dies(kind: str, hosts: int) -> Callable[[random.Random], Story]:
    def story(rng: random.Random) -> Story:
        *expressions, days = KINDS[kind]
        names = [f"nas{number:02d}" for number in range(1, hosts + 1)]
        died_at = MONDAY + round(days * DAY_MS)
        beats = [cron(e, name, rng, days * 1.3) for name, e in zip(names, expressions, strict=False)]
        kept = [(time, host) for time, host in itertools.chain(*beats) if host != names[1] or time < died_at]
        return Story(sorted(kept), max(kept)[0], names[1], died_at)

    return story


def containers(expression: str, days: float) -> Callable[[random.Random], Story]:
    """Each run is in a container of its own, with a random name."""

    def story(rng: random.Random) -> Story:
        beats = [(time, f"{rng.getrandbits(48):012x}") for time, _ in cron(expression, "", rng, days)]
        return Story(beats, beats[-1][0])

    return story


def replicas(expression: str, count: int, days: int, rollout_days: float) -> Callable[[random.Random], Story]:
    """So many containers report at the same times, and are replaced by new ones again and again, all within minutes."""

    def story(rng: random.Random) -> Story:
        beats, end = Beats(), MONDAY + days * DAY_MS
        for _ in range(count):
            since = MONDAY
            while since < end:
                until = min(end, since + round(rollout_days * DAY_MS) + rng.randrange(5 * MINUTE_MS))
                mine = cron(expression, f"{rng.getrandbits(48):012x}", rng, (until - since) / DAY_MS, since)
                beats += [(time, host) for time, host in mine if time < end]
                since = until
        return Story(sorted(beats), end)

    return story


def moves(expression: str, days: int) -> Callable[[random.Random], Story]:
    """Two hosts have the same job; that of one is moved to a third one for good."""

    def story(rng: random.Random) -> Story:
        moved_at = MONDAY + days * DAY_MS + rng.randrange(DAY_MS)
        old = [one for one in cron(expression, "nas01", rng, days + 2) if one[0] < moved_at]
        other, new = cron(expression, "nas02", rng, 2 * days), cron(expression, "nas03", rng, days - 1, moved_at)
        end = moved_at + (days - 2) * DAY_MS
        return Story(sorted(one for one in (*old, *other, *new) if one[0] < end), end)

    return story


def moves_alone(expression: str, days: int) -> Callable[[random.Random], Story]:
    """The only host of a job is replaced by another one."""

    def story(rng: random.Random) -> Story:
        first, second = (
            cron(expression, "nas01", rng, days),
            cron(expression, "nas02", rng, days, MONDAY + days * DAY_MS),
        )
        return Story([*first, *second], second[-1][0])

    return story


def ends(expression: str, days: int) -> Callable[[random.Random], Story]:
    """Two hosts have the same job; it is taken from one of them for good."""

    def story(rng: random.Random) -> Story:
        first, second = cron(expression, "nas01", rng, days), cron(expression, "nas02", rng, 2 * days)
        return Story(sorted([*first, *second]), second[-1][0])

    return story


def failover(expression: str, days: int, share: float, hosts: int = 2) -> Callable[[random.Random], Story]:
    """Of several hosts, one runs the job each time, the first one with this probability."""

    def story(rng: random.Random) -> Story:
        others = [f"node{number}" for number in range(2, hosts + 1)]
        beats = cron(expression, "", rng, days)
        chosen = [(time, "node1" if rng.random() < share else rng.choice(others)) for time, _ in beats]
        return Story(chosen, chosen[-1][0])

    return story


def takes_over(expression: str, days: int) -> Callable[[random.Random], Story]:
    """A pair of which one host runs the job for days or weeks, until the other one takes over."""

    def story(rng: random.Random) -> Story:
        beats, active, until = Beats(), 0, 0
        for time, _ in cron(expression, "", rng, days):
            if time >= until:
                active, until = 1 - active, time + round(rng.uniform(2, 20) * DAY_MS)
            beats.append((time, f"node{active}"))
        return Story(beats, beats[-1][0])

    return story


def laptop_too(expression: str, days: int) -> Callable[[random.Random], Story]:
    """A job of a server that somebody sometimes runs from a laptop by hand."""

    def story(rng: random.Random) -> Story:
        by_hand = [(MONDAY + round(rng.uniform(1, days) * DAY_MS), "laptop") for _ in range(days // 4)]
        beats = sorted([*cron(expression, "server", rng, days), *by_hand])
        return Story(beats, beats[-1][0])

    return story


STORIES: dict[str, tuple[Callable[[random.Random], Story], float]] = {
    **{f"{count} hosts, {kind}": (dies(kind, count), 0) for kind in KINDS for count in (2, 3)},
    "containers, hourly": (containers("0 * * * *", 60), 0),
    "containers, daily": (containers("0 2 * * *", 60), 0),
    "containers, every 10 minutes": (containers("*/10 * * * *", 4), 0),
    "one container, replaced daily": (replicas("0 * * * *", 1, 30, 1), 0),
    "3 replicas, replaced daily": (replicas("*/15 * * * *", 3, 8, 1), 0),
    "3 replicas, replaced weekly": (replicas("0 * * * *", 3, 28, 7), 0),
    "moved, daily": (moves("0 2 * * *", 30), 1),
    "moved, hourly": (moves("0 * * * *", 12), 1),
    "moved alone, daily": (moves_alone("0 2 * * *", 30), 0),
    "taken away, daily": (ends("0 2 * * *", 30), 2),
    "failover 50 %, daily": (failover("0 2 * * *", 120, 0.5), 1),
    "failover 50 %, hourly": (failover("0 * * * *", 20, 0.5), 1),
    "failover 90 %, daily": (failover("0 2 * * *", 120, 0.9), 1),
    "5 nodes, daily": (failover("0 2 * * *", 120, 0.2, 5), 1),
    "5 nodes, every 10 minutes": (failover("*/10 * * * *", 5, 0.2, 5), 1),
    "pair that takes over, daily": (takes_over("0 2 * * *", 120), 1),
    "pair that takes over, hourly": (takes_over("0 * * * *", 30), 1),
    "laptop too, daily": (laptop_too("0 2 * * *", 60), 1),
}
"""Each story, with how many false alarms are accepted."""


class Watched:
    """The incidents of a job whose heartbeats are sent to a service of its own clock."""

    def __init__(self, app: Any, client: Any, clock: Clock) -> None:
        self.app, self.client, self.clock = app, client, clock

    def sweep(self) -> None:
        services(self.app).background.tasks["sweep"].run()

    def send(self, beats: Sequence[tuple[int, str]], job: str = "backup") -> None:
        """Send heartbeats at their times, and sweep before and after each."""
        for time, host in beats:
            self.clock.now_ms = time
            self.sweep()
            headers = {"X-Platform-Host": host} if host else {}
            assert self.client.post(f"/api/v1/heartbeat/{job}/ping", headers=headers).status_code == 200
            self.sweep()

    def until(self, time: int) -> None:
        self.clock.now_ms = max(time, self.clock.now_ms)
        self.sweep()

    def job(self, name: str = "backup") -> dict[str, Any]:
        return dict(self.client.get(f"/api/v1/jobs/{name}").get_json())

    def incidents(self, job: str = "backup") -> list[dict[str, Any]]:
        """The oldest first."""
        return list(self.client.get(f"/api/v1/incidents?job={job}&limit=500").get_json()["incidents"])[::-1]


def live(watched: Watched, story: Story) -> tuple[int, list[dict[str, Any]]]:
    """The number of false alarms in a story, and the incidents that name the host that has died, since it has."""
    watched.send(story.beats)
    watched.until(story.end)
    found = [one for one in watched.incidents() if one["kind"] == "overdue"]
    right = [one for one in found if story.dead and parse_iso(one["started_at"]) > story.died_at]
    if len({host for _, host in story.beats}) > 1:
        right = [one for one in right if one["subject"] == f"backup on {story.dead}"]
    return len(found) - len(right), right


def delay(incidents: Sequence[dict[str, Any]], story: Story) -> float:
    """Seconds from the death of a host to its incident; infinite without one."""
    return min(((parse_iso(one["started_at"]) - story.died_at) / SECOND_MS for one in incidents), default=float("inf"))


def _worlds(folder: Path) -> Iterator[Watched]:
    for number in itertools.count():
        (folder / str(number)).mkdir()
        clock = Clock(MONDAY - DAY_MS)
        settings = {"TESTING": True, "INSTANCE": folder / str(number), "CLOCK": clock, "QUERY_WORKERS": 0}
        app = create_app({**settings, "MONOTONIC": lambda clock=clock: clock() / 1000})
        app.test_client_class = KeyClient
        tenancy, client = services(app).tenancy, KeyClient(app)
        org = service.create_organization(tenancy, "acme")
        client.key = service.create_key(tenancy, org, "test", ["admin"]).key
        tenancy.keyring.reload()
        yield Watched(app, client, clock)
        services(app).background.stop()
        services(app).alerts.courier.close()
        tenancy.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        worlds = _worlds(Path(folder))
        for name in options.names or STORIES:
            false_alarms, delays, alone = [], [], []
            for seed in range(options.first, options.first + options.seeds):
                story = STORIES[name][0](random.Random(f"{name} {seed}"))
                count, right = live(next(worlds), story)
                false_alarms.append(count)
                if story.dead:
                    delays.append(delay(right, story))
                    single = [one for one in story.beats if one[1] == story.dead]
                    _, found = live(next(worlds), Story(single, story.end, story.dead, story.died_at))
                    alone.append(delay(found, story))
            said = (
                f"  delay {statistics.median(delays):8.0f} s, alone {statistics.median(alone):8.0f} s" if delays else ""
            )
            mean = statistics.mean(false_alarms)
            print(f"{name:32} limit {STORIES[name][1]} mean {mean:5.2f} max {max(false_alarms)}{said}", flush=True)


if __name__ == "__main__":
    main()
