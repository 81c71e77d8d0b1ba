"""The window and its buckets, as milliseconds since the epoch. Pure: now is an argument."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from obs import times
from obs.query.language.errors import OqlError
from obs.query.language.expressions import time_of
from obs.query.language.nodes import Moment, Window
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, WEEK_MS

AUTO_MS = (
    SECOND_MS,
    5 * SECOND_MS,
    10 * SECOND_MS,
    30 * SECOND_MS,
    MINUTE_MS,
    5 * MINUTE_MS,
    10 * MINUTE_MS,
    30 * MINUTE_MS,
    HOUR_MS,
    3 * HOUR_MS,
    6 * HOUR_MS,
    12 * HOUR_MS,
    DAY_MS,
    WEEK_MS,
)
"""The intervals that EVERY AUTO chooses from."""
MOST_AUTO_BUCKETS = 300


@dataclass(frozen=True, slots=True)
class Range:
    """From `start` up to, not including, `end`."""

    start: int
    end: int

    @property
    def length_ms(self) -> int:
        """How long it is."""
        return self.end - self.start

    def __str__(self) -> str:
        return f"{times.format_ms(self.start)}/{times.format_ms(self.end)}"


def resolve(window: Window, now_ms: int) -> Range:
    """The range that a window means at `now_ms`. Raises OqlError (oql_bad_time, oql_bad_duration)."""
    if window.last is not None:
        length = window.last.milliseconds
        if length == 0 or length > now_ms:
            reason = "a window is at least 1ms long" if length == 0 else "the window would begin before 1970"
            raise OqlError("oql_bad_duration", window.last.span, f"{reason}.", expected=["a duration"])
        return Range(now_ms - length, now_ms)
    assert window.since is not None
    start = _moment(window.since, now_ms)
    end = now_ms if window.until is None else _moment(window.until, now_ms)
    if start >= end:
        wrong = window.until or window.since
        raise OqlError(
            "oql_bad_time",
            wrong.span,
            "the window ends before it starts, or at once.",
            hint="Write the earlier time first.",
        )
    return Range(start, end)


def _moment(moment: Moment, now_ms: int) -> int:
    if moment.text is not None:
        return time_of(moment.text, moment.span)
    if moment.before_ms > now_ms:
        raise OqlError("oql_bad_time", moment.span, "this is before 1970.")
    return now_ms - moment.before_ms


def automatic_interval(window: Range, zone: ZoneInfo | None) -> int:
    """The shortest of AUTO_MS that gives at most MOST_AUTO_BUCKETS buckets, else the longest."""
    for interval in AUTO_MS[:-1]:
        if (
            most_buckets(window, interval) <= MOST_AUTO_BUCKETS + 2
            and len(buckets(window, interval, zone)) <= MOST_AUTO_BUCKETS
        ):
            return interval
    return AUTO_MS[-1]


def most_buckets(window: Range, interval_ms: int) -> int:
    """An upper bound of the number of buckets, wherever the window begins."""
    return (window.length_ms - 1) // interval_ms + 2


def buckets(window: Range, interval_ms: int, zone: ZoneInfo | None) -> Sequence[int]:
    """The starts of the buckets that touch the window, ascending; the first may be before it.

    Buckets begin at multiples of the interval since the epoch, by the clocks of `zone`. Where clocks change, a bucket
    is longer or shorter: a day has 23 or 25 hours. An hour that the clocks show twice is two buckets.
    """
    if zone is None:
        return range(window.start - window.start % interval_ms, window.end, interval_ms)
    first = _local(window.start, zone)
    first -= first % interval_ms
    starts: list[int] = []
    local = first - interval_ms
    while not starts or starts[-1] < window.end:
        starts += [
            start for start in _instants(local, zone, twice=interval_ms < DAY_MS) if not starts or start > starts[-1]
        ]
        local += interval_ms
    starts = sorted(set(starts))
    begin = bisect_right(starts, window.start) - 1
    return [start for start in starts[max(begin, 0) :] if start < window.end]


def offset_ms(moment_ms: int, zone: ZoneInfo) -> int:
    """How far the clocks of `zone` are ahead of UTC at a moment."""
    offset = (_EPOCH + timedelta(milliseconds=moment_ms)).astimezone(zone).utcoffset()
    assert offset is not None
    return offset // timedelta(milliseconds=1)


def earlier(moment_ms: int, back_ms: int, zone: ZoneInfo | None) -> int:
    """`back_ms` before a moment; whole days by the clocks of `zone`, so that midnight stays midnight."""
    if zone is None or back_ms % DAY_MS:
        return moment_ms - back_ms
    local = _local(moment_ms, zone) - back_ms
    again = moment_ms - back_ms
    instants = _instants(local, zone, twice=True)
    return again if again in instants else instants[0]


def all_earlier(moments: Sequence[int], back_ms: int, zone: ZoneInfo | None) -> Sequence[int]:
    """`earlier` of each; a range without a zone stays one, for it may hold more moments than there is memory."""
    if zone is None and isinstance(moments, range):
        return range(moments.start - back_ms, moments.stop - back_ms, moments.step)
    return [earlier(moment, back_ms, zone) for moment in moments]


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOCAL_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - what the clocks show, without a zone


def _local(moment_ms: int, zone: ZoneInfo) -> int:
    """What the clocks of `zone` show, counted in milliseconds from their own 1970."""
    return moment_ms + offset_ms(moment_ms, zone)


def _instants(local_ms: int, zone: ZoneInfo, *, twice: bool) -> list[int]:
    """The moments at which the clocks show `local_ms`; where they skip it, the moment at which they skip."""
    shown = _LOCAL_EPOCH + timedelta(milliseconds=local_ms)
    moments = []
    for fold in (0, 1) if twice else (0,):
        moment = (shown.replace(tzinfo=zone, fold=fold).astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)
        if _local(moment, zone) == local_ms or fold == 0:
            moments.append(moment)
    return sorted(set(moments))
