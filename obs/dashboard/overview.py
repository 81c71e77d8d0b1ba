"""The overview: which jobs it shows, in which order, and in which words. Pure; times are milliseconds."""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from markupsafe import Markup

from obs.dashboard import bars, missed, schedules
from obs.dashboard.bars import Bar
from obs.heartbeat.states import STATES, JobState
from obs.heartbeat.store.jobs import Job

TROUBLE = frozenset(state.value for state in JobState if state.needs_attention)
PAGE_SIZE = 500
_ATTRIBUTION = ("project", "service", "host")


@dataclass(frozen=True, slots=True)
class Row:
    """A job with its last runs, oldest first. `runs_version` changes when they do."""

    job: Job
    runs: tuple[Bar, ...]
    runs_version: int

    @property
    def last_run_at(self) -> int:
        """The start of its last run; its last heartbeat if it has no run."""
        return self.runs[-1].started_at if self.runs else self.job.last_heartbeat_at

    def draw_bars(self, now_ms: int) -> Markup:
        """Its last runs as bars, with gaps where a run was missed."""
        due = schedules.due(self.job)
        if due is None or not self.runs:
            return bars.draw(self.runs)
        counts = missed.before_each(tuple(run.started_at for run in self.runs), due)
        if self.job.overdue:
            counts += (missed.until_now(self.job, now_ms),)
        return bars.draw(self.runs, counts)

    @property
    def version(self) -> str:
        """Changes whenever the row looks different for another reason than the passing of time."""
        return f"{zlib.crc32(repr(self.job).encode(), self.runs_version):x}"


@dataclass(frozen=True, slots=True)
class Choice:
    """The filters, the order and the page that the viewer chose. An empty filter matches everything.

    The fields are the parameters of the query string; `desc` is set for a descending order.
    """

    state: str = ""
    q: str = ""
    project: str = ""
    service: str = ""
    host: str = ""
    sort: str = "state"
    desc: str = ""
    page: int = 1

    def parameters(self, **changes: Any) -> dict[str, Any]:
        """The query string of this choice with some `changes`, without the defaults."""
        values = {**asdict(self), **changes}
        return {name: value for name, value in values.items() if value and value != getattr(_DEFAULT, name)}

    def is_filtered(self) -> bool:
        """Whether a filter is set."""
        return any((self.state, self.q, self.project, self.service, self.host))


_DEFAULT = Choice()


@dataclass(frozen=True, slots=True)
class Overview:
    """A page of the overview. `counts` are by state, of the jobs that match all filters but the one for the state."""

    choice: Choice
    rows: Sequence[Row]
    matching: int
    total: int
    pages: int
    counts: Mapping[str, int]
    in_trouble: int
    values: Mapping[str, Sequence[str]]
    is_learning: bool

    @property
    def headline(self) -> str:
        """How the jobs are doing: ``2 of 25 jobs need attention``."""
        if self.in_trouble:
            if self.total == 1:
                return "The only job needs attention"
            return f"{self.in_trouble} of {self.total:,} jobs need{'s' if self.in_trouble == 1 else ''} attention"
        if self.is_learning:
            if self.total == 1:
                return "1 job, still learning its schedule"
            return f"{self.total:,} jobs, still learning their schedules"
        return "The only job is OK" if self.total == 1 else f"All {self.total:,} jobs are OK"


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


def select(rows: Sequence[Row], choice: Choice) -> Overview:
    """The page of the overview that `choice` asks for."""
    text = choice.q.casefold()
    narrowed = [
        row
        for row in rows
        if _contains(row.job, text)
        and all(getattr(choice, name) in ("", getattr(row.job, name)) for name in _ATTRIBUTION)
    ]
    counts = dict.fromkeys(STATES, 0)
    for row in narrowed:
        counts[row.job.status] += 1
    matching = [row for row in narrowed if not choice.state or row.job.status == choice.state]
    matching.sort(key=SORTS["name"])
    matching.sort(key=SORTS[choice.sort], reverse=bool(choice.desc))
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
        is_learning=all(row.job.status == "new" for row in rows),
        values={
            name: sorted({value for row in rows if (value := getattr(row.job, name)) is not None})
            for name in _ATTRIBUTION
        },
    )


def _contains(job: Job, text: str) -> bool:
    return any(text in value.casefold() for value in (job.name, job.project, job.service, job.host) if value)
