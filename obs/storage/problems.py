"""Problems with the files of organizations: logged when they begin, change and end, not for every request."""

import logging
import math
import threading
import time
from collections.abc import Callable
from pathlib import Path

from obs.errors import ServiceError
from obs.storage.org import Org

REPEAT_SECONDS = 600.0
"""How often a problem that persists is logged again."""

SETTLE_SECONDS = 30.0
"""A problem stays known this long after it was logged, so that one that comes and goes is not logged each time."""

_ERROR_CODES = frozenset({"storage_busy", "storage_full", "storage_unavailable"})
_log = logging.getLogger(__name__)


class FileProblems:
    """The current problems with the files of organizations. Thread-safe.

    `operation` is ``read`` or ``write``: on a full disk, reading still works. `path` returns the path of an
    organization's file.
    """

    def __init__(self, path: Callable[[Org], Path]) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._logged: dict[tuple[Org, str], tuple[str, float]] = {}
        self._unusable: set[tuple[Org, str]] = set()

    def failed(self, org: Org, operation: str, error: ServiceError) -> None:
        """Record that an operation on the file of `org` failed; other kinds of `error` are ignored."""
        if error.error not in _ERROR_CODES:
            return
        now = time.monotonic()
        with self._lock:
            if error.error == "storage_unavailable":
                self._unusable.add((org, operation))
            logged, logged_at = self._logged.get((org, operation), ("", 0.0))
            if logged == error.error and now - logged_at < REPEAT_SECONDS:
                return
            self._logged[org, operation] = error.error, now
        _log.error("organization %s cannot %s %s: %s", org, operation, self._path(org), error.message)

    def worked(self, org: Org, operation: str) -> None:
        """Record that an operation on the file of `org` succeeded. A file that can be written can also be read."""
        if not self._logged:
            return
        for working in ("write", "read") if operation == "write" else ("read",):
            with self._lock:
                self._unusable.discard((org, working))
                _, logged_at = self._logged.get((org, working), ("", math.inf))
                if time.monotonic() - logged_at < SETTLE_SECONDS:
                    continue
                del self._logged[org, working]
            _log.warning("organization %s can %s %s again", org, working, self._path(org))

    def forget(self, org: Org) -> None:
        """Forget the problems of an organization that was deleted or replaced by one of the same name."""
        with self._lock:
            for operation in ("read", "write"):
                self._logged.pop((org, operation), None)
                self._unusable.discard((org, operation))

    def unusable(self) -> set[Org]:
        """The organizations whose files the operator has to repair."""
        with self._lock:
            return {org for org, _ in self._unusable}
