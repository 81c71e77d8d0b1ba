"""Deleting heartbeats past their retention. Jobs stay, so that a job that fell silent is still seen."""

from obs.heartbeat.store import expectations
from obs.storage.batches import BACKGROUND_SHARE, in_batches
from obs.storage.databases import Databases
from obs.times import DAY_MS


def purge(databases: Databases, org: str, now_ms: int, retention_days: int) -> int:
    """Delete events and runs of `org` older than `retention_days`; returns how many. Raises ServiceError (503)."""
    cutoff = now_ms - retention_days * DAY_MS
    events = in_batches(
        databases,
        org,
        lambda db, limit: expectations.delete_events_before(db, cutoff, limit),
        share=BACKGROUND_SHARE,
    )
    runs = in_batches(
        databases,
        org,
        lambda db, limit: expectations.delete_runs_before(db, cutoff, limit),
        share=BACKGROUND_SHARE,
    )
    return events + runs
