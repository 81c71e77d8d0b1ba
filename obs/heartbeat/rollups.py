"""Rolling up the runs of past hours and days in the background, in small writes."""

import secrets
import time
from functools import partial

from obs.heartbeat.store import rollups
from obs.heartbeat.store.rollups import Unit
from obs.storage.databases import BACKGROUND_SHARE, Databases, Org, in_batches
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS

SETTLED_MS = 15 * MINUTE_MS
"""An hour is rolled up this long after its end, because until then many of its runs may still end."""
_SECONDS = 2.0
"""The longest time that one call works, so that one organization's years do not delay the others."""


def roll_up(databases: Databases, org: Org, now_ms: int, retention_days: int) -> int:
    """Roll up past hours of `org`, then days whose hours are all rolled up, the latest first, for a limited time.

    Returns how many. Hours before the retention are left alone. Raises ServiceError (503).
    """
    oldest = max(0, (now_ms - retention_days * DAY_MS) // HOUR_MS)
    end = time.monotonic() + _SECONDS
    with databases.read(org) as db:
        hours = rollups.hours_to_roll_up(db, oldest, (now_ms - SETTLED_MS) // HOUR_MS)
    done = _all(databases, org, Unit.HOUR, hours, end)
    with databases.read(org) as db:
        days = rollups.days_to_roll_up(db)
    _all(databases, org, Unit.DAY, days, end)
    if (hours or days) and time.monotonic() < end:
        in_batches(databases, org, lambda db, limit: rollups.forget_before(db, oldest, limit), share=BACKGROUND_SHARE)
    return done


def _all(databases: Databases, org: Org, unit: Unit, numbers: list[int], end: float) -> int:
    """Roll up hours or days until the time `end` of time.monotonic(); returns how many."""
    done = 0
    for number in numbers:
        if time.monotonic() >= end:
            break
        attempt = secrets.randbits(62)
        databases.write(org, partial(rollups.note_attempt, unit=unit, number=number, attempt=attempt))
        with databases.read(org) as db:
            counted = rollups.read(db, unit, number)
        if counted is not None:
            done += databases.write(org, partial(rollups.keep, counted=counted, attempt=attempt))
    return done
