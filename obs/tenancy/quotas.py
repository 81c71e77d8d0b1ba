"""Quotas: how many jobs, annotations, bytes and heartbeats per minute an organization may have. Rates per minute."""

import logging
import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from flask import Response, after_this_request

from obs.config import LIMITS
from obs.errors import ServiceError
from obs.storage.databases import Databases, Org
from obs.storage.disk import DiskSpace
from obs.storage.file import DatabaseFile
from obs.tenancy import audit, store
from obs.times import MINUTE_MS

_MOST_STORED = 1.25  # heartbeats of existing jobs are recorded up to this multiple of `max_stored_bytes`
_EPISODE_MS = 10 * MINUTE_MS  # refusals that follow each other within this time are one event
_MOST_SUBJECTS = 10_000
MANY_PER_SECOND = 500  # heartbeats: as many as 30,000 jobs that run every minute send
_BUSY_SHARE = 0.1  # of its time, which each background task works while there are so many
_LONGEST_PAUSE_SECONDS = 2.0  # work that pauses by itself, such as the purge, would pause for very long
_log = logging.getLogger(__name__)


class PerMinute:
    """Counts what each subject does in a minute, and forgets the subjects that were idle for longest. Thread-safe."""

    def __init__(self) -> None:
        self._counts: OrderedDict[Hashable, tuple[int, int]] = OrderedDict()  # the minute, and the count in it
        self._lock = threading.Lock()

    def used(self, subject: Hashable, now_ms: int) -> int:
        minute, count = self._counts.get(subject, (0, 0))
        return count if minute == now_ms // MINUTE_MS else 0

    def add(self, subject: Hashable, count: int, now_ms: int) -> int:
        """Add to the count of `subject` in this minute, and return it."""
        with self._lock:
            used = self.used(subject, now_ms) + count
            self._counts[subject] = now_ms // MINUTE_MS, used
            self._counts.move_to_end(subject)
            if len(self._counts) > _MOST_SUBJECTS:
                self._counts.popitem(last=False)
        return used

    def take(self, subject: Hashable, limit: int, now_ms: int) -> None:
        """Count the current request of Flask (see `count`), and add the headers to its response."""
        headers = self.count(subject, limit, now_ms, "requests")

        @after_this_request
        def add_headers(response: Response) -> Response:
            response.headers.update(headers)
            return response

    def count(self, subject: Hashable, limit: int, now_ms: int, what: str) -> Mapping[str, str]:
        """Count `subject`, which is allowed `limit` times per minute; returns the ``RateLimit-*`` headers.

        Raises ServiceError (429) with Retry-After when the limit is reached. `what` is what it limits.
        """
        used = self.add(subject, 1, now_ms)
        headers = rate_headers(used, limit, now_ms)
        if used > limit:
            message, hint = f"The limit is {limit} {what} per minute.", f"Try again in {headers['Retry-After']} s."
            raise ServiceError("rate_limited", message, hint=hint, headers=headers)
        return headers


def rate_headers(used: int, limit: int, now_ms: int) -> dict[str, str]:
    """The ``RateLimit-*`` headers of a response, and beyond the limit Retry-After: when the next minute begins."""
    seconds = math.ceil((MINUTE_MS - now_ms % MINUTE_MS) / 1000)
    numbers = {"RateLimit-Limit": limit, "RateLimit-Remaining": max(0, limit - used), "RateLimit-Reset": seconds}
    numbers |= {"Retry-After": seconds} if used > limit else {}
    return {name: str(number) for name, number in numbers.items()}


