"""What to expect of a job: when the next heartbeat is due, and when to give up an open run. Pure.

Times are milliseconds since the epoch.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from obs.heartbeat import pins, schedule
from obs.heartbeat.schedule import Description, Fit, Pin
from obs.times import DAY_MS, HOUR_MS

LONGEST_RUN_MS = 7 * DAY_MS
"""An open run counts as lost after this time at the latest."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What is expected of a job. Times are None if nothing is known yet, or if the pin is "never".

    expected_interval_ms  the usual interval between heartbeats, as learned
    next_expected         when the next heartbeat is due
    overdue_from          the time from which silence means overdue
    lateness_ms           the grace period: how long after `next_expected` a heartbeat may still come
    overrun_after_ms      an open run is overrunning this long after its start
    lost_after_ms         an open run is lost this long after its start
    too_often             whether the job runs too often; None if there is nothing to judge by
    fit                   what was learned, also if the job has a pin
    learned               the fit in words
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

    A pin overrides what is learned. `previous` is the fit from before the latest heartbeat.
    """
    if previous is not None and heartbeats and previous.last_at == heartbeats[-1]:
        fit = previous  # the new event is a log or an end, which shows nothing about the schedule
    else:
        fit = schedule.learn(heartbeats, zones, previous)
    expected_at, overdue_at, grace_ms = fit.expected_at, fit.overdue_at, fit.grace_ms
    if pin is not None and heartbeats:
        expected_at = overdue_at = grace_ms = None
        pinned = pins.due(pin, heartbeats[-1])
        if pinned is not None:
            expected_at, overdue_at = pinned
            grace_ms = overdue_at - expected_at
    overrun_after_ms = schedule.duration_bound(durations_ms)
    return Expectation(
        expected_interval_ms=fit.interval_ms,
        next_expected=expected_at,
        overdue_from=overdue_at,
        lateness_ms=grace_ms,
        overrun_after_ms=overrun_after_ms,
        lost_after_ms=_lost_after(durations_ms, overrun_after_ms),
        too_often=_too_often(heartbeats, pin, previous),
        fit=fit,
        learned=schedule.describe(fit),
    )


def excused(expected: Expectation, silences: Iterable[tuple[int, int]]) -> Expectation:
    """The expectation if nothing can become overdue during `silences`, which are (start, end), or right after one.

    If a heartbeat was due during maintenance, or while the service was down, the job has its full grace period again
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
    """4 times the longest run, at least an hour more than it takes to be overrunning, at most 7 days."""
    if overrun_after_ms is None:
        return LONGEST_RUN_MS
    return min(LONGEST_RUN_MS, max(4 * max(durations_ms), overrun_after_ms + HOUR_MS))


def _too_often(heartbeats: Sequence[int], pin: Pin | None, previous: Fit | None) -> bool | None:
    """Whether the job runs too often by the previous fit; never for a job with a pin."""
    if pin is not None:
        return False
    return None if previous is None else schedule.too_often(heartbeats, previous)
