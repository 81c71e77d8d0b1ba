"""Quotas: how many jobs, annotations, bytes and heartbeats per minute an organization may have."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from obs.config import LIMITS
from obs.errors import ServiceError
from obs.storage.databases import Databases, Org
from obs.storage.disk import DiskSpace
from obs.storage.file import DatabaseFile
from obs.tenancy import store
from obs.tenancy.rate import PerMinute, seconds_left
from obs.times import MINUTE_MS

_MOST_STORED = 1.25  # heartbeats of existing jobs are recorded up to this multiple of `max_stored_bytes`
_EPISODE_MS = 10 * MINUTE_MS  # refusals that follow each other within this time are logged once
_log = logging.getLogger(__name__)


class Quotas:
    """The quotas of all organizations, checked in memory. Thread-safe."""

    def __init__(
        self,
        control: DatabaseFile,
        databases: Databases,
        space: DiskSpace,
        settings: Mapping[str, Any],
        clock: Callable[[], int],
    ) -> None:
        self.space = space
        self.refusals = 0
        self._control = control
        self._databases = databases
        self._defaults = {name: int(settings[name.upper()]) for name in LIMITS}
        self.rates = PerMinute()
        """What organizations do, by the organization and the name of the limit."""
        self._clock = clock
        self._stored: dict[Org, float] = {}  # the stored bytes in proportion to their limit
        self._refused_at: dict[tuple[Org, str], int] = {}
        with control.read() as db:
            self._own = store.own_limits(db)

    def limits(self, org: Org) -> dict[str, int]:
        """All limits of `org`, by the names in `config.LIMITS`."""
        return {**self._defaults, **self._own.get(org.id, {})}

    def take_heartbeats(self, org: Org, count: int) -> bool:
        """Count heartbeats; False if there is no space for their messages. Raises ServiceError (429, 507)."""
        now_ms, rate = self._clock(), "max_heartbeats_per_minute"
        if self.rates.add((org, rate), count, now_ms) > self._limit(org, rate):
            raise self._exceeded(org, rate, "rate_limited", seconds_left(now_ms))
        stored = self._stored.get(org)
        if stored is None:
            stored = self._stored[org] = self._measure(org)
        if stored >= _MOST_STORED:
            raise self._exceeded(org, "max_stored_bytes")
        return stored < 1 and not self.space.is_short

    def check_storage(self, org: Org) -> None:
        """Raise ServiceError (507) when only heartbeats of existing jobs may be stored for `org`."""
        self.space.refuse(self.space.is_short)
        if self._measure(org) >= 1:
            raise self._exceeded(org, "max_stored_bytes")

    def check_new(self, org: Org, name: str, count: int) -> None:
        """Raise ServiceError (507) if `org` may not have another thing, of which it now has `count`."""
        self.check_storage(org)
        if count > self._limit(org, name):
            raise self._exceeded(org, name)

    def watch(self) -> None:
        self.space.watch()
        with self._control.read() as db:
            self._own = store.own_limits(db)
        now_ms = self._clock()
        for org, stored in list(self._stored.items()):
            if stored >= 1 or self.rates.used((org, "max_heartbeats_per_minute"), now_ms):
                self._stored[org] = self._measure(org)
            else:
                self._stored.pop(org, None)

    def _limit(self, org: Org, name: str) -> int:
        return self._own.get(org.id, self._defaults).get(name, self._defaults[name])

    def _measure(self, org: Org) -> float:
        most = self._limit(org, "max_stored_bytes")
        try:
            size = self._databases.size(org)
            return (size if size < most else self._databases.used_bytes(org)) / most
        except ServiceError:  # without a usable file: who reads or writes it gets the error
            return 0.0

    def _exceeded(self, org: Org, name: str, error: str = "quota_exceeded", seconds: int | None = None) -> ServiceError:
        self.refusals += 1
        now_ms, most = self._clock(), self._limit(org, name)
        if abs(now_ms - self._refused_at.get((org, name), 0)) > _EPISODE_MS:
            _log.warning("organization %s has reached its limit %s of %d", org, name, most)
        self._refused_at[org, name] = now_ms
        return ServiceError(
            error,
            f"The limit of {most} {name.removeprefix('max_').replace('_', ' ')} is reached. Nothing was recorded.",
            hint=f"Raise it with: obs org set-limit {org} {name} VALUE",
            extra={"limit": name, "max": most},
            headers=None if seconds is None else {"Retry-After": str(seconds)},
        )
