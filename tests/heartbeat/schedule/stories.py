"""Whole lives of jobs, with a learner that is asked after each heartbeat, as the service asks it.

    .venv/bin/python -m tests.heartbeat.schedule.stories [NAME ...] [--seeds N] [--first N]

prints the mean number of false alarms of each story, and the share of the lives with more than are accepted.
"""

import argparse
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim

from obs.heartbeat.schedule import Fit, Memory, learn, too_often
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from tests.heartbeat.schedule.jobs import at

Times = list[int]
WHEN = "2025-03-03 00:00"  # a Monday


@dataclass(frozen=True)
class Life:
    """The heartbeats of a job, and the time from which on alarms are counted."""

    times: Times
    since: int


@dataclass
class Result:
    """What a learner said during a life: false alarms, heartbeats counted as too often, and CPU seconds."""

    false_alarms: int = 0
    too_often: int = 0
    seconds: tuple[float, ...] = ()
    fit: Fit | None = None


def live(life: Life, *, remember: bool = True) -> Result:
    """Ask the learner after each heartbeat of a life. An alarm is false if another heartbeat comes."""
    result, memory, seconds = Result(), Memory(), []
    for moment in life.times:
        fit = result.fit
        if moment >= life.since and fit is not None and fit.overdue_at is not None and fit.overdue_at < moment:
            result.false_alarms += 1
        memory = memory.add([moment]) if remember else Memory((*memory.times[-255:], moment))
        started = time.process_time()
        result.fit = learn(memory.times, previous=fit)
        seconds.append(time.process_time() - started)
        if moment >= life.since and fit is not None and too_often(memory.times, fit):
            result.too_often += 1
    result.seconds = tuple(seconds)
    return result


def runs(expression: str, rng: random.Random, days: float, since: int | str = WHEN, zone: str = "UTC") -> Times:
    """Heartbeats of a cron job over so many days, with lognormal start delays."""
    start = at(since) if isinstance(since, str) else since
    typical = rng.uniform(1, 20) * SECOND_MS
    moments = CronSim(expression, datetime.fromtimestamp(start / SECOND_MS, ZoneInfo(zone)))
    due = takewhile(lambda slot: slot < start + days * DAY_MS, (round(m.timestamp()) * SECOND_MS for m in moments))
    return [slot + round(typical * rng.lognormvariate(0, 0.5)) for slot in due]


def daily(rng: random.Random) -> str:
    return f"{rng.randrange(60)} {rng.randrange(24)} * * *"


def manual(rng: random.Random, count: int, start: int, hours: float) -> Times:
    """Runs by hand during so many hours."""
    return [start + rng.randrange(round(hours * HOUR_MS)) for _ in range(count)]


def debugging(expression: Callable[[random.Random], str], count: int, before: int, after: int) -> Callable[..., Life]:
    def story(rng: random.Random) -> Life:
        times = runs(expression(rng), rng, before + after)
        start = at(WHEN) + rng.randrange(before - 2, before) * DAY_MS + 9 * HOUR_MS
        by_hand = manual(rng, count, start, rng.uniform(3, 9))
        return Life(sorted([*times, *by_hand]), min(by_hand))

    return story


def trial_and_error(rng: random.Random) -> Life:
    by_hand = manual(rng, 12, at(WHEN) + 13 * HOUR_MS, rng.uniform(0.5, 3))
    return Life(sorted([*by_hand, *runs(daily(rng), rng, 40, at(WHEN) + DAY_MS)]), 0)


def change(
    before: Callable[..., str], after: Callable[..., str], days: int, days_after: int, moves: float = 0.5
) -> Callable[..., Life]:
    """Another schedule after so many `days`; in the share `moves` of the lives, also at another time of the day."""

    def story(rng: random.Random) -> Life:
        first = before(rng)
        at_hour = first.split()[:2] if first.split()[1] != "*" else [str(rng.randrange(60)), str(rng.randrange(24))]
        if rng.random() < moves:
            at_hour = [str(rng.randrange(60)), str(rng.randrange(24))]
        start = at(WHEN) + (days + rng.randrange(7)) * DAY_MS
        old = [moment for moment in runs(first, rng, days + 8) if moment < start]
        return Life(old + runs(after(rng, at_hour), rng, days_after, start), start)

    return story


def moved(rng: random.Random) -> Life:
    """A daily job that starts up to an hour and a half later from one day on."""
    times, later = runs(daily(rng), rng, 100), rng.randrange(15, 90) * MINUTE_MS
    return Life(times[:60] + [time + later for time in times[60:]], times[60])


def laptop(rng: random.Random) -> Life:
    """An hourly job of a computer that is on for 8 to 14 hours of most days."""
    minute = rng.randrange(60)
    times = []
    for day in range(60):
        if rng.random() < 0.15:
            continue
        opens, hours = rng.uniform(6, 11), rng.uniform(8, 14)
        for hour in range(24):
            if opens <= hour + minute / 60 < opens + hours:
                slot = at(WHEN) + day * DAY_MS + hour * HOUR_MS + minute * MINUTE_MS
                times.append(slot + round(4 * SECOND_MS * rng.lognormvariate(0, 0.6)))
    return Life(times, times[0])


