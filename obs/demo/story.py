"""What the jobs of the demonstration send in the order of time. Pure; times are milliseconds since the epoch."""

import heapq
from collections.abc import Iterator
from datetime import datetime
from random import Random
from typing import NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim

from obs.demo.jobs import JOBS, SLOW, TROUBLES, DemoJob
from obs.heartbeat.runs import Heartbeat, Kind, Status
from obs.times import DAY_MS, SECOND_MS

DAYS = 89
_MISSED_SHARE = 0.003
_LOST_SHARE = 0.0008


class Beat(NamedTuple):
    """A heartbeat of a job."""

    time: int
    job: DemoJob
    heartbeat: Heartbeat


def tell(now_ms: int) -> Iterator[Beat]:
    """All heartbeats of DAYS days up to now; the same for the same moment."""
    each = (_beats(job, now_ms, Random(job.name)) for job in JOBS)  # noqa: S311 - nothing secret
    return heapq.merge(*each, key=lambda beat: beat.time)


def moments(now_ms: int) -> list[int]:
    """When the service looks, so that past troubles have their incidents: in the middle of each."""
    return sorted({round(now_ms - (trouble.begins + trouble.ends) / 2 * DAY_MS) for trouble in TROUBLES})


def _beats(job: DemoJob, now_ms: int, random: Random) -> Iterator[Beat]:
    zone = ZoneInfo(job.zone)
    for slot in CronSim(job.cron, datetime.fromtimestamp((now_ms - DAYS * DAY_MS) / 1000, zone)):
        at = round(slot.timestamp() * 1000) + round(random.uniform(0.5, 9) * SECOND_MS)
        if at > now_ms:
            return
        ago = (now_ms - at) / DAY_MS
        troubles = [one for one in TROUBLES if job.name in one.jobs and one.begins >= ago > one.ends]
        if any(one.silent for one in troubles) or random.random() < _MISSED_SHARE:
            continue
        yield from _run(job, at, now_ms, bool(troubles) or random.random() < job.failure_share, random)


def _run(job: DemoJob, at: int, now_ms: int, fails: bool, random: Random) -> Iterator[Beat]:
    if job.typical_ms is None:
        yield Beat(at, job, Heartbeat(Kind.PING, at))
        return
    begins, ends, factor, project = SLOW
    slower = factor if job.at.project == project and begins >= (now_ms - at) / DAY_MS > ends else 1
    taken = round(job.typical_ms * slower * random.lognormvariate(0, 0.16) * (0.4 if fails else 1))
    yield Beat(at, job, Heartbeat(Kind.START, at))
    for place, line in enumerate(job.lines, start=1):
        said = at + taken * place // (len(job.lines) + 1)
        if said <= now_ms and not fails:
            yield Beat(said, job, Heartbeat(Kind.LOG, said, message=line.format(n=random.randint(3, 900))))
    ended = at + taken
    if ended > now_ms or random.random() < _LOST_SHARE:
        return
    status, code = (Status.FAILED, random.choice((1, 1, 2, 75))) if fails else (Status.SUCCESS, 0)
    message = job.trouble if fails else None
    yield Beat(ended, job, Heartbeat(Kind.END, ended, status=status, exit_code=code, message=message))
