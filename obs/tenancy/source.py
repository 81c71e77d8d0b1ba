"""The audit log as a source for OQL."""

from obs.sources import Column, Source, Type
from obs.tenancy.audit import Action

AUDIT = Source(
    name="audit",
    row="an entry of the audit log (only for admins)",
    time="when it happened",
    table="audit",
    time_sql="audit.time",
    columns=(
        Column("action", Type.TEXT, "audit.action", "What was done.", texts=tuple(Action)),
        Column("actor", Type.TEXT, "audit.actor", "Who did it: a key with its label, a session, or `command line`."),
        Column("object", Type.TEXT, "audit.object", "What it was done to, such as the name of a job."),
        Column("address", Type.TEXT, "audit.address", "The IP address of the client."),
    ),
    tables=("audit",),
    admin_only=True,
)
