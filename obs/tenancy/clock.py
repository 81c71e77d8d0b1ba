"""Whether the wall clock can be trusted: it is compared with the time since the machine booted. All in milliseconds.

A wall clock that is not where it should be is in doubt until it is right again, somebody accepts it (``obs
accept-clock``), or the service has run for as long as the two differ.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from obs.storage.file import DatabaseFile
from obs.tenancy import store
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, format_ms

STEP_MS = MINUTE_MS  # a wall clock that is off by no more than this is right
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_log = logging.getLogger(__name__)


class ClockState(NamedTuple):
    wall_ms: int  # when it was read last
    boot_id: str  # which boot of the machine that was
    boot_ms: int  # since then, including the time in which the machine was suspended
    lead_ms: int = 0  # how far it is ahead of where it should be; negative if it is behind
    doubted_from_ms: int | None = None  # since when it is in doubt, by itself as it is now; None: it is trusted

    @property
    def retention_ms(self) -> int:
        """The time by which data is purged: at most the wall clock, to which it catches up at twice its speed."""
        return self.wall_ms - max(0, self.lead_ms - (self.wall_ms - (self.doubted_from_ms or 0)))

    @property
    def warning(self) -> str | None:
        if self.lead_ms == 0:
            return None
        shown, right = (format_ms(time)[:16].replace("T", " ") for time in (self.wall_ms, self.wall_ms - self.lead_ms))
        return (
            f"The clock of this server shows {shown} UTC, but {right} is expected. Check its time synchronization"
            " (NTP). If the clock is right, run: obs accept-clock. Until then, no more than two days of old data are"
            " deleted per day."
        )


def observe(before: ClockState, wall_ms: int, boot_id: str, boot_ms: int) -> tuple[ClockState, int, int]:
    """The state after another look at the clocks, and by which step the wall clock was set meanwhile. Pure.

    The third value is the time, by the wall clock before, from which what was recorded moves with the step; 0 for none.
    After a reboot, up to a day without power is believed. But the clock stays in doubt for an hour, because many
    machines set it some time after they boot.
    """
    is_reboot = boot_id != before.boot_id or boot_ms < before.boot_ms
    elapsed = 0 if is_reboot else boot_ms - before.boot_ms
    step, lead, doubted_from = wall_ms - before.wall_ms - elapsed, before.lead_ms, before.doubted_from_ms
    if is_reboot and step >= 0 and lead >= 0:
        lead, doubted_from, step = lead + step, wall_ms, 0
    elif abs(step) > STEP_MS:
        lead += step
    else:
        step = 0
    if abs(lead) <= STEP_MS or (0 < lead <= DAY_MS and (is_reboot or boot_ms < HOUR_MS)):
        lead = 0
    start = 0
    if step and (doubted_from is None or (lead and not before.lead_ms)):
        doubted_from = wall_ms - min(elapsed, STEP_MS)  # what was recorded by a clock that was right stays
    elif step and doubted_from is not None:
        start, doubted_from = doubted_from, doubted_from + step
    if doubted_from is not None and wall_ms - doubted_from >= max(abs(lead), HOUR_MS):
        lead, doubted_from = 0, None
    return ClockState(wall_ms, boot_id, boot_ms, lead, doubted_from), step, start


class Reading(NamedTuple):
    """A look at the wall clock, whether to correct after it, and by how much it was set."""

    now_ms: int
    is_behind: bool = False  # then times that seem to be in the future may be right
    needs_correction: bool = False
    step_ms: int = 0
    start_ms: int = 0  # what was recorded after this, by the wall clock before the step, moves with the step,
    end_ms: int = 0  # until this
    unseen_start_ms: int = 0  # from this on the service was down, or the clock jumped over this time,
    unseen_end_ms: int = 0  # until this


class ServerClock:
    def __init__(self, control: DatabaseFile, clock: Callable[[], int], settings: Mapping[str, Any]) -> None:
        self._control, self._clock = control, clock
        self._boot_clock: Callable[[], float] = settings["BOOT_CLOCK"]
        self._boot_id = _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else ""
        self._state: ClockState | None = None
        self._stored_minute = 0

    @property
    def warning(self) -> str | None:
        return None if self._state is None else self._state.warning

    def retention_ms(self) -> int:
        before, state, step, _ = self._observe()
        return before.retention_ms if step else state.retention_ms  # nothing is corrected yet

    def look(self, *, is_kept: bool = True) -> Reading:
        """Look at the clocks, about once a second. Raises ServiceError (503).

        What was seen is seen again by a process that starts after this one, unless it `is_kept`, or the clock was set.
        """
        before, state, step, start = self._observe()
        if state.lead_ms and self._state is not None and self._stored() is None:
            state = ClockState(state.wall_ms, state.boot_id, state.boot_ms)  # somebody has accepted the wall clock
        is_set, is_new = step or state.lead_ms != before.lead_ms, state.wall_ms // MINUTE_MS != self._stored_minute
        if is_set or (is_new and (is_kept or self._stored() is None)):
            self._control.write(partial(store.keep_clock, state=state._asdict()))
            self._stored_minute = state.wall_ms // MINUTE_MS
        self._state = state
        if step:
            _log.warning("the clock was set by %+.0f s", step / 1000)
        if state.warning is not None and before.warning is None:
            _log.warning("%s", state.warning)
        is_behind = state.lead_ms < 0
        needs_correction = step != 0 or is_behind != (before.lead_ms < 0)
        # Where what was recorded moves with the step, the time before it was not seen.
        unseen = (start - before.lead_ms, start + step) if start else (before.wall_ms, state.wall_ms)
        end = state.wall_ms - step if start else 0
        return Reading(state.wall_ms, is_behind, needs_correction, step, start, end, *unseen)

    def _observe(self) -> tuple[ClockState, ClockState, int, int]:
        now_ms, boot_ms = self._clock(), round(self._boot_clock() * 1000)
        before = self._state or self._stored() or ClockState(now_ms, self._boot_id, boot_ms, 0, now_ms)
        return before, *observe(before, now_ms, self._boot_id, boot_ms)

    def _stored(self) -> ClockState | None:
        stored = self._control.fetch(store.clock)
        return None if stored is None else ClockState(**stored)
