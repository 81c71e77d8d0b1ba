"""The jobs of organizations whose overview somebody looks at, in memory: a request reads only what has changed.

Nothing has to be notified: the file itself tells which jobs have changed, whichever process changed them.
"""

import threading
import time
from dataclasses import replace
from functools import lru_cache
from itertools import count

from obs.dashboard import store
from obs.dashboard.overview import Choice, Overview, Selection
from obs.heartbeat.store import jobs as job_store
from obs.heartbeat.store.jobs import Job
from obs.tenancy.auth import Caller
from obs.times import MINUTE_MS

_MOST_ORGANIZATIONS = 16
_MOST_CHOICES = 8  # of an organization
_MOST_EVENTS = 100_000  # to read; reading all jobs is faster then
_versions = count(time.time_ns())  # different from those before a restart


class Overviews:
    """The jobs of the organizations that were looked at last."""

    def __init__(self) -> None:
        self.of = lru_cache(maxsize=_MOST_ORGANIZATIONS)(lambda org: JobsOfOrg())


class JobsOfOrg:
    """All jobs of an organization, and the choices that were made last, with their jobs in order. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[int, Job] = {}
        self._selections: dict[Choice, Selection] = {}
        self._position: store.Position | None = None
        self._now_ms = self._next_ms = 0
        self._version = 0

    def show(self, caller: Caller, choice: Choice, known_version: str = "") -> Overview | None:
        """The page of the overview that `choice` asks for; None if its version is `known_version`.

        Raises ServiceError (503).
        """
        with self._lock:
            self._refresh(caller)
            if known_version == str(self._version):
                return None
            everything, selection = self._select(Choice()), self._select(replace(choice, page=1))
            return Overview(
                choice=choice,
                version=self._version,
                jobs=[self._jobs[number] for number in selection.page(choice.page)],
                matching=len(selection),
                counts=dict(selection.counts),
                states=dict(everything.counts),
                everything=list(self._jobs.values()),
            )

    def _select(self, choice: Choice) -> Selection:
        if choice not in self._selections:
            if len(self._selections) > _MOST_CHOICES:
                self._selections.clear()
            self._selections[choice] = Selection(choice, self._jobs.values())
        return self._selections[choice]

    def _refresh(self, caller: Caller) -> None:
        """Read the jobs that have changed since the last call; all of them where that is not known."""
        now_ms = caller.now_ms
        is_set_back = now_ms < self._now_ms - MINUTE_MS
        with caller.read() as db:
            known, self._position = self._position, None  # after an error, all jobs are read again
            position = store.position(db)
            ids = None
            if (
                known is not None
                and not is_set_back
                and known[2] == position[2]
                and 0 <= position[0] - known[0] <= _MOST_EVENTS
            ):
                ids = store.changed_jobs(db, known) if position != known else set()
                if now_ms >= self._next_ms:
                    ids |= {job.id for job in self._jobs.values() if job.changes_at <= now_ms}
            found = job_store.jobs_by_id(db, ids, now_ms) if ids is None or ids else {}
        if ids is None:
            self._jobs, self._selections = found, {}
        for number in ids or ():
            old, new = self._jobs.pop(number, None), found.get(number)
            if new is not None:
                self._jobs[number] = new
            for selection in self._selections.values():
                selection.replace(old, new)
        if ids is None or ids:
            self._version = next(_versions)
            self._next_ms = min((job.changes_at for job in self._jobs.values()), default=0)
        self._position, self._now_ms = position, now_ms