def office(rng: random.Random) -> Life:
    """An hourly job of a computer that is on from about eight to half past five on working days."""
    times = []
    for day in (day for day in range(8 * 7) if day % 7 < 5):
        opens, closes = rng.gauss(8, 0.3), rng.gauss(17.5, 0.6)
        slots = (at(WHEN) + day * DAY_MS + hour * HOUR_MS for hour in range(24) if opens <= hour <= closes)
        times += [slot + round(4 * SECOND_MS * rng.lognormvariate(0, 0.6)) for slot in slots]
    return Life(times, times[0])


def retries(rng: random.Random) -> Life:
    """An hourly job that is started again up to three times after a failed run."""
    times = []
    for slot in runs("0 * * * *", rng, 30):
        times.append(slot)
        if rng.random() < 0.3:
            times += [slot + n * 2 * MINUTE_MS for n in range(1, rng.randrange(2, 5))]
    return Life(sorted(times), 0)


def weekly(rng: random.Random) -> str:
    return f"{rng.randrange(60)} {rng.randrange(24)} * * {rng.randrange(7)}"


def hourly(rng: random.Random) -> str:
    return f"{rng.randrange(60)} * * * *"


def on(days: str) -> Callable[..., str]:
    return lambda rng, at_hour: f"{at_hour[0]} {at_hour[1]} {days.format(rng.randrange(1, 7), rng.randrange(1, 28))}"


def long_life(expression: Callable[[random.Random], str], years: int, since: float) -> Callable[..., Life]:
    def story(rng: random.Random) -> Life:
        times = runs(expression(rng), rng, 366 * years)
        return Life(times, at(WHEN) + round(since * DAY_MS))

    return story


STORIES: dict[str, tuple[Callable[[random.Random], Life], float]] = {
    "daily-debug-25": (debugging(daily, 25, 40, 30), 0.2),
    "daily-debug-200": (debugging(daily, 200, 40, 30), 0.2),
    "hourly-debug-25": (debugging(hourly, 25, 14, 21), 0.2),
    "hourly-debug-200": (debugging(hourly, 200, 14, 21), 0.2),
    "weekly-debug-25": (debugging(weekly, 25, 200, 60), 0.2),
    "weekly-debug-200": (debugging(weekly, 200, 200, 60), 0.2),
    "trial-and-error": (trial_and_error, 0.5),
    "daily-to-weekly": (change(daily, on("* * {0}"), 60, 70), 2),
    "hourly-to-daily": (change(hourly, on("* * *"), 20, 40), 2),
    "daily-to-weekdays": (change(daily, on("* * 1-5"), 60, 50, moves=0), 2),
    "daily-to-weekdays-moved": (change(daily, on("* * 1-5"), 60, 50, moves=1), 3),
    "weekly-to-daily": (change(weekly, on("* * *"), 200, 40), 2),
    "daily-moved": (moved, 2),
    "daily-to-monthly": (change(daily, on("{1} * *"), 90, 400), 2),
    "laptop": (laptop, 5),
    "office": (office, 9),
    "retries": (retries, 14),
    "monthly": (long_life(lambda rng: f"0 {rng.randrange(24)} {rng.randrange(1, 32)} * *", 6, 0), 0.5),
    "quarterly": (long_life(lambda rng: f"0 3 {rng.randrange(1, 29)} 1,4,7,10 *", 6, 0), 0.5),
    "first-monday": (long_life(lambda rng: f"0 {rng.randrange(24)} * * {rng.randrange(7)}#1", 6, 0), 0.5),
    "last-working-day": (long_life(lambda rng: f"0 {rng.randrange(24)} LW * *", 6, 0), 0.5),
    "yearly": (long_life(lambda rng: f"0 3 {rng.randrange(1, 29)} {rng.randrange(1, 13)} *", 8, 0), 0.5),
    "day-range": (
        long_life(lambda rng: f"{rng.randrange(60)} 5 {rng.randrange(1, 6)}-{rng.randrange(18, 31)} * *", 2, 62),
        1,
    ),
}


def lives(name: str, seeds: int, first: int = 0) -> Iterator[Result]:
    story, _ = STORIES[name]
    for seed in range(first, first + seeds):
        yield live(story(random.Random(f"{name} {seed}")))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    for name in options.names or STORIES:
        results = list(lives(name, options.seeds, options.first))
        counts = [result.false_alarms for result in results]
        cpu = sorted(1000 * one for result in results for one in result.seconds)
        often = sum(result.too_often > 0 for result in results)
        print(
            f"{name:24} limit {STORIES[name][1]:4} mean {sum(counts) / len(counts):5.2f} max {max(counts):3}"
            f"  too often {often}/{len(counts)}  p50 {cpu[len(cpu) // 2]:.1f} p99 {cpu[int(len(cpu) * 0.99)]:.1f} ms",
            flush=True,
        )
