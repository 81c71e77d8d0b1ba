"""The time window of a plan and its buckets, resolved at the time of the request. Pure: `now_ms` is an argument."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from obs.query.execution.limits import Limits, too_many_buckets
from obs.query.language.errors import OqlError
from obs.query.language.expressions import time_of
from obs.query.language.nodes import Moment, Window
from obs.query.language.plan import Plan
from obs.query.sql import Range, Scan
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, WEEK_MS, offset_ms

AUTO_MS = (
    *(count * unit_ms for unit_ms in (SECOND_MS, MINUTE_MS) for count in (1, 5, 10, 30)),
    *(count * HOUR_MS for count in (1, 3, 6, 12)),
    *(DAY_MS, WEEK_MS),
)
"""The intervals that EVERY AUTO chooses from."""
MAX_AUTO_BUCKETS = 300


def scans(plan: Plan, now_ms: int, limits: Limits) -> list[Scan]:
    """The input of the plan's scan; with COMPARE WITH, that of a second scan of the earlier window follows.

    Raises ServiceError (422) for too many buckets, and OqlError (oql_bad_time, oql_bad_duration) for a window that is
    empty or not within the years supported.
    """
    try:
        window = resolve(plan.window, now_ms)
        max_rows = limits.max_rows + 1  # one more, to notice that there are too many
        if plan.interval_ms is None:
            scan = Scan(window, now_ms, window.length_ms, max_rows)
        else:
            interval = plan.interval_ms or _auto_interval(window, plan.timezone)
            starts = _starts_within(limits, plan, window, interval)
            timeline = None if _is_even(starts, interval, window) else 0
            scan = Scan(window, now_ms, interval, max_rows, interval, starts, timeline)
        if plan.compare is None:
            return [scan]
        back, zone = plan.compare.milliseconds, plan.timezone
        window = Range(earlier(window.start, back, zone), earlier(window.end, back, zone))
        compared = replace(scan, window=window)
        if scan.interval_ms is not None:
            starts = _all_earlier(scan.bucket_starts, back, zone)
            timeline = None if _is_even(starts, scan.interval_ms, window) else 1
            compared = replace(compared, bucket_starts=starts, timeline=timeline)
        return [scan, compared]
    except OverflowError as error:
        message = "with TIMEZONE, buckets would start before the year 1 or after the year 9999."
        hint = "Remove TIMEZONE, or choose another window."
        raise OqlError("oql_bad_time", plan.window.span, message, hint=hint) from error


def resolve(window: Window, now_ms: int) -> Range:
    """The range of a window at `now_ms`. Raises OqlError (oql_bad_time, oql_bad_duration)."""
    if window.last is not None:
        length = window.last.milliseconds
        if length == 0 or length > now_ms:
            reason = "a window must be at least 1ms long" if length == 0 else "the window would start before 1970"
            raise OqlError("oql_bad_duration", window.last.span, f"{reason}.", expected=["a duration"])
        return Range(now_ms - length, now_ms)
    assert window.since is not None
    start = _resolve_moment(window.since, now_ms)
    end = now_ms if window.until is None else _resolve_moment(window.until, now_ms)
    if start >= end:
        wrong = window.until or window.since
        message = "the window must end after it starts."
        raise OqlError("oql_bad_time", wrong.span, message, hint="Write the earlier time first.")
    return Range(start, end)


def _resolve_moment(moment: Moment, now_ms: int) -> int:
    if moment.text is not None:
        return time_of(moment.text, moment.span)
    if moment.before_ms > now_ms:
        raise OqlError("oql_bad_time", moment.span, "this time is before 1970.")
    return now_ms - moment.before_ms


def _auto_interval(window: Range, zone: ZoneInfo | None) -> int:
    """The shortest of AUTO_MS that gives at most MAX_AUTO_BUCKETS buckets, else the longest."""
    for interval in AUTO_MS[:-1]:
        if window.max_buckets(interval) > MAX_AUTO_BUCKETS + 2:
            continue
        if len(bucket_starts(window, interval, zone)) <= MAX_AUTO_BUCKETS:
            return interval
    return AUTO_MS[-1]


def _starts_within(limits: Limits, plan: Plan, window: Range, interval: int) -> Sequence[int]:
    """The starts of the buckets, ascending. Raises ServiceError (422) where there are too many."""
    if plan.timezone is not None and window.length_ms // interval > limits.max_rows:
        raise too_many_buckets(window, interval, window.length_ms // interval, 1, limits)
    starts = bucket_starts(window, interval, plan.timezone)
    if plan.fills and len(starts) > limits.max_rows:
        raise too_many_buckets(window, interval, len(starts), 1, limits)
    return starts


def bucket_starts(window: Range, interval_ms: int, zone: ZoneInfo | None) -> Sequence[int]:
    """The starts of the buckets that overlap the window, ascending; the first may be before the window.

    Buckets begin at multiples of the interval since 1970, by the clocks of `zone`. Where the clocks change, a bucket
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


def _is_even(starts: Sequence[int], interval: int, window: Range) -> bool:
    """Whether all buckets have the same length, the last one included."""
    if isinstance(starts, range):
        return True
    return window.end - starts[-1] <= interval and all(after - before == interval for before, after in pairwise(starts))


def earlier(moment_ms: int, back_ms: int, zone: ZoneInfo | None) -> int:
    """`back_ms` before a moment. Whole days are counted by the clocks of `zone`, so that midnight stays midnight."""
    if zone is None or back_ms % DAY_MS:
        return moment_ms - back_ms
    local = _local(moment_ms, zone) - back_ms
    exact = moment_ms - back_ms
    instants = _instants(local, zone, twice=True)
    return exact if exact in instants else instants[0]


def _all_earlier(moments: Sequence[int], back_ms: int, zone: ZoneInfo | None) -> Sequence[int]:
    """`earlier` of each. A range without a zone stays a range: it may have more moments than fit in memory."""
    if zone is None and isinstance(moments, range):
        return range(moments.start - back_ms, moments.stop - back_ms, moments.step)
    return [earlier(moment, back_ms, zone) for moment in moments]


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOCAL_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - what local clocks show, without a zone


def _local(moment_ms: int, zone: ZoneInfo) -> int:
    """What the clocks of `zone` show at a moment, in milliseconds since 1970 by those clocks."""
    return moment_ms + offset_ms(moment_ms, zone)


def _instants(local_ms: int, zone: ZoneInfo, *, twice: bool) -> list[int]:
    """The moments at which the clocks of `zone` show `local_ms`, ascending.

    For a time that the clocks skip, the moment at which they skip it. For one that they show twice, both moments, or
    only the first with `twice` False.
    """
    shown = _LOCAL_EPOCH + timedelta(milliseconds=local_ms)
    moments = []
    for fold in (0, 1) if twice else (0,):
        moment = (shown.replace(tzinfo=zone, fold=fold).astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)
        if _local(moment, zone) == local_ms or fold == 0:
            moments.append(moment)
    return sorted(set(moments))
