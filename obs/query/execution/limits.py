"""The guardrails of a query, and what a client is told who runs into one: numbers that work."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from obs.errors import ServiceError
from obs.query.execution.window import Range, most_buckets
from obs.query.language.durations import write_duration
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS


@dataclass(frozen=True, slots=True)
class Limits:
    """What one query of an organization may use."""

    max_rows: int
    max_bytes_scanned: int
    max_seconds: int
    max_length: int
    rate_per_minute: int

    @classmethod
    def of(cls, settings: Mapping[str, Any], own: Mapping[str, int]) -> "Limits":
        """The service's limits (settings QUERY_...), with those that the organization has of its own."""
        values = {name: int(settings[f"QUERY_{name.upper()}"]) for name in cls.__dataclass_fields__}
        return cls(**{**values, **{name: value for name, value in own.items() if name in values}})


def exceeded(limit: str, maximum: int, actual: int | float, message: str, hint: str) -> ServiceError:
    """The 422 for a query over a guardrail."""
    return ServiceError(
        "query_limit_exceeded", message, hint=hint, extra={"limit": limit, "max": maximum, "actual": actual}
    )


def too_large(maximum: int) -> ServiceError:
    """The 422 for a query that wants more memory than the process has that runs it."""
    return ServiceError(
        "query_limit_exceeded",
        f"The query wants more than {maximum >> 20} MB of memory.",
        hint="Ask for fewer rows: narrow the window, raise EVERY, or group by something with fewer values.",
        extra={"limit": "memory", "max": maximum},
    )


def too_many_buckets(window: Range, interval_ms: int, count: int, groups: int, limits: Limits) -> ServiceError:
    """The 422 for an answer of `count` buckets for each of `groups` groups."""
    rows = count * groups
    what = f"{count} buckets" if groups == 1 else f"{count} buckets for each of {groups} groups"
    ways = []
    each = limits.max_rows // groups
    if each >= 2:
        interval = _at_least((window.length_ms - 1) // (each - 1) + 1, interval_ms)
        assert most_buckets(window, interval) <= each
        ways.append(f"raise EVERY from {write_duration(interval_ms)} to at least {write_duration(interval)}")
        ways.append(f"narrow the window to {write_duration(at_most((each - 1) * interval_ms))}")
    if groups > 1 and limits.max_rows >= count:
        ways.append(f"keep the largest groups with TOP {limits.max_rows // count}")
    if not ways:
        ways.append("leave BY out, or group by something with fewer values")
    hint = ", or ".join(ways)
    return exceeded(
        "max_rows",
        limits.max_rows,
        rows,
        f"The answer would have {rows} rows ({what}); {limits.max_rows} are allowed.",
        f"{hint[0].upper()}{hint[1:]}.",
    )


def too_many_rows(limits: Limits, *, grouped: bool) -> ServiceError:
    """The 422 for an answer of more rows than are allowed; how many more is not known."""
    most = limits.max_rows
    way = f"add TOP {most} or LIMIT {most}" if grouped else f"add LIMIT {most}"
    return exceeded(
        "max_rows",
        most,
        most + 1,
        f"The answer has more than {most} rows.",
        f"Narrow the window, choose fewer rows with WHERE, or {way}.",
    )


def too_many_bytes(limits: Limits, scanned: int) -> ServiceError:
    """The 422 for a query that has read more than it may."""
    return exceeded(
        "max_bytes_scanned",
        limits.max_bytes_scanned,
        scanned,
        f"The query was stopped after reading {scanned} bytes; {limits.max_bytes_scanned} are allowed.",
        "Narrow the window, or choose one job with WHERE job = '...'.",
    )


def too_slow(limits: Limits, seconds: float) -> ServiceError:
    """The 422 for a query that has taken longer than it may."""
    return exceeded(
        "max_seconds",
        limits.max_seconds,
        math.ceil(seconds * 1000) / 1000,
        f"The query was stopped after {seconds:.2f} s; {limits.max_seconds} s are allowed.",
        "Narrow the window, or choose one job with WHERE job = '...'.",
    )


def _at_least(length_ms: int, written_ms: int) -> int:
    """The shortest duration of at least `length_ms` in the unit that `written_ms` is best written in."""
    unit = next((u for u in (DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, 1) if written_ms % u == 0), 1)
    return -(-length_ms // unit) * unit


def at_most(length_ms: int) -> int:
    """The longest whole number of the largest unit that is no longer than `length_ms`."""
    unit = next(u for u in (DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, 1) if length_ms >= u)
    return length_ms // unit * unit
