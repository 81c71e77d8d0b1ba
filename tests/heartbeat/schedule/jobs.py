"""Heartbeats of jobs whose schedule is known, for tests. Start delays are drawn from a seeded generator.

All times and durations are milliseconds.
"""

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

from cronsim import CronSim

from obs.times import SECOND_MS

TYPICAL_DELAY_MS = 3 * SECOND_MS


def at(text: str, zone: str = "UTC") -> int:
    """The epoch time of a wall-clock time such as 2026-03-29 02:00."""
    return _ms(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)))


def slots(expression: str, zone: str, since: str, count: int) -> list[int]:
    """The first `count` times of a cron expression after a wall-clock time of its zone."""
    moments: Iterator[datetime] = CronSim(expression, datetime.fromisoformat(since).replace(tzinfo=ZoneInfo(zone)))
    return [_ms(moment) for moment in islice(moments, count)]


def delayed(times: list[int], seed: int = 1, typical_ms: float = TYPICAL_DELAY_MS) -> list[int]:
    """Each time plus a lognormal start delay with this median."""
    rng = random.Random(seed)
    return [time + round(typical_ms * rng.lognormvariate(0, 0.5)) for time in times]


def cron(expression: str, zone: str = "UTC", since: str = "2025-01-10 00:00", count: int = 60) -> list[int]:
    """Heartbeats of a job that runs by a cron expression."""
    return delayed(slots(expression, zone, since, count))


def keeping_a_gap(gap_ms: int, count: int, since: str = "2025-01-10 00:00", seed: int = 1) -> list[int]:
    """Heartbeats of a job that sleeps for `gap_ms` after each run of about 20 s, so that it drifts over the day."""
    rng = random.Random(seed)
    time, times = at(since), []
    for _ in range(count):
        time += gap_ms + round(20 * SECOND_MS * rng.lognormvariate(0, 0.2))
        times.append(time)
    return times


def every_days(step: int, hour: int, count: int, since: date = date(2025, 1, 10)) -> list[int]:
    """Heartbeats of a job that runs every `step` days at a full hour, UTC."""
    first = datetime(since.year, since.month, since.day, hour, tzinfo=UTC)
    return delayed([_ms(first + timedelta(days=step * n)) for n in range(count)])


def _ms(moment: datetime) -> int:
    return round(moment.timestamp()) * SECOND_MS
