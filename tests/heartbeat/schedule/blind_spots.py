"""How late the end of a job that runs round the clock is noticed, whenever it comes.

    .venv/bin/python -m tests.heartbeat.schedule.blind_spots [--every MINUTES] [--days DAYS]

Each job has run for two weeks without a break. It stops after each heartbeat of the week that follows, and the longest
wait from the next slot to the time at which it is overdue is printed, for each interval.
"""

import argparse
import random
from collections.abc import Iterator

from obs.heartbeat.schedule import Fit, Memory, learn
from obs.times import DAY_MS, MINUTE_MS, SECOND_MS
from tests.heartbeat.schedule.jobs import at

INTERVALS = (1, 2, 5, 10, 15, 30)
WEEKS_BEFORE = 2


def heartbeats(minutes: int, days: float, since: str = "2025-06-02 00:00", seed: int = 1) -> list[int]:
    """Heartbeats of a job that runs every so many minutes, each with a short start delay."""
    rng = random.Random(seed)
    count = int(days * DAY_MS / MINUTE_MS / minutes)
    return [at(since) + n * minutes * MINUTE_MS + round(3000 * rng.lognormvariate(0, 0.5)) for n in range(count)]


def waits(minutes: int, days: float) -> Iterator[tuple[int, int]]:
    """After each heartbeat of `days` after two weeks: its time, and the wait from the next slot until it is overdue."""
    memory, fit = Memory(), None
    for time in heartbeats(minutes, 7 * WEEKS_BEFORE + days):
        memory = memory.add([time])
        fit = learn(memory.times, previous=fit)
        if time >= at("2025-06-02 00:00") + 7 * WEEKS_BEFORE * DAY_MS:
            yield time, wait(fit, time, minutes)


def wait(fit: Fit, time: int, minutes: int) -> int:
    """Milliseconds from the slot after a heartbeat to the time at which the job is overdue."""
    assert fit.overdue_at is not None
    step = minutes * MINUTE_MS
    return fit.overdue_at - (time // step + 1) * step


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, nargs="*", default=INTERVALS)
    parser.add_argument("--days", type=float, default=7)
    options = parser.parse_args()
    for every in options.every:
        found = sorted(ms for _, ms in waits(every, options.days))
        middle, longest = found[len(found) // 2] / SECOND_MS, found[-1] / SECOND_MS
        print(f"every {every:2} min: {len(found)} ends, median {middle:.0f} s, longest {longest:.0f} s", flush=True)
