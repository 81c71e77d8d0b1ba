"""What a plan is read with: one window at one moment, and how it is gone about."""

from collections.abc import Sequence
from dataclasses import dataclass

from obs.query.execution.window import Range
from obs.sources import Grain


@dataclass(frozen=True, slots=True)
class Rolled:
    """What of a window is read from rollups: of each grain which numbers, as spans from one up to, not including,
    another. `stretches` are the rest, which is read from the rows.
    """

    spans: tuple[tuple[Grain, tuple[tuple[int, int], ...]], ...]
    stretches: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """What a plan is read with: the window, the moment, how buckets are told apart, how many rows are wanted at most.

    Buckets are `interval_ms` long and begin at `starts`; where they are not all of one length, ``obs_bucket`` knows
    them by the number `by_clock`. With `group_by_group` the rows of one group are read after those of another, where
    `driver_of` has a column for that. `rate_ms` is the length of time that stands behind one row of the answer. With
    `rolled` a part of the window is read from a rollup.
    """

    window: Range
    now_ms: int
    rate_ms: int
    most_rows: int | None
    interval_ms: int | None = None
    starts: Sequence[int] = ()
    by_clock: int | None = None
    group_by_group: bool = False
    rolled: Rolled | None = None
