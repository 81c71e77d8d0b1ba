"""Quotas: how many jobs, annotations, bytes and heartbeats per minute an organization may have."""

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from obs.config import LIMITS
from obs.errors import ServiceError
from obs.storage.databases import Databases, Org
from obs.storage.disk import DiskSpace
from obs.storage.file import DatabaseFile
from obs.tenancy import audit, store
from obs.tenancy.audit import Action, Actor

_MOST_STORED = 1.25  # heartbeats of existing jobs are recorded up to this multiple of `max_stored_bytes`
_EPISODE_SECONDS = 600.0  # refusals that follow each other within this time are logged once
_SERVICE = Actor("service")
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Usage:
    """The heartbeats in a minute of the monotonic clock, and the stored bytes in proportion to their limit."""

    minute: int
    heartbeats: int = 0
    stored: float = 0.0


class Quotas:
    """The quotas of all organizations, checked in memory. Thread-safe; a count of heartbeats may be a few too low."""

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
        self._monotonic: Callable[[], float] = settings.get("MONOTONIC", time.monotonic)
        self._usage: dict[Org, _Usage] = {}
        self._clock = clock
        self._refused_at: dict[tuple[Org, str], float] = {}
        self._newly_reached: list[tuple[Org, str]] = []
        with control.read() as db:
            self._own = store.own_limits(db)

    def limits(self, org: Org) -> dict[str, int]:
        """All limits of `org`, by the names in `config.LIMITS`."""
        return {**self._defaults, **self._own.get(org.id, {})}

    def take_heartbeats(self, org: Org, count: int) -> bool:
        """Count heartbeats; False if there is no space for their messages. Raises ServiceError (429, 507)."""
        now, most = self._monotonic(), self._limit(org, "max_heartbeats_per_minute")
        usage, minute = self._usage.get(org), int(now // 60)
        if usage is None or usage.minute != minute:
            usage = self._usage[org] = _Usage(minute, stored=self._stored(org) if usage is None else usage.stored)
        usage.heartbeats += count
        if usage.heartbeats > most:
            raise self._exceeded(org, "max_heartbeats_per_minute", "rate_limited", math.ceil(60 - now % 60))
        if usage.stored >= _MOST_STORED:
            raise self._exceeded(org, "max_stored_bytes")
        return usage.stored < 1 and not self.space.is_short

    def check_storage(self, org: Org) -> None:
        """Raise ServiceError (507) when only heartbeats of existing jobs may be stored for `org`."""
        self.space.refuse(self.space.is_short)
        if self._stored(org) >= 1:
            raise self._exceeded(org, "max_stored_bytes")

    def check_new(self, org: Org, name: str, count: int) -> None:
        """Raise ServiceError (507) if `org` may not have another thing, of which it now has `count`."""
        self.check_storage(org)
        if count > self._limit(org, name):
            raise self._exceeded(org, name)

    def heartbeats(self, org: Org) -> int:
        usage = self._usage.get(org)
        return usage.heartbeats if usage is not None and usage.minute == int(self._monotonic() // 60) else 0

    def watch(self) -> None:
        self.space.watch()
        with self._control.read() as db:
            self._own = store.own_limits(db)
        minute = int(self._monotonic() // 60)
        for org, usage in list(self._usage.items()):
            if usage.stored >= 1 or usage.minute >= minute - 1:
                usage.stored = self._stored(org)
            else:
                self._usage.pop(org, None)
        reached, self._newly_reached = self._newly_reached, []
        for org, name in reached:
            _log.warning("organization %s has reached its limit %s of %d", org, name, self._limit(org, name))
            audit.note(self._databases, org, _SERVICE, self._clock(), Action.REACH_LIMIT, name)

    def _limit(self, org: Org, name: str) -> int:
        return self._own.get(org.id, self._defaults).get(name, self._defaults[name])

    def _stored(self, org: Org) -> float:
        most = self._limit(org, "max_stored_bytes")
        try:
            size = self._databases.size(org)
            return (size if size < most else self._databases.used_bytes(org)) / most
        except ServiceError:  # without a usable file: who reads or writes it gets the error
            return 0.0

    def _exceeded(self, org: Org, name: str, error: str = "quota_exceeded", seconds: int | None = None) -> ServiceError:
        self.refusals += 1
        now, most = self._monotonic(), self._limit(org, name)
        if now - self._refused_at.get((org, name), -math.inf) > _EPISODE_SECONDS:
            self._newly_reached.append((org, name))
        self._refused_at[org, name] = now
        return ServiceError(
            error,
            f"The limit of {most} {name.removeprefix('max_').replace('_', ' ')} is reached. Nothing was recorded.",
            hint=f"Raise it with: obs org set-limit {org} {name} VALUE",
            extra={"limit": name, "max": most},
            headers=None if seconds is None else {"Retry-After": str(seconds)},
        )
