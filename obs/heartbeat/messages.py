"""Keeping the full-text index of messages: after the heartbeats, so that none waits for it."""

from obs.heartbeat.store import messages
from obs.storage.batches import BACKGROUND_SHARE, in_batches
from obs.storage.databases import Databases

_SECONDS = 20.0
"""How long one call works, so that a flood of one organization does not keep others waiting."""


def index(databases: Databases, org: str) -> int:
    """Let the index of `org` catch up for a while; how many events were new to it. Raises ServiceError (503)."""
    with databases.read(org) as db:
        if not messages.has_more(db):
            return 0
    return in_batches(databases, org, messages.index, share=BACKGROUND_SHARE, seconds=_SECONDS)
