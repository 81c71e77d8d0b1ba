"""Troubles with organizations' files: said in the log when they begin, change and end, and not at every request."""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from obs.errors import ServiceError

REPEAT_SECONDS = 600.0
SETTLE_SECONDS = 30.0
_WORDS = frozenset({"storage_busy", "storage_full", "storage_unavailable"})
_log = logging.getLogger(__name__)


class _Trouble(NamedTuple):
    word: str
    said_at: float


class Troubles:
    """What is wrong with which organization's file just now. Safe to use from any thread.

    `doing` is ``read`` or ``write``: on a full disk one works and the other does not. `path` tells where the file of an
    organization is; `monotonic` gives seconds that only ever grow.
    """

    def __init__(self, path: Callable[[str], Path], monotonic: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], _Trouble] = {}
        self._unusable: set[tuple[str, str]] = set()

    def failed(self, org: str, doing: str, error: ServiceError) -> None:
        """Note that the file of `org` could not be used; an `error` that tells of something else is no trouble."""
        if error.error not in _WORDS:
            return
        now = self._monotonic()
        with self._lock:
            if error.error == "storage_unavailable":
                self._unusable.add((org, doing))
            known = self._known.get((org, doing))
            if known is not None and known.word == error.error and now - known.said_at < REPEAT_SECONDS:
                return
            self._known[org, doing] = _Trouble(error.error, now)
        _log.error("organization %s cannot %s %s: %s", org, doing, self._path(org), error.message)

    def worked(self, org: str, doing: str) -> None:
        """Note that the file of `org` was used; one that was written can be read as well."""
        if not self._known:
            return
        for done in ("write", "read") if doing == "write" else ("read",):
            self._worked(org, done)

    def _worked(self, org: str, doing: str) -> None:
        with self._lock:
            self._unusable.discard((org, doing))
            known = self._known.get((org, doing))
            # One that comes and goes is not said each time.
            if known is None or self._monotonic() - known.said_at < SETTLE_SECONDS:
                return
            del self._known[org, doing]
        _log.warning("organization %s can %s %s again", org, doing, self._path(org))

    def forget(self, org: str) -> None:
        """The organization is gone, or is another one of the same name."""
        with self._lock:
            for doing in ("read", "write"):
                self._known.pop((org, doing), None)
                self._unusable.discard((org, doing))

    def unusable(self) -> set[str]:
        """The organizations whose files somebody has to see to."""
        with self._lock:
            return {org for org, _ in self._unusable}
