"""The time window of a plan and its buckets at the time of the request."""

from bisect import bisect_left, bisect_right
from calendar import monthrange
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from obs.query.execution.session import Limits, too_many_buckets
from obs.query.language.errors import OqlError
from obs.query.language.expressions import time_of
from obs.query.language.nodes import DAYS, Duration, Moment, Window
from obs.query.language.plan import MAX_GROUPS, Plan, Range, Scan, Timeline
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, WEEK_MS, offset_ms

AUTO_MS = (  # the intervals that EVERY AUTO chooses from
    *(count * unit_ms for unit_ms in (SECOND_MS, MINUTE_MS) for count in (1, 5, 10, 30)),
    *(count * HOUR_MS for count in (1, 3, 6, 12)),
    *(DAY_MS, WEEK_MS),
)
MAX_AUTO_BUCKETS = 300
_STEP_MS = 3 * DAY_MS  # no zone changes its clocks twice within it; some have within a week
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


def scans(plan: Plan, now_ms: int, limits: Limits) -> list[Scan]:
    """The scan of the window, and with COMPARE WITH that of the earlier window. Raises ServiceError (422), OqlError."""
    try:
        window = resolve(plan.window, now_ms, plan.timezone)
        zone, most = plan.timezone, limits.max_rows + 1  # one more, to notice that there are too many
        past = Range(window.start, min(window.end, now_ms + DAY_MS))  # there are no runs later, however long the window
        scan = Scan(window, now_ms, most, offsets=() if zone is None else [*_offsets(past, zone)])
        if plan.interval_ms is not None:
            interval = plan.interval_ms or _auto_interval(window, zone)
            scan = replace(scan, timeline=_timeline_within(limits, plan, window, interval))
        if plan.around is None and plan.is_ordered_last and not (scan.timeline is not None and plan.fills):
            scan = replace(scan, max_rows=MAX_GROUPS)  # HAVING, TOP and LIMIT apply to rows that are put together
        if (back := plan.back_ms) is None:
            return [scan]
        window = Range(earlier(window.start, back, zone), earlier(window.end, back, zone))
        timeline = scan.timeline and _shifted(scan.timeline, window, back, zone, plan.months)
        offsets = () if zone is None else [*_offsets(Range(window.start, min(window.end, past.end)), zone)]
        return [scan, replace(scan, window=window, max_rows=MAX_GROUPS, number=1, timeline=timeline, offsets=offsets)]
    except (OverflowError, ValueError) as error:
        message = "buckets in TIMEZONE, or of months, would start before the year 1 or after the year 9999."
        hint = "Remove TIMEZONE, or choose another window."
        raise OqlError("oql_bad_time", plan.window.span, message, hint=hint) from error


def resolve(window: Window, now_ms: int, zone: ZoneInfo | None = None) -> Range:
    """The range of a window at `now_ms`. Raises OqlError (oql_bad_time)."""
    start = _resolve_moment(window.since, now_ms, zone)
    end = now_ms if window.until is None else _resolve_moment(window.until, now_ms, zone)
    if start >= end:
        wrong, message = window.until or window.since, "The window must end after it starts."
        hint = "Write a later time: the end is excluded." if window.until else "It ends now, as there is no UNTIL."
        raise OqlError("oql_bad_time", wrong.span, message, hint=hint)
    return Range(start, end)


