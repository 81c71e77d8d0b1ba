"""The annotations that are laid over a chart."""

import sqlite3

from obs.annotations import store
from obs.annotations.rules import Annotation
from obs.dashboard.charts import Mark

MOST = 200


def between(db: sqlite3.Connection, start: int | None, end: int | None, now_ms: int, prefix: str = "") -> list[Mark]:
    """The latest annotations of a range, newest start first; milliseconds since the epoch."""
    selection = store.Selection(start=start, end=end, name_prefix=prefix)
    found, _ = store.page(db, selection, now_ms, MOST)
    return [of(one) for one in found]


def for_job(db: sqlite3.Connection, start: int, end: int, now_ms: int, job: str) -> list[Mark]:
    """The same for one job: without the incidents of other jobs, which the service annotates by itself."""
    found, _ = store.page(db, store.Selection(start=start, end=end), now_ms, MOST)
    return [of(one) for one in found if not one.by_service or one.name == f"incident/{job}"]


def of(annotation: Annotation) -> Mark:
    """What a chart shows of an annotation."""
    return Mark(annotation.name, annotation.title, annotation.start_time, annotation.end_time)
