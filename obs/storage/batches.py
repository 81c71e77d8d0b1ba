"""Deleting much without holding the writer for long."""

import sqlite3
import time
from collections.abc import Callable

from obs.storage.databases import Databases

LONGEST_HOLD_SECONDS = 0.05
_AIM_SECONDS = LONGEST_HOLD_SECONDS / 4
_FIRST, _MOST = 100, 5_000


def delete_in_batches(databases: Databases, org: str, delete: Callable[[sqlite3.Connection, int], int]) -> int:
    """Call ``delete(connection, limit)``, each time as a write of its own, until it has deleted nothing.

    The limit follows the time that the batches take, so that none holds the writer for LONGEST_HOLD_SECONDS; other
    writes go in between. Returns how many rows were deleted.
    """
    total, limit = 0, _FIRST

    def unit(db: sqlite3.Connection) -> tuple[int, float]:
        begun = time.perf_counter()
        return delete(db, limit), time.perf_counter() - begun

    while True:
        deleted, seconds = databases.write(org, unit)
        total += deleted
        if deleted == 0:
            return total
        limit = max(1, min(_MOST, int(limit * min(2.0, _AIM_SECONDS / max(seconds, 1e-6)))))