def _resolve_moment(moment: Moment, now_ms: int, zone: ZoneInfo | None) -> int:
    if moment.text is None:
        base = now_ms
    elif moment.text in DAYS:
        base = _moment((_local(now_ms, zone) // DAY_MS - DAYS.index(moment.text)) * DAY_MS, zone)
    else:
        base = time_of(moment.text, moment.span)
    if moment.before is not None:
        base = _before(base, moment.before, zone)
    if base < 0:
        raise OqlError("oql_bad_time", moment.span, "This time is before 1970.")
    return base + moment.after_ms


def _before(moment_ms: int, length: Duration, zone: ZoneInfo | None) -> int:
    """A `length` before a moment. A month before March 31 is the end of February."""
    if not length.months:
        return moment_ms - length.milliseconds
    shown = _EPOCH + timedelta(milliseconds=_local(moment_ms, zone))
    year, month = divmod(shown.year * 12 + shown.month - 1 - length.months, 12)
    day = min(shown.day, monthrange(year, month + 1)[1])
    return _moment((shown.replace(year=year, month=month + 1, day=day) - _EPOCH) // _MS, zone)


def _auto_interval(window: Range, zone: ZoneInfo | None) -> int:
    may_fit = (each for each in AUTO_MS[:-1] if (window.length_ms - 1) // each <= MAX_AUTO_BUCKETS)
    fit = (each for each in may_fit if len(buckets(window, each, zone).starts) <= MAX_AUTO_BUCKETS)
    return next(fit, AUTO_MS[-1])


def _timeline_within(limits: Limits, plan: Plan, window: Range, interval: int) -> Timeline:
    if (plan.timezone is not None or plan.months) and window.length_ms // interval > limits.max_rows:
        raise too_many_buckets(window, interval, window.length_ms // interval, 1, limits)
    timeline = buckets(window, interval, plan.timezone, months=plan.months)
    if plan.fills and not plan.groups and len(timeline.starts) > limits.max_rows:
        raise too_many_buckets(window, interval, len(timeline.starts), 1, limits)
    return timeline


def buckets(window: Range, interval_ms: int, zone: ZoneInfo | None, shift_ms: int = 0, months: int = 0) -> Timeline:
    """The buckets that overlap the window; the first may start before it.

    Buckets begin at multiples of the interval since 1970, by the clocks of `zone`, if these were `shift_ms` ahead.
    Where the clocks change, a bucket is longer or shorter: a day has 23 or 25 hours. Of buckets that are shorter than a
    day, one that the clocks show twice is two buckets. Weeks begin on Mondays; 1970 began on a Thursday.
    """
    shift_ms += 3 * DAY_MS if interval_ms % WEEK_MS == 0 and not months else 0
    if months or (zone is not None and interval_ms >= DAY_MS):
        return _days(window, interval_ms, zone, shift_ms, months)
    if zone is None:
        first = window.start - (window.start + shift_ms) % interval_ms
        return Timeline(window, interval_ms, range(first, window.end, interval_ms))
    starts: list[int] = []
    labels: list[int] = []
    for start, end, offset in _offsets(Range(window.start - 2 * interval_ms - DAY_MS, window.end), zone):
        label, past = divmod(start + offset + shift_ms, interval_ms)
        if not starts or past == 0 or label != labels[-1]:
            starts.append(start)
            labels.append(label)
        following = range((label + 1) * interval_ms - offset - shift_ms, end, interval_ms)
        starts += following
        labels += range(label + 1, label + 1 + len(following))
    first = bisect_right(starts, window.start) - 1
    return Timeline(window, interval_ms, starts[first:], labels[first:])


def _days(window: Range, interval_ms: int, zone: ZoneInfo | None, shift_ms: int, months: int) -> Timeline:
    """Buckets of days, weeks or months, each from the first midnight that the clocks show at its start."""

    def label_of(moment_ms: int) -> int:
        local_ms = _local(moment_ms, zone) + shift_ms
        shown = _EPOCH + timedelta(milliseconds=local_ms)
        return ((shown.year - 1970) * 12 + shown.month - 1) // months if months else local_ms // interval_ms

    def start_of(label: int) -> int:
        year, month = divmod(label * months, 12)
        local_ms = (datetime(1970 + year, month + 1, 1, tzinfo=UTC) - _EPOCH) // _MS if months else label * interval_ms
        return _moment(local_ms - shift_ms, zone)

    # The clocks may show the evening before a midnight again, in which the next day has begun already.
    found = {start_of(label): label for label in range(label_of(window.start), label_of(window.end - 1) + 2)}
    starts = [start for start in found if start < window.end]
    first = bisect_right(starts, window.start) - 1
    return Timeline(window, interval_ms, starts[first:], [found[start] for start in starts[first:]])


def _offsets(window: Range, zone: ZoneInfo) -> Iterator[tuple[int, int, int]]:
    """The parts of the window between clock changes: start, end, and the offset of local time from UTC."""
    start, offset = window.start, offset_ms(window.start, zone)

    def has_changed(moment_ms: int) -> bool:
        return offset_ms(moment_ms, zone) != offset

    for first in range(window.start, window.end, _STEP_MS):
        if has_changed(first + _STEP_MS):
            change = first + bisect_left(range(first, first + _STEP_MS), 1, key=has_changed)
            if change < window.end:
                yield start, change, offset
                start, offset = change, offset_ms(change, zone)
    yield start, window.end, offset


def _shifted(timeline: Timeline, window: Range, back_ms: int, zone: ZoneInfo | None, months: int) -> Timeline:
    """The buckets of the earlier `window`, numbered as the buckets of `timeline` that they are compared with.

    Buckets with the same local time belong together, also the second ones where the clocks show it twice. One without
    a counterpart belongs to the bucket before it, so that each row is counted once.
    """
    if zone is not None and back_ms % DAY_MS:
        return Timeline(window, timeline.interval_ms, [start - back_ms for start in timeline.starts])
    found = buckets(window, timeline.interval_ms, zone, back_ms, months)
    places = {key: place for place, key in enumerate(_showings(timeline.labels))}
    numbers: list[int] = []
    for label, showing in _showings(found.labels):
        before = numbers[-1] if numbers else 0
        numbers.append(places.get((label, showing), places.get((label, 0), before)))
    return found if numbers == list(range(len(numbers))) else replace(found, numbers=numbers)


def _showings(labels: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Each label with how often it has occurred before."""
    seen: Counter[int] = Counter()
    for label in labels:
        yield label, seen[label]
        seen[label] += 1


def earlier(moment_ms: int, back_ms: int, zone: ZoneInfo | None) -> int:
    """`back_ms` before a moment. Whole days are counted by the clocks of `zone`, so that midnight stays midnight."""
    exact = moment_ms - back_ms
    if zone is None or back_ms % DAY_MS:
        return exact
    offset = min(offset_ms(moment_ms - 1, zone), offset_ms(moment_ms, zone))  # a midnight that is skipped is one, too
    return _moment(exact + offset, zone)


def _local(moment_ms: int, zone: ZoneInfo | None) -> int:
    return moment_ms + (offset_ms(moment_ms, zone) if zone is not None else 0)


def _moment(local_ms: int, zone: ZoneInfo | None) -> int:
    """The first moment at which the clocks of `zone` show `local_ms`; if they skip it, by those before the change."""
    return (datetime(1970, 1, 1, tzinfo=zone or UTC) + local_ms * _MS - _EPOCH) // _MS
