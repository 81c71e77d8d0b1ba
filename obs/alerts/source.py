"""The incidents as a source for OQL."""

from obs.alerts.kinds import KINDS
from obs.sources import Column, Source, Type, one_of

INCIDENTS = Source(
    name="incidents",
    row="an incident",
    time="its start",
    table="incidents",
    time_sql="incidents.started_at",
    columns=(
        Column("job", Type.TEXT, "jobs.name", "The name of the job.", join="jobs"),
        Column("kind", Type.TEXT, "incidents.kind", f"{one_of(KINDS)}.", values=KINDS),
        Column("ended_at", Type.TIME, "incidents.ended_at", "Its end; null while it is open."),
        Column(
            "duration_ms",
            Type.DURATION,
            "incidents.ended_at - incidents.started_at",
            "How long it lasted; null while it is open.",
        ),
        Column("host", Type.TEXT, "attributions.host", "The host of the job.", join="attributions"),
        Column("service", Type.TEXT, "attributions.service", "The service of the job.", join="attributions"),
        Column("project", Type.TEXT, "attributions.project", "The project of the job.", join="attributions"),
    ),
    tables=("incidents", "jobs", "attributions"),
    joins=(
        ("jobs", "JOIN jobs ON jobs.id = incidents.job_id"),
        (
            "attributions",
            "LEFT JOIN attributions ON attributions.id = "
            "(SELECT j.attribution_id FROM jobs AS j WHERE j.id = incidents.job_id)",
        ),
    ),
)
