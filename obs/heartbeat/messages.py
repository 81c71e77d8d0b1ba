"""Updating the full-text index of messages in the background, so that no heartbeat waits for it."""

from obs.heartbeat.store import messages
from obs.storage.batches import BACKGROUND_SHARE, in_batches
from obs.storage.databases import Databases

_SECONDS = 20.0
"""The longest time that one call works, so that a burst in one organization does not delay the others."""


def index(databases: Databases, org: str) -> int:
    """Index new messages of `org` for a limited time; returns how many events there were. Raises ServiceError (503)."""
    with databases.read(org) as db:
        if not messages.has_more(db):
            return 0
    return in_batches(databases, org, messages.index, share=BACKGROUND_SHARE, seconds=_SECONDS)
