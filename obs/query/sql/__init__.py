"""From a checked plan to SQL. A plan is read by one or more scans; this module has the input of a scan."""

from collections.abc import Sequence
from dataclasses import dataclass

from obs import times


@dataclass(frozen=True, slots=True)
class Range:
    """A range of time in milliseconds since the epoch: from `start` up to, but not including, `end`."""

    start: int
    end: int

    @property
    def length_ms(self) -> int:
        """The length of the range."""
        return self.end - self.start

    def max_buckets(self, interval_ms: int) -> int:
        """An upper bound for the number of buckets of `interval_ms` in a range of this length, wherever it starts."""
        return (self.length_ms - 1) // interval_ms + 2

    def __str__(self) -> str:
        return f"{times.format_ms(self.start)}/{times.format_ms(self.end)}"


@dataclass(frozen=True, slots=True)
class Scan:
    """The input of a scan, beside the plan.

    `window` is the time range to read, `now_ms` the time of the request. `rate_ms` is the length of time that one row
    of the result covers; rate() divides by it. `max_rows` bounds the rows that SQLite returns; None is no bound.

    With EVERY, buckets are `interval_ms` long and begin at `bucket_starts`. Where a clock change makes them differ in
    length, `timeline` is the number under which the SQL function ``obs_bucket`` knows `bucket_starts`.

    With `by_driver`, the rows are read group by group, in the order of the driving column (`sources.Column.driver`).
    """

    window: Range
    now_ms: int
    rate_ms: int
    max_rows: int | None
    interval_ms: int | None = None
    bucket_starts: Sequence[int] = ()
    timeline: int | None = None
    by_driver: bool = False
