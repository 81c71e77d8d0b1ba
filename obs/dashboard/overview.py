"""The jobs of the overview: which are shown, in what order, and what has changed since a page was made. Pure."""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from obs.dashboard import bars, missed, wording
from obs.dashboard.bars import Bar
from obs.heartbeat import pins
from obs.heartbeat.states import STATES
from obs.heartbeat.store.jobs import Job

TROUBLE = ("failed", "lost", "overdue", "overrunning")
PAGE_SIZE = 500


@dataclass(frozen=True, slots=True)
class Row:
    """A job with its last runs, oldest first. `runs_version` changes with them."""

    id: int
    job: Job
    runs: tuple[Bar, ...]
    runs_version: int

    @property
    def last_run_at(self) -> int:
        """The start of its last run; its last heartbeat where it has none."""
        return self.runs[-1].started_at if self.runs else self.job.last_heartbeat_at

    def drawn(self, now_ms: int) -> Markup:
        """Its last runs as bars, with gaps where one was due and did not come."""
        due = missed.due(self.job)
        if due is None or not self.runs:
            return bars.draw(self.runs)
        counts = missed.before_each(tuple(run.started_at for run in self.runs), due)
        if self.job.overdue:
            counts += (missed.since(self.last_run_at, now_ms, due),)
        return bars.draw(self.runs, counts)

    @property
    def version(self) -> str:
        """Changes whenever the row would look different, but for the passing of time."""
        return f"{zlib.crc32(repr(self.job).encode(), self.runs_version):x}"


def schedule(job: Job) -> tuple[str, str]:
    """When it runs, in a few words, and the time zone of that; both empty while that is not known."""
    if job.pin is not None:
        pin = pins.to_dict(job.pin)
        if "cron" in pin:
            return pin["cron"], pin["timezone"]
        seconds = pin.get("interval_seconds")
        return ("never overdue" if seconds is None else wording.interval(seconds * 1000)), ""
    # A schedule at fixed times names their zone; one that counts from the run before is said as an interval.
    if job.learned is not None and job.learned.summary.endswith(f", {job.learned.zone}"):
        return wording.brief(job.learned.summary.removesuffix(f", {job.learned.zone}")), job.learned.zone
    return ("" if job.interval_ms is None else f"about {wording.interval(job.interval_ms)}"), ""


@dataclass(frozen=True, slots=True)
class Choice:
    """What the viewer wants to see. Empty text: everything."""

    state: str = ""
    q: str = ""
    project: str = ""
    service: str = ""
    host: str = ""
    sort: str = "state"
    descending: bool = False
    page: int = 1

    def parameters(self, **changes: Any) -> dict[str, Any]:
        """The query string of this choice with some `changes`; what is as usual is left out."""
        values: dict[str, Any] = {
            "state": self.state,
            "q": self.q,
            "project": self.project,
            "service": self.service,
            "host": self.host,
            "sort": "" if self.sort == "state" else self.sort,
            "desc": "1" if self.descending else "",
            "page": self.page if self.page > 1 else "",
            **changes,
        }
        return {name: value for name, value in values.items() if value}

    def is_filtered(self) -> bool:
        """Whether some jobs are left out."""
        return any((self.state, self.q, self.project, self.service, self.host))


@dataclass(frozen=True, slots=True)
class Overview:
    """A page of the overview. `counts` are by state, of all jobs but for the choice of a state."""

    choice: Choice
    rows: Sequence[Row]
    matching: int
    total: int
    pages: int
    counts: Mapping[str, int]
    in_trouble: int
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)


def _or_last(value: Any) -> tuple[bool, Any]:
    return value is None, value or 0


SORTS: Mapping[str, Callable[[Row], Any]] = {
    "state": lambda row: STATES.index(row.job.status),
    "name": lambda row: row.job.name.casefold(),
    "outcome": lambda row: row.job.last_outcome or "~",
    "last": lambda row: -row.last_run_at,
    "next": lambda row: _or_last(row.job.expected_at),
    "interval": lambda row: _or_last(row.job.interval_ms),
    "duration": lambda row: _or_last(row.job.avg_duration_ms),
    "runs": lambda row: row.job.run_count,
}


def look(rows: Sequence[Row], choice: Choice) -> Overview:
    """The rows that `choice` asks for."""
    wanted = choice.q.casefold()
    narrowed = [
        row
        for row in rows
        if wanted in row.job.name.casefold()
        and (not choice.project or row.job.project == choice.project)
        and (not choice.service or row.job.service == choice.service)
        and (not choice.host or row.job.host == choice.host)
    ]
    counts = dict.fromkeys(STATES, 0)
    for row in narrowed:
        counts[row.job.status] += 1
    matching = [row for row in narrowed if not choice.state or row.job.status == choice.state]
    matching.sort(key=SORTS["name"])
    matching.sort(key=SORTS[choice.sort], reverse=choice.descending)
    pages = max(1, -(-len(matching) // PAGE_SIZE))
    first = (min(choice.page, pages) - 1) * PAGE_SIZE
    return Overview(
        choice=choice,
        rows=matching[first : first + PAGE_SIZE],
        matching=len(matching),
        total=len(rows),
        pages=pages,
        counts=counts,
        in_trouble=sum(row.job.status in TROUBLE for row in rows),
        values={
            name: sorted({value for row in rows if (value := getattr(row.job, name)) is not None})
            for name in ("project", "service", "host")
        },
    )
