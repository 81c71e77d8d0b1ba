"""Writing much without holding the writer for long."""

import math
import sqlite3
import time
from collections.abc import Callable

from obs.storage.databases import Databases

BACKGROUND_SHARE = 0.25
"""What work that nobody waits for takes of the writer's time, so that heartbeats have the rest."""
_LONGEST_HOLD_SECONDS = 0.05
_AIM_SECONDS = _LONGEST_HOLD_SECONDS / 4
_FIRST, _MOST = 10, 5_000


def in_batches(
    databases: Databases,
    org: str,
    step: Callable[[sqlite3.Connection, int], int],
    *,
    share: float = 1.0,
    seconds: float = math.inf,
) -> int:
    """Call ``step(connection, limit)``, each time as a write of its own, until it has done nothing.

    The limit follows the time that the batches take, so that none holds the writer for _LONGEST_HOLD_SECONDS; other
    writes go in between. With a `share` below 1 there are pauses, so that the batches have that part of the writer's
    time, and the instance that is closed ends it. After `seconds` it ends in any case. Returns how many rows it were.
    """
    total, limit = 0, _FIRST
    end = time.monotonic() + seconds

    def unit(db: sqlite3.Connection) -> tuple[int, float]:
        begun = time.perf_counter()
        return step(db, limit), time.perf_counter() - begun

    while True:
        done, held = databases.write(org, unit)
        total += done
        if done == 0 or time.monotonic() >= end:
            return total
        if share < 1 and databases.winding_down.wait(held * (1 / share - 1)):
            return total
        limit = max(1, min(_MOST, int(limit * min(2.0, _AIM_SECONDS / max(held, 1e-6)))))
