"""What to expect of a job: when the next heartbeat is due, and when to give up an open run. Pure.

Times are milliseconds since the epoch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from obs.heartbeat import pins, schedule
from obs.heartbeat.pins import Interval, Pin
from obs.heartbeat.schedule import Fit, Memory
from obs.heartbeat.schedule.grace import duration_bound
from obs.times import DAY_MS, HOUR_MS

LONGEST_RUN_MS = 7 * DAY_MS
"""An open run counts as lost after this time at the latest."""
NOT_LEARNED = Fit(0, 0)  # the fit of an expectation for which nothing was learned


@dataclass(frozen=True, slots=True)
class Expectation:
    """What is expected of a job. Times are None if nothing is known yet, or if the pin is "never".

    expected_at       when the next heartbeat is due
    overdue_at        the time from which silence means overdue
    grace_ms          the grace period: how long after `expected_at` a heartbeat may still come
    overrun_after_ms  an open run is overrunning this long after its start
    lost_after_ms     an open run is lost this long after its start: 4 times the longest run, at least an hour more than
                      it takes to be overrunning, at most 7 days
    too_often         whether the job runs too often: False with a pin, None if nothing was learned before
    fit               what was learned, also if the job has a pin
    memory            the heartbeats that it was learned from; None if the clock was wrong and nothing was learned
    """

    expected_at: int | None
    overdue_at: int | None
    grace_ms: int | None
    overrun_after_ms: int | None
    lost_after_ms: int
    too_often: bool | None
    fit: Fit
    memory: Memory | None = None


def expect(
    heartbeats: Sequence[int],
    durations_ms: Sequence[int],
    zones: Sequence[str] | None,
    pin: Pin | None = None,
    previous: Fit | None = None,
    last_heartbeat_at: int | None = None,
    unknown: Sequence[tuple[int, int]] = (),
) -> Expectation:
    """What to expect after `heartbeats` (ascending) of runs that took `durations_ms` (in the order of the runs).

    A pin overrides what is learned. `previous` is the fit from before the latest heartbeat. Without `zones` nothing new
    is learned. `last_heartbeat_at` is of any kind; an interval counts from there, a cron expression from the last run.
    `unknown` are the times in which nobody can know whether the job ran, as for `schedule.learn`.
    """
    is_known = previous is not None and bool(heartbeats) and previous.last_at == heartbeats[-1]
    fit = schedule.learn(heartbeats, zones or (), previous, unknown) if is_known or zones is not None else NOT_LEARNED
    expected_at, overdue_at, grace_ms = fit.expected_at, fit.overdue_at, fit.grace_ms
    last_at = heartbeats[-1] if heartbeats else None
    if last_heartbeat_at is not None and (last_at is None or isinstance(pin, Interval)):
        last_at = last_heartbeat_at
    if pin is not None and last_at is not None:
        expected_at, overdue_at = pins.due(pin, last_at, unknown) or (None, None)
        grace_ms = None if expected_at is None or overdue_at is None else overdue_at - expected_at
    too_often: bool | None = False
    if pin is None:
        too_often = None if previous is None else schedule.too_often(heartbeats, previous)
    overrun_after_ms, lost_after_ms = duration_bound(durations_ms), LONGEST_RUN_MS
    if overrun_after_ms is not None:
        lost_after_ms = min(LONGEST_RUN_MS, max(4 * max(durations_ms), overrun_after_ms + HOUR_MS))
    return Expectation(expected_at, overdue_at, grace_ms, overrun_after_ms, lost_after_ms, too_often, fit)
