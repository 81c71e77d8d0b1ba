"""Heartbeats of jobs whose schedule is known, for tests: start delays are drawn from a seeded generator."""

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

from cronsim import CronSim

MINUTE, HOUR, DAY = 60, 3600, 86400


def at(text: str, zone: str = "UTC") -> float:
    """Epoch seconds of a wall-clock time such as 2026-03-29 02:00."""
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def slots(line: str, zone: str, since: str, count: int) -> list[float]:
    """The first moments a cron line names after a wall-clock time of its zone."""
    moments: Iterator[datetime] = CronSim(line, datetime.fromisoformat(since).replace(tzinfo=ZoneInfo(zone)))
    return [moment.timestamp() for moment in islice(moments, count)]


def delayed(moments: list[float], seed: int = 1, typical: float = 3.0) -> list[float]:
    """Each moment and a lognormal start delay of a few seconds."""
    rng = random.Random(seed)
    return [moment + typical * rng.lognormvariate(0, 0.5) for moment in moments]


def cron(line: str, zone: str = "UTC", since: str = "2025-01-10 00:00", count: int = 60) -> list[float]:
    return delayed(slots(line, zone, since, count))


def keeping_a_gap(gap: float, count: int, since: str = "2025-01-10 00:00", seed: int = 1) -> list[float]:
    """A job that sleeps `gap` seconds after each run of 20 s or so: it drifts over the day."""
    rng = random.Random(seed)
    time, times = at(since), []
    for _ in range(count):
        time += gap + 20 * rng.lognormvariate(0, 0.2)
        times.append(time)
    return times


def every_days(step: int, hour: int, count: int, since: date = date(2025, 1, 10)) -> list[float]:
    first = datetime(since.year, since.month, since.day, hour, tzinfo=UTC)
    return delayed([(first + timedelta(days=step * n)).timestamp() for n in range(count)])
