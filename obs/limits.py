"""The limits of an organization and how much of each is used: for the API and the settings page."""

import marshmallow as ma

from obs.annotations.store import count_annotations
from obs.api import Blueprint, Schema
from obs.heartbeat.store.jobs import count_jobs
from obs.tenancy.auth import Caller, caller, operation

blp = Blueprint("limits", __name__, url_prefix="/api/v1", description="Limits of the organization.")


class LimitSchema(Schema):
    """A limit, and how much of it is used: null for a limit that applies to each query."""

    value = ma.fields.Int(metadata={"example": 10_000})
    used = ma.fields.Int(allow_none=True, metadata={"example": 25})


class LimitsSchema(Schema):
    limits = ma.fields.Dict(keys=ma.fields.Str(metadata={"example": "max_jobs"}), values=ma.fields.Nested(LimitSchema))


def limits(caller: Caller) -> dict[str, dict[str, int | None]]:
    """The `value` of each limit of the caller's organization, and how much is `used`. Raises ServiceError (503)."""
    rates = ("max_heartbeats_per_minute", "query_rate_per_minute")
    used = {name: caller.quotas.rates.used((caller.org, name), caller.now_ms) for name in rates}
    with caller.read() as db:
        used |= {
            "max_jobs": count_jobs(db),
            "max_annotations": count_annotations(db),
            "max_stored_bytes": caller.databases.used_bytes(caller.org),
        }
    return {name: {"value": value, "used": used.get(name)} for name, value in caller.quotas.limits(caller.org).items()}


@operation(blp, "GET /limits", "query:read", LimitsSchema)
def list_limits() -> dict[str, object]:
    """List the organization's limits

    An operator can change them with `obs org set-limit`.
    """
    return {"limits": limits(caller())}
