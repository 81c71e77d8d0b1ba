"""The limits of an organization and how much of each it uses, in words. Pure."""

from typing import NamedTuple

from obs.annotations.source import RETENTION_MS
from obs.dashboard import wording
from obs.query.execution.limits import Limits
from obs.times import DAY_MS


class Usage(NamedTuple):
    """What an organization stores. Sizes are bytes, times milliseconds; `free_bytes` is the free space of the disk."""

    jobs: int
    runs: int
    oldest_run_at: int | None
    annotations: int
    file_bytes: int
    free_bytes: int


class Row(NamedTuple):
    """A limit and how much of it is used; `share` is from 0 to 1, None where usage does not add up."""

    name: str
    limit: str
    used: str
    share: float | None


def rows(limits: Limits, queries: int, usage: Usage, retention_days: int, now_ms: int) -> list[Row]:
    """All limits; `queries` is the number of queries in the last minute."""
    oldest = now_ms if usage.oldest_run_at is None else usage.oldest_run_at
    annotation_days = RETENTION_MS // DAY_MS
    return [
        Row(
            "Queries per minute",
            f"{limits.rate_per_minute:,}",
            f"{queries:,} in the last minute",
            queries / limits.rate_per_minute,
        ),
        Row("Rows per result", f"{limits.max_rows:,}", "per query", None),
        Row("Bytes scanned per query", wording.size(limits.max_bytes_scanned), "per query", None),
        Row("Query timeout", f"{limits.max_seconds} s", "per query", None),
        Row("Query length", f"{limits.max_length:,} characters", "per query", None),
        Row("Log message", "10 KB", "per message", None),
        Row(
            "Run retention",
            f"{retention_days} days",
            _count(usage.runs, "run") + (f", oldest {wording.relative(oldest, now_ms)}" if usage.runs else ""),
            min(1.0, max(0, now_ms - oldest) / (retention_days * DAY_MS)),
        ),
        Row("Annotation retention", f"{annotation_days} days", _count(usage.annotations, "annotation"), None),
        Row("Jobs", "no limit", _count(usage.jobs, "job"), None),
        Row(
            "Storage",
            f"{wording.size(usage.free_bytes)} free on the disk",
            wording.size(usage.file_bytes),
            usage.file_bytes / max(1, usage.file_bytes + usage.free_bytes),
        ),
    ]


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
