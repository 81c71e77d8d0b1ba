"""Projects with their services and hosts."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from flask import Blueprint, render_template
from flask.typing import ResponseReturnValue

from obs.dashboard.sessions import viewer
from obs.heartbeat.runs import STATES, TROUBLE
from obs.heartbeat.store import jobs as job_store
from obs.heartbeat.store.jobs import Job

blp = Blueprint("projects", __name__, url_prefix="/projects")
_MOST_JOBS = 100_000


@blp.get("")
def page() -> ResponseReturnValue:
    """One row per project, which opens to show its services and hosts."""
    caller = viewer()
    with caller.read() as db:
        jobs = job_store.jobs(db, caller.now_ms, after=None, limit=_MOST_JOBS)
    return render_template("projects.html", projects=roll_up(jobs), states=STATES)


@dataclass(slots=True)
class Part:
    """A project, a service or a host with the number of its jobs by state. A job may have None of each."""

    name: str | None
    states: Counter[str] = field(default_factory=Counter)
    services: dict[str | None, "Part"] = field(default_factory=dict)
    hosts: dict[str | None, "Part"] = field(default_factory=dict)

    @property
    def trouble(self) -> int:
        """How many of its jobs need attention."""
        return sum(self.states[state] for state in TROUBLE)


def roll_up(jobs: Iterable[Job]) -> list[Part]:
    """Jobs by project: the projects with the most trouble first, then by name; jobs without a project come last."""
    projects: dict[str | None, Part] = {}
    for job in jobs:
        project = projects.setdefault(job.project, Part(job.project))
        service = project.services.setdefault(job.service, Part(job.service))
        host = project.hosts.setdefault(job.host, Part(job.host))
        for part in (project, service, host):
            part.states[job.status] += 1
    return sorted(projects.values(), key=lambda one: (one.name is None, -one.trouble, (one.name or "").casefold()))
