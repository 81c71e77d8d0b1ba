"""The annotations as a source for OQL, which ``source.toml`` describes."""

from obs.sources import read_source
from obs.times import DAY_MS

RETENTION_MS = 90 * DAY_MS  # after its end, or after its start where it has no end
LAST_MOMENT_SQL = "coalesce(annotations.end_time, annotations.start_time)"
_DURATION = {"sql": "annotations.end_time - annotations.start_time"}
_KEPT_SQL = f"{LAST_MOMENT_SQL} >= :now - {RETENTION_MS}"
ANNOTATIONS = read_source(__file__, "annotations", {"duration_ms": _DURATION}, where=_KEPT_SQL)
