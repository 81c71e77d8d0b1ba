"""Which organizations the sweep has to look at, and when."""

import threading
from collections.abc import Iterable


class SweepQueue:
    """The organizations that are due for a sweep: those with changes, and those where a time limit is reached.

    Safe to use from any thread. Times are milliseconds since the epoch.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed: set[str] = set()
        self._due_at: dict[str, int | None] = {}

    def note(self, org: str) -> None:
        """Note that something has changed in `org`: a heartbeat, or what a user has set."""
        with self._lock:
            self._changed.add(org)

    def take(self, orgs: Iterable[str], now_ms: int) -> list[str]:
        """Take those of `orgs` that are due. Organizations that were never swept, or whose last sweep failed, are."""
        orgs = list(orgs)
        with self._lock:
            changed, self._changed = self._changed, set()
            due = [org for org in orgs if org in changed or self._is_due(org, now_ms)]
            # Until `swept` is called an organization stays due: its file may be locked at the moment.
            for org in (self._due_at.keys() - set(orgs)) | set(due):
                self._due_at.pop(org, None)
        return due

    def swept(self, org: str, due_at: int | None) -> None:
        """Note that `org` was swept and is due again at `due_at`; None for not before something changes."""
        with self._lock:
            self._due_at[org] = due_at

    def _is_due(self, org: str, now_ms: int) -> bool:
        if org not in self._due_at:
            return True
        due_at = self._due_at[org]
        return due_at is not None and due_at <= now_ms
