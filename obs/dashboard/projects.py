"""The rollup of jobs into projects, their services and hosts. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from obs.dashboard.overview import TROUBLE
from obs.heartbeat.store.jobs import Job


@dataclass(slots=True)
class Part:
    """A service or a host with its jobs."""

    name: str | None
    states: Counter[str] = field(default_factory=Counter)

    @property
    def trouble(self) -> int:
        """How many of its jobs are in trouble."""
        return sum(self.states[state] for state in TROUBLE)


@dataclass(slots=True)
class Project(Part):
    """A project; None is the name of what belongs to no project, service or host."""

    services: dict[str | None, Part] = field(default_factory=dict)
    hosts: dict[str | None, Part] = field(default_factory=dict)


def roll_up(jobs: Iterable[Job]) -> Sequence[Project]:
    """Projects with the most trouble first, then by name; jobs without a project come last."""
    projects: dict[str | None, Project] = {}
    for job in jobs:
        project = projects.setdefault(job.project, Project(job.project))
        service = project.services.setdefault(job.service, Part(job.service))
        host = project.hosts.setdefault(job.host, Part(job.host))
        for part in (project, service, host):
            part.states[job.status] += 1
    return sorted(projects.values(), key=lambda one: (one.name is None, -one.trouble, (one.name or "").casefold()))
