"""The incidents, and the messages about them, as sources for OQL."""

from obs.alerts.store.incidents import KINDS, VERDICTS
from obs.alerts.store.outbox import KNOWN_SQL, State
from obs.sources import Column, Source, Type, one_of

_DURATION_SQL = "incidents.ended_at - incidents.started_at"
_HOST_SQL = "coalesce(nullif(incidents.host, ''), attributions.host)"
_PLACE_SQL = "SELECT j.attribution_id FROM jobs AS j WHERE j.id = incidents.job_id"
INCIDENTS = Source(
    name="incidents",
    row="an incident",
    time="its start",
    window="LAST 10y, as the time of an incident is its start",
    time_sql="incidents.started_at",
    columns=(
        Column("job", Type.TEXT, "coalesce(jobs.name, subject)", "The job, or the alert and its group.", join="jobs"),
        Column("kind", Type.TEXT, "incidents.kind", f"{one_of(KINDS)}.", values=KINDS),
        Column("ended_at", Type.TIME, "incidents.ended_at", "Its end; null while it is open."),
        Column("duration_ms", Type.DURATION, _DURATION_SQL, "How long it lasted; null while it is open."),
        Column("acknowledged_at", Type.TIME, "incidents.acknowledged_at", "When somebody acknowledged it, or null."),
        Column("acknowledged_by", Type.TEXT, "incidents.acknowledged_by", "Who did."),
        Column("verdict", Type.TEXT, "incidents.verdict", f"{one_of(VERDICTS)}, or null.", texts=VERDICTS),
        Column("value", Type.NUMBER, "incidents.value", "The number with which an alert fired."),
        Column("host", Type.TEXT, _HOST_SQL, "The host that is silent, or that of the job.", join="attributions"),
        Column("service", Type.TEXT, "attributions.service", "The service of the job.", join="attributions"),
        Column("project", Type.TEXT, "attributions.project", "The project of the job.", join="attributions"),
    ),
    tables=("incidents", "jobs", "attributions"),
    joins=(
        ("jobs", "LEFT JOIN jobs ON jobs.id = incidents.job_id"),
        ("attributions", f"LEFT JOIN attributions ON attributions.id = ({_PLACE_SQL})"),
    ),
)

DELIVERIES = Source(
    name="deliveries",
    row="a message to a channel",
    time="when it was created",
    time_sql="deliveries.created_at",
    columns=(
        Column("channel", Type.TEXT, "deliveries.channel", "The name that the channel had then."),
        Column("state", Type.TEXT, "deliveries.state", f"{one_of(list(State))}.", texts=tuple(State)),
        Column("title", Type.TEXT, "deliveries.title", "Its title; null before the first attempt."),
        Column("attempts", Type.INTEGER, "deliveries.attempts", "How often it was tried."),
        Column("sent_at", Type.TIME, "deliveries.sent_at", "When the receiver accepted it; null if it has not."),
        Column("answer", Type.TEXT, "deliveries.answer", "What the receiver answered last."),
    ),
    tables=("deliveries",),
    where=KNOWN_SQL,
)
