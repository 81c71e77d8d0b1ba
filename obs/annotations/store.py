"""Annotations in the organization's file. No function returns one past the retention. All times are milliseconds."""

import sqlite3
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from functools import partial

from obs.annotations.rules import Annotation
from obs.annotations.source import LAST_MOMENT_SQL, RETENTION_MS
from obs.errors import existing
from obs.storage.connection import count_rows, delete_oldest, delete_row, save_row
from obs.times import MAX_MS

_SELECT = f"SELECT {', '.join(field.name for field in fields(Annotation))} FROM annotations"
_MAX_ID = 2**63 - 1  # of a row in SQLite
_OF_JOB = "updated_at = ?2 WHERE by_service AND name = 'incident/' || ?1"


def find(db: sqlite3.Connection, annotation_id: int, now_ms: int) -> Annotation:
    """The annotation with this id. Raises ServiceError (404)."""
    kept = f"{_SELECT} WHERE id = ? AND {LAST_MOMENT_SQL} >= ?"
    rows = db.execute(kept, (annotation_id, now_ms - RETENTION_MS)) if annotation_id <= _MAX_ID else ()
    return existing("annotation", annotation_id, map(_annotation, rows))


def page(
    db: sqlite3.Connection,
    now_ms: int,
    *,
    limit: int,
    after: tuple[int, int] | None = None,
    start: int | None = None,
    end: int | None = None,
    by_service: bool | None = None,
    name_prefix: str = "",
    q: str = "",
) -> list[Annotation]:
    """Up to `limit` annotations after `after` = (start_time, id): the newest start comes first, then the highest id.

    The range includes both ends; `q` is in the title. None is no limit.
    """
    before_time, before_id = min((MAX_MS if end is None else end, _MAX_ID), after or (MAX_MS, _MAX_ID))
    values = {"name_prefix": name_prefix, "by_service": by_service, "text": _folded(q), "limit": limit}
    values |= {"before_time": before_time, "before_id": before_id, "oldest": max(now_ms - RETENTION_MS, start or 0)}
    chosen = (
        "(start_time, id) < (:before_time, :before_id) AND instr(name, :name_prefix) = 1"
        " AND (:by_service IS NULL OR by_service = :by_service)"
    )
    if q:  # only then: SQLite compiles all statements of the connection again
        db.create_function("text_holds", 2, lambda text, part: part in _folded(text), deterministic=True)
        chosen += " AND text_holds(title, :text)"
    rows = db.execute(  # two scans of an index by start_time: what starts inside the range, and bands from before it
        f"{_SELECT} WHERE start_time >= :oldest AND {chosen}"
        f" UNION ALL {_SELECT} WHERE start_time < :oldest AND end_time IS NOT NULL AND end_time >= :oldest AND {chosen}"
        " ORDER BY start_time DESC, id DESC LIMIT :limit",
        values,
    )
    return [_annotation(row) for row in rows]


def prefixes(db: sqlite3.Connection, now_ms: int) -> list[tuple[str, int]]:
    names = f"SELECT name, count(*) FROM annotations WHERE {LAST_MOMENT_SQL} >= ? GROUP BY name"
    counts: Counter[str] = Counter()
    for name, count in db.execute(names, (now_ms - RETENTION_MS,)):
        counts["".join(name.partition("/")[:2])] += count
    return sorted(counts.items())


def add(db: sqlite3.Connection, new: Annotation) -> tuple[Annotation, bool]:
    """Store `new`; returns it and True, or the annotation that has its idempotency_key already, and False."""
    same_key = (new.idempotency_key, new.created_at - RETENTION_MS)  # none has the key NULL
    db.execute(f"DELETE FROM annotations WHERE idempotency_key = ? AND {LAST_MOMENT_SQL} < ?", same_key)
    for row in db.execute(f"{_SELECT} WHERE idempotency_key = ?", same_key[:1]):
        return _annotation(row), False
    return replace(new, id=save(db, values=asdict(new))), True


def correct_times(db: sqlite3.Connection, correction: Mapping[str, int]) -> None:
    """Correct the times of annotations that a wrong clock recorded. See `obs.heartbeat.store.upkeep.correct_times`."""
    last = (
        "SELECT max(id) FROM annotations"
        " WHERE (created_at <= :start_ms OR created_at > :end_ms) AND created_at < :now_ms - 60000"
    )
    is_wrong = f"(created_at > :start_ms AND created_at <= :end_ms AND id > coalesce(({last}), 0))"
    moved = ", ".join(  # not what was in the future when it was sent: somebody has chosen it
        f"{time} = CASE WHEN {time} <= updated_at AND ({time} > :latest_ms OR {time} > :start_ms AND {is_wrong})"
        f" THEN min({time} + :step_ms, :latest_ms) ELSE {time} END"
        for time in ("start_time", "end_time", "created_at", "updated_at")
    )
    db.execute(f"UPDATE annotations SET {moved} WHERE updated_at > :latest_ms OR {is_wrong}", correction)


def rename_incidents(db: sqlite3.Connection, job: str, now_ms: int, new_name: str) -> None:
    """Rename the bands of a job's incidents. Their titles begin with its name."""
    title = "?3 || substr(title, 1 + length(?1))"
    db.execute(f"UPDATE annotations SET name = 'incident/' || ?3, title = {title}, {_OF_JOB}", (job, now_ms, new_name))


def end_incidents(db: sqlite3.Connection, job: str, now_ms: int) -> None:
    db.execute(f"UPDATE annotations SET end_time = max(start_time, ?2), {_OF_JOB} AND end_time IS NULL", (job, now_ms))


_IS_OLD = f"{LAST_MOMENT_SQL} < :cutoff - {RETENTION_MS}"
count_annotations = partial(count_rows, table="annotations")
save = partial(save_row, table="annotations")
delete = partial(delete_row, table="annotations")
delete_past_retention = partial(delete_oldest, table="annotations", time=LAST_MOMENT_SQL, condition=_IS_OLD)


def _annotation(row: sqlite3.Row) -> Annotation:
    return Annotation(**{**dict(row), "by_service": bool(row["by_service"])})


def _folded(text: str) -> str:
    """`text` without differences of case and of how accents are composed."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())
