"""The incidents, and the messages about them, as sources for OQL, which ``source.toml`` describes."""

from obs.alerts.store.incidents import KINDS, VERDICTS
from obs.alerts.store.outbox import KNOWN_SQL, State
from obs.sources import read_source

_HOST_SQL = "coalesce(nullif(incidents.host, ''), attributions.host)"
_PLACE_SQL = "SELECT j.attribution_id FROM jobs AS j WHERE j.id = incidents.job_id"
INCIDENTS = read_source(
    __file__,
    "incidents",
    {
        "job": {"sql": "coalesce(jobs.name, subject)", "join": "jobs"},
        "kind": {"values": KINDS},
        "duration_ms": {"sql": "incidents.ended_at - incidents.started_at"},
        "verdict": {"texts": VERDICTS},
        "host": {"sql": _HOST_SQL, "join": "attributions"},
        **{name: {"sql": f"attributions.{name}", "join": "attributions"} for name in ("service", "project")},
    },
    tables=("incidents", "jobs", "attributions"),
    joins=(
        ("jobs", "LEFT JOIN jobs ON jobs.id = incidents.job_id"),
        ("attributions", f"LEFT JOIN attributions ON attributions.id = ({_PLACE_SQL})"),
    ),
)
DELIVERIES = read_source(__file__, "deliveries", {"state": {"texts": tuple(State)}}, where=KNOWN_SQL)
