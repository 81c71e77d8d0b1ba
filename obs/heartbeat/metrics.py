"""The jobs of an organization as metrics in the Prometheus text format. Pure."""

from collections.abc import Callable, Iterable
from operator import attrgetter

from obs.heartbeat.runs import OUTCOMES, TROUBLE
from obs.heartbeat.store.jobs import Job

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_METRICS: tuple[tuple[str, str, str, Callable[[Job], float | None]], ...] = (
    ("up", "gauge", "0 if the job is failed, lost, overdue or overrunning.", lambda job: job.status not in TROUBLE),
    ("overdue", "gauge", "1 if the job is overdue.", lambda job: job.overdue),
    ("last_success_timestamp_seconds", "gauge", "Time of the last success.", lambda job: job.last_success_at),
    ("last_duration_seconds", "gauge", "Duration of the last run that had one.", lambda job: job.last_duration_ms),
)


def text(jobs: Iterable[Job]) -> str:
    """The metrics of `jobs`. Written by hand: prometheus_client takes eight times as long for thousands of jobs."""
    labelled = [(_labels(job), job) for job in jobs]
    lines = []
    for name, kind, about, value in _METRICS:
        lines += [f"# HELP obs_job_{name} {about}", f"# TYPE obs_job_{name} {kind}"]
        unit = 1000 if name.endswith("_seconds") else 1
        found = ((labels, value(job)) for labels, job in labelled)
        lines += [f"obs_job_{name}{{{labels}}} {number / unit}" for labels, number in found if number is not None]
    lines += ["# HELP obs_job_runs_total Runs that ended or were lost.", "# TYPE obs_job_runs_total counter"]
    for status in OUTCOMES:
        numbers = attrgetter(f"{status}_count")
        lines += [f'obs_job_runs_total{{{labels},status="{status}"}} {numbers(job)}' for labels, job in labelled]
    return "\n".join([*lines, ""])


def _labels(job: Job) -> str:
    labels = {"job": job.name, "host": job.host, "service": job.service, "project": job.project}
    return ",".join(f'{label}="{(value or "").translate(_ESCAPES)}"' for label, value in labels.items())
