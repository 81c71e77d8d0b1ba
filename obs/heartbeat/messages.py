"""Keeping the full-text index of messages: after the heartbeats, so that none waits for it."""

from obs.heartbeat.store import messages
from obs.storage.batches import delete_in_batches as in_batches
from obs.storage.databases import Databases


def index(databases: Databases, org: str) -> int:
    """Bring the index of `org` up to date; returns how many events it had not seen."""
    with databases.read(org) as db:
        if not messages.has_more(db):
            return 0
    return in_batches(databases, org, messages.index)
