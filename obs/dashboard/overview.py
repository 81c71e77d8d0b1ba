"""The overview of jobs, kept in memory: a request reads only the jobs that any process has changed since."""

import math
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count
from typing import Any

from obs.api import PLACE, normalized
from obs.dashboard import store
from obs.heartbeat.runs import STATES, TROUBLE
from obs.heartbeat.store.jobs import Job, jobs_by_id
from obs.tenancy.auth import Caller
from obs.times import MINUTE_MS

PAGE_SIZE = 100
_MOST_EVENTS = 100_000  # to read; reading all jobs is faster then
_versions = count(time.time_ns())  # different from those before a restart


def version(*shown: object) -> str:
    """Changes with what is shown, such as a job, for another reason than the passing of time."""
    return f"{zlib.crc32(repr(shown).encode()):x}"


@dataclass(frozen=True, slots=True)
class Choice:
    state: str = ""
    q: str = ""
    project: str = ""
    service: str = ""
    host: str = ""
    sort: str = "state"
    desc: str = ""
    page: int = 1

    def parameters(self, **changes: Any) -> dict[str, Any]:
        values = {**asdict(self), **changes}
        return {name: value for name, value in values.items() if value and value != getattr(_DEFAULT, name)}


@dataclass(frozen=True, slots=True)
class Overview:
    """`counts` are of the jobs that match all filters but the one for the state, `states` of all jobs; by state."""

    choice: Choice
    version: int
    jobs: Sequence[Job]
    pages: int
    matching: int
    counts: Mapping[str, int]
    states: Mapping[str, int]
    everything: Sequence[Job]

    @property
    def in_trouble(self) -> int:
        return sum(self.states.get(state, 0) for state in TROUBLE)

    @property
    def values(self) -> Mapping[str, Sequence[str]]:
        return {name: sorted({getattr(job, name) or "" for job in self.everything} - {""}) for name in reversed(PLACE)}


_DEFAULT = Choice()
_PLACES = {state: place for place, state in enumerate(STATES)}
SORTS: Mapping[str, Callable[[Job], float | None]] = {
    "state": lambda job: _PLACES[job.status],
    "name": lambda _: 0,
    "last": lambda job: -job.last_run_at,
    "next": lambda job: None if job.paused else job.expected_at,
    "interval": lambda job: job.interval_ms,
    "duration": lambda job: job.avg_duration_ms,
    "runs": lambda job: job.run_count,
}


def select(choice: Choice, jobs: Iterable[Job]) -> tuple[list[int], Counter[str]]:
    """The ids of the jobs that match all filters, in order; how many match all but the state's, by state."""
    text, sort_key = normalized(choice.q).casefold(), SORTS[choice.sort]
    conditions = [(name, value) for name in PLACE if (value := getattr(choice, name))]
    narrowed = [job for job in jobs if all(getattr(job, name) == value for name, value in conditions)]
    if text:
        shown = ("name", *PLACE)
        narrowed = [job for job in narrowed if text in "\n".join(getattr(job, one) or "" for one in shown).casefold()]

    def key(job: Job) -> tuple[float, str, int]:
        number = math.inf if (found := sort_key(job)) is None else found
        return (-number if choice.desc else number), job.name.casefold(), job.id

    keys = sorted(key(job) for job in narrowed if choice.state in ("", job.status))
    ids = [number for *_, number in (reversed(keys) if choice.desc and choice.sort == "name" else keys)]
    return ids, Counter(job.status for job in narrowed)


class JobsOfOrg:
    """All jobs of an organization. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[int, Job] = {}
        self._position: store.Position | None = None
        self._now_ms = self._next_ms = 0
        self._version = 0

    def show(self, caller: Caller, choice: Choice | None = None) -> Overview:
        """The page that `choice` asks for, or the nearest one; no jobs without a choice. Raises ServiceError (503)."""
        with self._lock:
            self._refresh(caller)
            ids, counts = ([], Counter[str]()) if choice is None else select(choice, self._jobs.values())
            states = Counter(job.status for job in self._jobs.values())
            pages = max(1, -(-len(ids) // PAGE_SIZE))
            choice = replace(choice or _DEFAULT, page=min(max(1, choice.page if choice else 1), pages))
            shown = ids[(choice.page - 1) * PAGE_SIZE : choice.page * PAGE_SIZE]
            found = (pages, len(ids), counts, states, [*self._jobs.values()])
            return Overview(choice, self._version, [self._jobs[one] for one in shown], *found)

    def _refresh(self, caller: Caller) -> None:
        now_ms = caller.now_ms
        is_set_back = now_ms < self._now_ms - MINUTE_MS
        with caller.read() as db:
            known = None if is_set_back else self._position
            self._position = None  # after an error, all jobs are read again
            position = store.position(db)
            ids = None
            if known and known[2] == position[2] and 0 <= position[0] - known[0] <= _MOST_EVENTS:
                ids = store.changed_jobs(db, known) if position != known else set()
                if now_ms >= self._next_ms:
                    ids |= {job.id for job in self._jobs.values() if job.changes_at <= now_ms}
            found = jobs_by_id(db, ids, now_ms) if ids is None or ids else {}
        if ids is None or ids:
            kept = {} if ids is None else {number: job for number, job in self._jobs.items() if number not in ids}
            self._jobs = kept | found
            self._version = next(_versions)
            self._next_ms = min((job.changes_at for job in self._jobs.values()), default=0)
        self._position, self._now_ms = position, now_ms
