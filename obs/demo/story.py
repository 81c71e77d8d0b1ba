"""The heartbeats of the demo in the order of time. Pure; times are milliseconds since the epoch."""

import heapq
from collections.abc import Iterator
from datetime import datetime
from random import Random
from typing import NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim

from obs.demo.jobs import DISRUPTIONS, JOBS, SLOW, DemoJob
from obs.heartbeat.runs import Heartbeat, Kind, Status
from obs.times import DAY_MS, SECOND_MS

DAYS = 89
_MISSED_SHARE = 0.003
_LOST_SHARE = 0.0008


class Sent(NamedTuple):
    """A heartbeat that a job sends at `time`."""

    time: int
    job: DemoJob
    heartbeat: Heartbeat


def heartbeats(now_ms: int) -> Iterator[Sent]:
    """All heartbeats of DAYS days up to now; always the same for the same `now_ms`."""
    each = (_of_job(job, now_ms, Random(job.name)) for job in JOBS)  # noqa: S311 - nothing secret
    return heapq.merge(*each, key=lambda sent: sent.time)


def middles_of_disruptions(now_ms: int) -> list[int]:
    """When to sweep so that past disruptions have incidents: in the middle of each."""
    return sorted({round(now_ms - (one.begins + one.ends) / 2 * DAY_MS) for one in DISRUPTIONS})


def _of_job(job: DemoJob, now_ms: int, random: Random) -> Iterator[Sent]:
    zone = ZoneInfo(job.zone)
    for slot in CronSim(job.cron, datetime.fromtimestamp((now_ms - DAYS * DAY_MS) / 1000, zone)):
        at = round(slot.timestamp() * 1000) + round(random.uniform(0.5, 9) * SECOND_MS)
        if at > now_ms:
            return
        ago = (now_ms - at) / DAY_MS
        disruptions = [one for one in DISRUPTIONS if job.name in one.jobs and one.begins >= ago > one.ends]
        if any(one.silent for one in disruptions) or random.random() < _MISSED_SHARE:
            continue
        yield from _run(job, at, now_ms, bool(disruptions) or random.random() < job.failure_share, random)


def _run(job: DemoJob, at: int, now_ms: int, fails: bool, random: Random) -> Iterator[Sent]:
    if job.typical_ms is None:
        yield Sent(at, job, Heartbeat(Kind.PING, at))
        return
    begins, ends, factor, project = SLOW
    slower = factor if job.at.project == project and begins >= (now_ms - at) / DAY_MS > ends else 1
    taken = round(job.typical_ms * slower * random.lognormvariate(0, 0.16) * (0.4 if fails else 1))
    yield Sent(at, job, Heartbeat(Kind.START, at))
    for place, line in enumerate(job.lines, start=1):
        logged = at + taken * place // (len(job.lines) + 1)
        if logged <= now_ms and not fails:
            yield Sent(logged, job, Heartbeat(Kind.LOG, logged, message=line.format(n=random.randint(3, 900))))
    ended = at + taken
    if ended > now_ms or random.random() < _LOST_SHARE:
        return
    status, code = (Status.FAILED, random.choice((1, 1, 2, 75))) if fails else (Status.SUCCESS, 0)
    message = job.error if fails else None
    yield Sent(ended, job, Heartbeat(Kind.END, ended, status=status, exit_code=code, message=message))
