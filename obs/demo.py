"""``obs demo``: an organization with 90 days of plausible data, of a shop, its office and a home."""

import heapq
import math
import sqlite3
import sys
import tomllib
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from random import Random
from zoneinfo import ZoneInfo

import click
from cronsim import CronSim

from obs import config
from obs.alerts.service import AlertService
from obs.alerts.store import incidents
from obs.annotations import service as annotations
from obs.heartbeat.runs import Heartbeat, Kind, Status
from obs.heartbeat.store.record import Attribution, JobHeartbeat, record
from obs.storage.databases import Org
from obs.sweep import sweep, time_zones
from obs.tenancy import instance, service
from obs.tenancy.auth import Caller
from obs.tenancy.cli import opened
from obs.tenancy.clock import Reading
from obs.times import DAY_MS, HOUR_MS

DAYS = 89
_MISSED_SHARE, _LOST_SHARE = 0.003, 0.0008
_DEMO = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_JOBS, _RELEASES = _DEMO["jobs"], _DEMO["releases"]
_PLACES = {part: (Attribution(*place), zone) for part, (*place, zone) in _DEMO["places"].items()}
_DISRUPTIONS = [(*each["days"], each["jobs"], each["error"], each["annotation"]) for each in _DEMO["disruptions"]]


@click.command("demo")
@click.option("--org", default="demo", show_default=True, help="The name of the organization.")
def demo(org: str, folder: Path) -> None:
    """Create an organization with 90 days of plausible data, and print a link to sign in.

    25 jobs with different schedules, with failures, silences, a slow week after a deploy, and annotations.
    """
    settings = config.load(folder)
    with opened(folder, create=True) as tenancy:
        with service.filled_organization(tenancy, org) as filled:
            tenancy.databases.create(filled)
            _fill(AlertService(tenancy), filled, tenancy.clock(), time_zones(str(settings["TIME_ZONES"])))
        token = service.create_sign_in_link(tenancy, org)
    click.echo(f"{org} has {len(_JOBS)} jobs. Their heartbeats end now, so they will become overdue.", err=True)
    click.echo("Sign in once, within 24 hours, while obs serve is running:", err=True)
    click.echo(f"{instance.base_url(settings)}/sign-in/{token}")


def _fill(alerts: AlertService, org: Org, now_ms: int, zones: Sequence[str]) -> None:
    """Record all heartbeats in the order of time; sweep in the middle of each disruption until its incidents end."""
    tenancy = alerts.tenancy
    deploys = [(ago, None, "deploy/shop", f"Shop 4.{number} released") for number, ago in enumerate(_RELEASES)]
    known = [(begins, ends, "incident/report", why) for begins, ends, _, _, why in _DISRUPTIONS if why]
    for begins, ends, name, title in (*deploys, *known):
        start, end = now_ms - round(begins * DAY_MS), ends and now_ms - round(ends * DAY_MS)
        caller = Caller(org, 0, frozenset({"admin"}), start, tenancy)
        annotations.create(caller, {"name": name, "title": title, "start_time": start, "end_time": end})
    middles = {round(now_ms - (begins + ends) / 2 * DAY_MS) for begins, ends, *_ in _DISRUPTIONS}
    times = sorted({*middles, *range(now_ms, now_ms - DAYS * DAY_MS, -3 * HOUR_MS)})
    parts = groupby(heartbeats(now_ms), key=lambda sent: times[bisect_left(times, sent[1].time)])
    has_incidents = False
    with click.progressbar(parts, length=len(times), label="90 days", show_eta=False, file=sys.stderr) as bar:
        for end, sent in bar:
            tenancy.databases.write(org, partial(_record, list(sent)))
            if has_incidents or end in middles or end == now_ms:
                sweep(alerts, org, Reading(end), zones, lambda _: [], math.inf)
                has_incidents = bool(tenancy.databases.fetch(org, incidents.open_incidents))


def _record(sent: Sequence[tuple[str, Heartbeat]], db: sqlite3.Connection) -> None:
    for job, heartbeat in sent:
        record(db, JobHeartbeat(job, heartbeat, _PLACES[job.partition("/")[0]][0]), heartbeat.time)


def heartbeats(now_ms: int) -> Iterator[tuple[str, Heartbeat]]:
    """All heartbeats of DAYS days up to now, with their jobs; always the same for the same `now_ms`."""
    return heapq.merge(*(_of_job(job, now_ms) for job in _JOBS), key=lambda sent: sent[1].time)


def _of_job(job: str, now_ms: int) -> Iterator[tuple[str, Heartbeat]]:
    (cron, seconds, failing_share, line), (at, zone) = _JOBS[job], _PLACES[job.partition("/")[0]]
    random = Random(job)  # noqa: S311 - nothing secret
    for slot in CronSim(cron, datetime.fromtimestamp((now_ms - DAYS * DAY_MS) / 1000, ZoneInfo(zone))):
        time = round(slot.timestamp() * 1000 + random.uniform(500, 9_000))
        ago = (now_ms - time) / DAY_MS
        if ago < 0:
            return
        problems = [does for start, end, jobs, does, _ in _DISRUPTIONS if job.startswith(jobs) and start >= ago > end]
        if "" in problems or random.random() < _MISSED_SHARE:
            continue
        fails = bool(problems) or random.random() < failing_share
        slower = 2.3 if at.project == "shop" and _RELEASES[3] >= ago > _RELEASES[4] else 1
        end = time + round(seconds * 1000 * slower * random.lognormvariate(0, 0.16) * (0.4 if fails else 1))
        sent = [Heartbeat(Kind.START if seconds else Kind.PING, time)]
        if line and not fails:
            sent.append(Heartbeat(Kind.LOG, (time + end) // 2, message=line.format(random.randint(3, 900))))
        if seconds and random.random() >= _LOST_SHARE:
            status, code = (Status.FAILED, random.choice((1, 1, 2, 75))) if fails else (Status.SUCCESS, 0)
            message = [*problems, "error: connection timed out"][0] if fails else None
            sent.append(Heartbeat(Kind.END, end, status=status, exit_code=code, message=message))
        yield from ((job, heartbeat) for heartbeat in sent if heartbeat.time <= now_ms)
