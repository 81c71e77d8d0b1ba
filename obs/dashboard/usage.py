"""The limits of an organization and how much of each it uses, in words. Pure."""

from typing import NamedTuple

from obs.annotations.source import RETENTION_MS
from obs.dashboard import wording
from obs.query.execution.limits import Limits
from obs.times import DAY_MS


class Held(NamedTuple):
    """What an organization holds. Sizes are bytes, times milliseconds; `free_bytes` are those of the disk."""

    jobs: int
    runs: int
    oldest_run_at: int | None
    annotations: int
    file_bytes: int
    free_bytes: int


class Row(NamedTuple):
    """A limit with what is used of it; `share` is from 0 to 1, None where nothing adds up."""

    name: str
    limit: str
    used: str
    share: float | None


def rows(limits: Limits, queries: int, held: Held, retention_days: int, now_ms: int) -> list[Row]:
    """All limits; `queries` is how many there were in the last minute."""
    oldest = now_ms if held.oldest_run_at is None else held.oldest_run_at
    annotation_days = RETENTION_MS // DAY_MS
    return [
        Row(
            "Queries in a minute",
            f"{limits.rate_per_minute:,}",
            f"{queries:,} in the last minute",
            queries / limits.rate_per_minute,
        ),
        Row("Rows of an answer", f"{limits.max_rows:,}", "each query by itself", None),
        Row("Bytes that a query reads", wording.size(limits.max_bytes_scanned), "each query by itself", None),
        Row("Time of a query", f"{limits.max_seconds} s", "each query by itself", None),
        Row("Length of a statement", f"{limits.max_length:,} characters", "each query by itself", None),
        Row("Log message", "10 KB", "each message by itself", None),
        Row(
            "Runs are kept",
            f"{retention_days} days",
            _count(held.runs, "run") + (f", the oldest {wording.relative(oldest, now_ms)}" if held.runs else ""),
            min(1.0, max(0, now_ms - oldest) / (retention_days * DAY_MS)),
        ),
        Row("Annotations are kept", f"{annotation_days} days", _count(held.annotations, "annotation"), None),
        Row("Jobs", "no limit", _count(held.jobs, "job"), None),
        Row(
            "Storage",
            f"{wording.size(held.free_bytes)} free on the disk",
            wording.size(held.file_bytes),
            held.file_bytes / max(1, held.file_bytes + held.free_bytes),
        ),
    ]


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
