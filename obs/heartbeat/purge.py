"""Heartbeats past their retention are deleted; jobs stay, so that one that fell silent is still seen."""

from obs.heartbeat.store import expectations
from obs.storage.batches import delete_in_batches
from obs.storage.databases import Databases
from obs.times import DAY_MS


def purge(databases: Databases, org: str, now_ms: int, retention_days: int) -> int:
    """Delete the events and runs of `org` that are older than `retention_days`; returns how many rows there were."""
    cutoff = now_ms - retention_days * DAY_MS
    events = delete_in_batches(databases, org, lambda db, limit: expectations.delete_events_before(db, cutoff, limit))
    runs = delete_in_batches(databases, org, lambda db, limit: expectations.delete_runs_before(db, cutoff, limit))
    return events + runs
