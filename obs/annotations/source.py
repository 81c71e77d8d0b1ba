"""The annotations as a source for OQL."""

from obs.sources import Column, Source, Type
from obs.times import DAY_MS

RETENTION_MS = 90 * DAY_MS  # after its end, or after its start where it has no end
LAST_MOMENT_SQL = "coalesce(annotations.end_time, annotations.start_time)"
_DURATION_SQL = "annotations.end_time - annotations.start_time"

ANNOTATIONS = Source(
    name="annotations",
    row="an annotation",
    time="its start_time",
    time_sql="annotations.start_time",
    columns=(
        Column("id", Type.INTEGER, "annotations.id", "The id of the annotation."),
        Column("name", Type.TEXT, "annotations.name", "The slash-separated label, such as deploy/web."),
        Column("title", Type.TEXT, "annotations.title", "The text shown on the marker."),
        Column("description", Type.TEXT, "annotations.description", "A longer text."),
        Column("url", Type.TEXT, "annotations.url", "Where to read more."),
        Column("end_time", Type.TIME, "annotations.end_time", "Its end; null for a point."),
        Column("duration_ms", Type.DURATION, _DURATION_SQL, "How long it lasted; null for a point."),
    ),
    tables=("annotations",),
    where=f"{LAST_MOMENT_SQL} >= :now - {RETENTION_MS}",
)
