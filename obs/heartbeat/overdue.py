"""From what has been to what is expected: when the next heartbeat is due, and when an open run is given up. Pure.

Times and durations are milliseconds; `obs.heartbeat.schedule` reckons in seconds.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from obs.heartbeat import schedule
from obs.heartbeat.schedule import Description, Fit, Pin
from obs.times import DAY_MS, HOUR_MS

LONGEST_RUN_MS = 7 * DAY_MS


@dataclass(frozen=True, slots=True)
class Expectation:
    """What is expected of a job; None where nothing is known yet.

    `overdue_from` is the moment after which silence means overdue, `lateness_ms` how long after the expected moment a
    heartbeat may still come. An open run is overrunning `overrun_after_ms` after its start, and lost `lost_after_ms`
    after it. `too_often` is None where there was nothing to judge by. `fit` is what was learned, whether or not a
    person has said something else, and `learned` says it in words.
    """

    expected_interval_ms: int | None
    next_expected: int | None
    overdue_from: int | None
    lateness_ms: int | None
    overrun_after_ms: int | None
    lost_after_ms: int
    too_often: bool | None
    fit: Fit
    learned: Description


def expect(
    heartbeats: Sequence[int],
    durations_ms: Sequence[int],
    zones: Sequence[str],
    pin: Pin | None = None,
    previous: Fit | None = None,
) -> Expectation:
    """What to expect after `heartbeats` (ascending) of runs that took `durations_ms` (in the order of the runs).

    `pin` is what a person has said, which wins; `previous` is what was learned before the latest heartbeat.
    """
    seconds = [time / 1000 for time in heartbeats]
    if previous is not None and seconds and previous.last == seconds[-1]:
        fit = previous  # a log or an end has come: it says nothing of the schedule
    else:
        fit = schedule.learn(seconds, zones, previous)
    expected_at, deadline_at, lateness = fit.expected_at, fit.deadline_at, fit.lateness
    if pin is not None and seconds:
        told = schedule.expect(pin, seconds[-1])
        expected_at, deadline_at = told.expected_at, told.overdue_at
        lateness = None if expected_at is None or deadline_at is None else deadline_at - expected_at
    overrun_after_ms = _ms(schedule.duration_bound([duration / 1000 for duration in durations_ms]))
    return Expectation(
        _ms(fit.usual_interval),
        _ms(expected_at),
        _ms(deadline_at),
        _ms(lateness),
        overrun_after_ms,
        _lost_after(durations_ms, overrun_after_ms),
        _too_often(seconds, pin, previous),
        fit,
        schedule.describe(fit),
    )


def excused(expected: Expectation, silences: Iterable[tuple[int, int]]) -> Expectation:
    """The same, where nothing can become overdue within `silences`, which are (from, until), nor right after one.

    A heartbeat that was due in planned silence, or while the service was down, has its whole lateness once more
    afterwards.
    """
    overdue_from = expected.overdue_from
    if overdue_from is None:
        return expected
    for start, end in sorted(silences):
        if start <= overdue_from < end + (expected.lateness_ms or 0):
            overdue_from = end + (expected.lateness_ms or 0)
    return replace(expected, overdue_from=overdue_from)


def _lost_after(durations_ms: Sequence[int], overrun_after_ms: int | None) -> int:
    """4 times the longest run, at least an hour after it counts as overrunning, at most 7 days."""
    if overrun_after_ms is None:
        return LONGEST_RUN_MS
    return min(LONGEST_RUN_MS, max(4 * max(durations_ms), overrun_after_ms + HOUR_MS))


def _too_often(seconds: Sequence[float], pin: Pin | None, previous: Fit | None) -> bool | None:
    if pin is not None:
        return False
    return None if previous is None else schedule.too_often(seconds, previous)


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else math.ceil(seconds * 1000)
