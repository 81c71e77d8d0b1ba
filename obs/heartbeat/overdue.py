"""What to expect of a job: when the next heartbeat is due, and when to give up an open run. Pure, in milliseconds."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from obs.heartbeat import pins, schedule
from obs.heartbeat.hosts import Stream
from obs.heartbeat.schedule import Fit, Memory
from obs.heartbeat.schedule.clock import local_time, offset_at
from obs.heartbeat.schedule.fit import NOT_LEARNED
from obs.heartbeat.schedule.grace import duration_bound
from obs.heartbeat.schedule.history import awaited
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, WEEK_MS, duration_words

LONGEST_RUN_MS = 7 * DAY_MS  # an open run counts as lost after this time at the latest
_NEAR_MS = 30 * MINUTE_MS  # times of the week so close to one another are the same situation


@dataclass(frozen=True, slots=True)
class Expectation:
    """What is expected of a job. Times are None if nothing is known yet, or if the pin is "never"."""

    expected_at: int | None  # when the next heartbeat is due
    overdue_at: int | None  # the time from which silence means overdue
    grace_ms: int | None  # the grace period: how long after `expected_at` a heartbeat may still come
    overrun_after_ms: int | None  # an open run is overrunning this long after its start
    lost_after_ms: int  # an open run is lost this long after its start
    too_often: bool | None  # whether the job runs too often: False with a pin, None if nothing was learned before
    fit: Fit  # what was learned, also if the job has a pin
    reason: str = ""  # why it is overdue later than was learned; empty if it is not
    memory: Memory | None = None  # what it was learned from; None if the clock was wrong and nothing was learned
    by_host: bool = False  # whether it is the earliest of what is expected of each host
    streams: Sequence[Stream] = ()  # those of the hosts that have changed


class Wait(NamedTuple):
    """How much longer to wait for a job in the situation of an incident that was a false alarm."""

    incident_id: int
    overdue_at: int
    silent_until: int  # until the job reported again, or for RETRIED_MS or more if somebody said that this is right
    longer_ms: int = 0
    zone: str = ""  # the situation is this time of the week there, give or take half an hour; any time if it is empty
    words: str = ""

    def until(self, overdue_at: int) -> int:
        """From when a job is overdue that is overdue from `overdue_at` by what was learned."""
        then, now = (time + offset_at(self.zone or "UTC", time) for time in (self.overdue_at, overdue_at))
        is_near = not self.zone or (now - then + _NEAR_MS) % WEEK_MS <= 2 * _NEAR_MS
        return overdue_at + (self.longer_ms if is_near else 0)

    def extended(self, fit: Fit | None, next_at: int | None) -> "Wait":
        """The same with what follows: at least until `next_at`. Rare jobs and jobs at intervals have one situation."""
        silence_ms = self.silent_until - self.overdue_at
        longer_ms = max(silence_ms * 11 // 10 + MINUTE_MS, (next_at or 0) - self.overdue_at)
        zone, when, best = "", "For this job", fit and fit.hypothesis
        if fit and best and best.lattice and not fit.waits_by_gaps and (fit.interval_ms or 0) < WEEK_MS:
            zone, when = best.zone, f"On {local_time(best.zone, self.overdue_at):%As around %H:%M} ({best.zone})"
        words = f"{when}, obs now waits {duration_words(longer_ms)} longer than learned."
        return self._replace(longer_ms=longer_ms, zone=zone, words=words)


def waits_from_json(text: str | None) -> tuple[Wait, ...]:
    """The waits from their stored form, an array of arrays; none for None."""
    return () if text is None else tuple(map(Wait._make, json.loads(text)))


def expect(
    heartbeats: Sequence[int],
    durations_ms: Sequence[int],
    zones: Sequence[str] | None,
    pin: pins.Pin | None = None,
    previous: Fit | None = None,
    last_heartbeat_at: int | None = None,
    unknown: Sequence[tuple[int, int]] = (),
    waits: Sequence[Wait] = (),
) -> Expectation:
    """What to expect after `heartbeats` (ascending) of runs that took `durations_ms` (in the order of the runs).

    A pin overrides what is learned. `previous` is the fit from before the latest heartbeat. Without `zones` nothing new
    is learned. A pin counts from `last_heartbeat_at`: for a cron expression, that of the last run; else of any kind.
    `unknown` are the times in which nobody can know whether the job ran, as for `schedule.learn`. `waits` follow from
    false alarms, once the job has reported again.
    """
    is_known = previous is not None and bool(heartbeats) and previous.last_at == heartbeats[-1]
    fit = schedule.learn(heartbeats, zones or (), previous, unknown) if is_known or zones is not None else NOT_LEARNED
    expected_at, overdue_at, grace_ms = fit.expected_at, fit.overdue_at, fit.grace_ms
    last_at = heartbeats[-1] if heartbeats else None
    if last_heartbeat_at is not None and (last_at is None or pin is not None):
        last_at = last_heartbeat_at
    if pin is not None and last_at is not None:
        expected_at, overdue_at = pins.due(pin, last_at, unknown) or (None, None)
        grace_ms = None if expected_at is None or overdue_at is None else overdue_at - expected_at
    reason = ""
    too_often = pin is None and (None if previous is None else schedule.too_often(heartbeats, previous))
    if pin is None and overdue_at is not None:
        until = [wait.until(overdue_at) for wait in waits if wait.overdue_at < (last_heartbeat_at or 0)]
        if max(until, default=0) > overdue_at:
            later, grace = [one for one in unknown if one[1] > (last_at or 0)], grace_ms or 0
            _, overdue_at = awaited(max(until), 0, later, lambda end: end + grace)
            reason = "an incident in this situation was a false alarm"
            fit = replace(fit, overdue_at=overdue_at)
    overrun_after_ms, lost_after_ms = duration_bound(durations_ms), LONGEST_RUN_MS
    if overrun_after_ms is not None:
        lost_after_ms = min(LONGEST_RUN_MS, max(4 * max(durations_ms), overrun_after_ms + HOUR_MS))
    return Expectation(expected_at, overdue_at, grace_ms, overrun_after_ms, lost_after_ms, too_often, fit, reason)