@dataclass(eq=False)
class Quotas:
    """The quotas of all organizations, checked in memory. Thread-safe."""

    control: DatabaseFile
    databases: Databases
    space: DiskSpace
    settings: Mapping[str, Any]
    clock: Callable[[], int]

    def __post_init__(self) -> None:
        self.refusals, self._monotonic = 0, self.settings.get("MONOTONIC", time.monotonic)
        self._latest = deque[float](maxlen=MANY_PER_SECOND)  # when the latest heartbeats arrived
        self.rates = PerMinute()  # what organizations do, by the organization and the name of the limit
        self._attempts = PerMinute()
        self._defaults = {name: int(self.settings[name.upper()]) for name in LIMITS}
        self._stored: dict[Org, float] = {}  # the stored bytes in proportion to their limit
        self._refused_at: dict[tuple[Org, str], int] = {}
        self._reached: list[tuple[Org, str]] = []  # to be noted: who reaches a limit may be in a transaction
        self.watch()

    def limits(self, org: Org) -> Mapping[str, int]:
        """All limits of `org`, by the names in `config.LIMITS`."""
        return self._limits.get(org.id, self._defaults)

    def count_attempt(self, who: str, what: str = "wrong keys and links from one address", addresses: int = 1) -> None:
        """Count `what` of an address, or of as many. Raises ServiceError (429) when there were too many."""
        self._attempts.count((who, what), addresses * self.settings["WRONG_KEYS_PER_MINUTE"], self.clock(), what)

    def take_heartbeats(self, org: Org, count: int) -> bool:
        """Count heartbeats; False if there is no space for their messages. Raises ServiceError (429, 507)."""
        self._latest.append(self._monotonic())
        now_ms, rate = self.clock(), "max_heartbeats_per_minute"
        used, most = self.rates.add((org, rate), count, now_ms), self.limits(org)[rate]
        if used > most:
            raise self._exceeded(org, rate, "rate_limited", headers=rate_headers(used, most, now_ms))
        if (stored := self._stored.get(org)) is None:
            stored = self._stored[org] = self._measure(org)
        if stored >= _MOST_STORED:
            raise self._exceeded(org, "max_stored_bytes")
        return stored < 1 and not self.space.is_short

    def pause_seconds(self, worked_seconds: float) -> float:
        """How long background work pauses after so long, so that the interpreter is left to many heartbeats."""
        is_busy = len(self._latest) == MANY_PER_SECOND and self._monotonic() < self._latest[0] + 1
        return min(worked_seconds * (1 / _BUSY_SHARE - 1), _LONGEST_PAUSE_SECONDS) if is_busy else 0.0

    def check_storage(self, org: Org) -> None:
        """Raise ServiceError (507) when only heartbeats of existing jobs may be stored for `org`."""
        self.space.refuse(self.space.is_short)
        if self._measure(org) >= 1:
            raise self._exceeded(org, "max_stored_bytes")

    def check_new(self, org: Org, name: str, count: int) -> None:
        """Raise ServiceError (507) if `org` may not have another thing, of which it now has `count`."""
        self.check_storage(org)
        if count > self.limits(org)[name]:
            raise self._exceeded(org, name)

    def watch(self) -> None:
        self.space.watch()
        own = self.control.fetch(store.own_limits)
        self._limits = {org_id: {**self._defaults, **limits} for org_id, limits in own.items()}
        now_ms = self.clock()
        while self._reached:
            org, name = self._reached.pop(0)
            audit.note(self.databases, org, audit.SERVICE, now_ms, audit.Action.REACH_LIMIT, name)
        for org, stored in list(self._stored.items()):
            if stored >= 1 or self.rates.used((org, "max_heartbeats_per_minute"), now_ms):
                self._stored[org] = self._measure(org)
            else:
                self._stored.pop(org, None)

    def _measure(self, org: Org) -> float:
        most = self.limits(org)["max_stored_bytes"]
        try:
            size = self.databases.path(org).stat().st_size  # without the write-ahead log
            return (size if size < most else self.databases.used_bytes(org)) / most
        except (ServiceError, OSError):  # without a usable file: who reads or writes it gets the error
            return 0.0

    def _exceeded(self, org: Org, name: str, error: str = "quota_exceeded", **more: Any) -> ServiceError:
        self.refusals += 1
        now_ms, most = self.clock(), self.limits(org)[name]
        if abs(now_ms - self._refused_at.get((org, name), 0)) > _EPISODE_MS:
            _log.warning("organization %s has reached its limit %s of %d", org, name, most)
            self._reached.append((org, name))
        self._refused_at[org, name] = now_ms
        message = f"The limit of {most} {name.removeprefix('max_').replace('_', ' ')} is reached. Nothing was recorded."
        hint, extra = f"Raise it with: obs org set-limit {org} {name} VALUE", {"limit": name, "max": most}
        return ServiceError(error, message, hint=hint, extra=extra, **more)
