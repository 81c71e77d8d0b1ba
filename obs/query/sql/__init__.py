"""From a checked plan to SQL. A plan is read by one or more scans; this module has the input of a scan."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from obs import times

MAX_GROUPS = 1_000_000
"""How many groups are read at most to count or compare them; the limits on time and bytes are reached first."""


@dataclass(frozen=True, slots=True)
class Range:
    """A range of time in milliseconds since the epoch: from `start` up to, but not including, `end`."""

    start: int
    end: int

    @property
    def length_ms(self) -> int:
        return self.end - self.start

    def __str__(self) -> str:
        return f"{times.format_ms(self.start)}/{times.format_ms(self.end)}"


@dataclass(frozen=True, slots=True)
class Timeline:
    """The buckets of EVERY within a window: their `starts`, ascending, `interval_ms` apart where no clock changes.

    `labels` are what the clocks of a time zone show there, in intervals since 1970; empty without a zone. `numbers` are
    empty if they are 0, 1, 2...
    """

    window: Range
    interval_ms: int
    starts: Sequence[int]
    labels: Sequence[int] = ()
    numbers: Sequence[int] = ()

    def bucket(self, time: int) -> int:
        place = bisect_right(self.starts, time) - 1
        return self.numbers[place] if self.numbers else place

    def length_ms(self, number: int) -> int:
        """How much of the window a bucket covers."""
        places = [number] if not self.numbers else [place for place, each in enumerate(self.numbers) if each == number]
        return sum(
            min([*self.starts[place + 1 : place + 2], self.window.end]) - max(self.starts[place], self.window.start)
            for place in places
        )

    def is_even(self) -> bool:
        """Whether all buckets have the same length, the last one included, and the numbers 0, 1, 2..."""
        if isinstance(self.starts, range):
            return True
        same = all(after - before == self.interval_ms for before, after in pairwise(self.starts))
        return same and self.window.end - self.starts[-1] <= self.interval_ms and not self.numbers


@dataclass(frozen=True, slots=True)
class Scan:
    """The input of a scan: the `window` to read, the time of the request, and the most rows that SQLite may return.

    `number` is the number under which the SQL functions ``obs_bucket`` and ``obs_covered`` know the `timeline`.
    """

    window: Range
    now_ms: int
    max_rows: int | None
    timeline: Timeline | None = None
    number: int = 0
    has_whole_hours: bool = True
    """Whether the clocks of TIMEZONE are whole hours from UTC."""
    parts: Sequence[Range] = ()
    """The parts of the window to read, ascending; empty for all of it."""
    groups: Sequence[tuple[Any, ...]] = ()
    """The groups to read; empty for all."""
