"""The limits of a query, and the errors for going over one. Their hints name numbers that work."""

import math
from dataclasses import dataclass

from obs.errors import ServiceError
from obs.query.language.plan import Range
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, write_duration

_UNITS = {"d": DAY_MS, "h": HOUR_MS, "m": MINUTE_MS, "s": SECOND_MS, "ms": 1}
_NARROWER = "Narrow the window, or choose one job with WHERE job = '...'."


@dataclass(frozen=True, slots=True)
class Limits:
    """What the queries of an organization may use: each query by itself, but for `rate_per_minute`."""

    max_rows: int
    max_bytes_scanned: int
    max_seconds: float
    max_length: int
    rate_per_minute: int
    may_spill: bool = True
    """Whether sorting may write to the disk. If not, it needs more memory."""


def _exceeded(limit: str, maximum: float, actual: int | float, message: str, hint: str) -> ServiceError:
    extra = {"limit": limit, "max": maximum, "actual": actual}
    return ServiceError("query_limit_exceeded", message, hint=hint, extra=extra)


def too_much_memory(maximum: int) -> ServiceError:
    message = f"The query needs more than {maximum >> 20} MB of memory."
    hint = "Ask for fewer rows: narrow the window, raise EVERY, or group by something with fewer values."
    return ServiceError("query_limit_exceeded", message, hint=hint, extra={"limit": "memory", "max": maximum})


def too_many_buckets(window: Range, interval_ms: int, count: int, groups: int, limits: Limits) -> ServiceError:
    rows = count * groups
    what = f"{count} buckets" if groups == 1 else f"{count} buckets for each of {groups} groups"
    ways = []
    each = limits.max_rows // groups
    if each >= 2:
        unit = next(unit for unit in _UNITS.values() if interval_ms % unit == 0)
        interval = -(-((window.length_ms - 1) // (each - 1) + 1) // unit) * unit
        ways.append(f"raise EVERY from {write_duration(interval_ms)} to at least {write_duration(interval)}")
        ways.append(f"narrow the window to {write_duration(longest_duration((each - 1) * interval_ms))}")
    if groups > 1 and limits.max_rows >= count:
        ways.append(f"keep the largest groups with TOP {limits.max_rows // count}")
    if not ways:
        ways.append("remove BY, or group by something with fewer values")
    hint = ", or ".join(ways)
    message = f"The result would have {rows} rows ({what}); {limits.max_rows} are allowed."
    return _exceeded("max_rows", limits.max_rows, rows, message, f"{hint[0].upper()}{hint[1:]}.")


def too_many_rows(limits: Limits, *, grouped: bool) -> ServiceError:
    most = limits.max_rows
    way = f"add TOP {most} or LIMIT {most}" if grouped else f"add LIMIT {most}"
    hint = f"Narrow the window, choose fewer rows with WHERE, or {way}."
    return _exceeded("max_rows", most, most + 1, f"The result has more than {most} rows.", hint)


def too_many_bytes(limits: Limits, scanned: int) -> ServiceError:
    most = limits.max_bytes_scanned
    message = f"The query was stopped after reading {scanned} bytes; {most} are allowed."
    return _exceeded("max_bytes_scanned", most, scanned, message, _NARROWER)


def too_slow(limits: Limits, seconds: float) -> ServiceError:
    most = limits.max_seconds
    message = f"The query was stopped after {seconds:.2f} s; {most} s are allowed."
    return _exceeded("max_seconds", most, math.ceil(seconds * 1000) / 1000, message, _NARROWER)


def longest_duration(length_ms: int) -> int:
    """The longest duration of at most `length_ms` that is a multiple of the largest unit it can be written in."""
    unit = next(unit for unit in _UNITS.values() if length_ms >= unit)
    return length_ms // unit * unit
