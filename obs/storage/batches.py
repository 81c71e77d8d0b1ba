"""Large changes in small transactions, so that other writes do not have to wait."""

import math
import sqlite3
import time
from collections.abc import Callable

from obs.storage.databases import Databases
from obs.storage.org import Org

BACKGROUND_SHARE = 0.25
"""The share of the writer's time that background work may use; the rest is for heartbeats."""
_LONGEST_SECONDS = 0.05
_AIM_SECONDS = _LONGEST_SECONDS / 4
_FIRST, _MOST = 10, 5_000  # rows in a batch


def in_batches(
    databases: Databases,
    org: Org,
    step: Callable[[sqlite3.Connection, int], int],
    *,
    share: float = 1.0,
    seconds: float = math.inf,
) -> int:
    """Call ``step(connection, limit)`` in one transaction after another until it returns 0; returns the sum.

    `step` changes at most `limit` rows and returns how many it changed. The limit adapts to the time that the batches
    take, so that none blocks other writes for _LONGEST_SECONDS. With a `share` below 1 there are pauses, so that the
    batches use that share of the writer's time, and the work stops when the instance is about to close. It also stops
    after `seconds`.
    """
    total, limit = 0, _FIRST
    end = time.monotonic() + seconds

    def unit(db: sqlite3.Connection) -> tuple[int, float]:
        started = time.perf_counter()
        return step(db, limit), time.perf_counter() - started

    while True:
        changed, seconds_taken = databases.write(org, unit)
        total += changed
        if changed == 0 or time.monotonic() >= end:
            return total
        if share < 1 and databases.winding_down.wait(seconds_taken * (1 / share - 1)):
            return total
        limit = max(1, min(_MOST, int(limit * min(2.0, _AIM_SECONDS / max(seconds_taken, 1e-6)))))
