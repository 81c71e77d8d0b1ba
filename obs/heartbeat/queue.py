"""Which organizations the sweep has to look at, and when."""

import threading
from collections.abc import Iterable

from obs.storage.org import Org


class SweepQueue:
    """The organizations that are due for a sweep: those with changes, and those where a time limit is reached.

    Safe to use from any thread. Times are milliseconds since the epoch.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed: set[Org] = set()
        self._due_at: dict[Org, int | None] = {}
        self._notes = 0

    def note(self, org: Org) -> None:
        """Note that something has changed in `org`: a heartbeat, or what a user has set."""
        with self._lock:
            self._changed.add(org)
            self._notes += 1

    def count(self) -> int:
        """How many changes were noted since the last call."""
        with self._lock:
            notes, self._notes = self._notes, 0
        return notes

    def take(self, orgs: Iterable[Org], now_ms: int) -> list[Org]:
        """Take those of `orgs` that are due. Organizations that were never swept, or whose last sweep failed, are."""
        orgs = list(orgs)
        with self._lock:
            changed, self._changed = self._changed, set()
            due_at = {org: 0 if org in changed else self._due_at.get(org, 0) for org in orgs}
            due = [org for org, moment in due_at.items() if moment is not None and moment <= now_ms]
            # Until `swept` is called an organization stays due: its file may be locked at the moment.
            for org in (self._due_at.keys() - set(orgs)) | set(due):
                self._due_at.pop(org, None)
        return due

    def swept(self, org: Org, due_at: int | None) -> None:
        """Note that `org` was swept and is due again at `due_at`; None for not before something changes."""
        with self._lock:
            self._due_at[org] = due_at
