"""Annotations past the retention are deleted; nobody has seen them since the moment they got there."""

from obs.annotations import store
from obs.storage.batches import BACKGROUND_SHARE, in_batches
from obs.storage.databases import Databases


def purge(databases: Databases, org: str, now_ms: int) -> int:
    """Delete the annotations of `org` that are past the retention at `now_ms` (milliseconds since the epoch).

    Returns how many they were. Other writes go in between. Raises ServiceError (503) when the file is busy, full or
    unusable; what was deleted until then stays deleted.
    """
    return in_batches(
        databases, org, lambda db, limit: store.delete_past_retention(db, now_ms, limit), share=BACKGROUND_SHARE
    )
