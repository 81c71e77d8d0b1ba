"""``obs demo``: an organization with 90 days of plausible data, of a shop, its office and a home."""

import heapq
import sqlite3
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
from obs.alerts.store import incidents as alerts
from obs.annotations import service as annotations
from obs.heartbeat.runs import Heartbeat, Kind, Status
from obs.heartbeat.store.record import Attribution, record
from obs.storage.databases import Org
from obs.sweep import sweep, time_zones
from obs.tenancy import instance, service
from obs.tenancy.auth import Caller, Tenancy
from obs.tenancy.cli import opened
from obs.tenancy.clock import Reading
from obs.times import DAY_MS, HOUR_MS

DAYS = 89
_MISSED_SHARE, _LOST_SHARE = 0.003, 0.0008
_PLACES = {  # by the first part of the name of a job: where it runs, and its time zone
    "shop": (Attribution("web-1", "storefront", "shop"), "UTC"),
    "db": (Attribution("db-1", "database", "shop"), "UTC"),
    "billing": (Attribution("web-2", "billing", "shop"), "Europe/Berlin"),
    "office": (Attribution("office-1", "accounting", "office"), "Europe/Berlin"),
    "home": (Attribution("nas", "storage", "home"), "Europe/Berlin"),
}
_JOBS = {  # when it runs, its usual seconds (0: it only pings), which share of its runs fails, and what it logs
    "shop/heartbeat": ("*/5 * * * *", 0, 0, ""),
    "shop/send-queue": ("*/15 * * * *", 9, 0.006, "sent {} messages"),
    "shop/sync-stock": ("*/30 * * * *", 48, 0.02, "{} items changed"),
    "shop/search-index": ("7 * * * *", 240, 0.006, "indexed {} products"),
    "shop/sitemap": ("40 3 * * *", 35, 0.006, ""),
    "shop/thumbnails": ("20 */2 * * *", 120, 0.006, "{} images"),
    "shop/expire-carts": ("12 */6 * * *", 14, 0.006, ""),
    "db/backup": ("0 2 * * *", 1_320, 0.006, "dumped {} MB"),
    "db/backup-verify": ("30 5 * * 0", 2_460, 0.006, "restored, {} tables match"),
    "db/vacuum": ("15 4 * * *", 360, 0.006, ""),
    "db/replica-lag": ("*/10 * * * *", 0, 0, ""),
    "db/partitions": ("0 1 1 * *", 180, 0.006, ""),
    "billing/invoices": ("0 6 * * 1-5", 660, 0.006, "{} invoices"),
    "billing/dunning": ("30 9 * * 1-5", 95, 0.006, "{} reminders"),
    "billing/bank-import": ("5 8-18 * * 1-5", 26, 0.07, ""),
    "billing/exchange-rates": ("10 16 * * 1-5", 4, 0.006, "{} rates"),
    "office/payroll": ("0 5 28 * *", 1_080, 0.006, ""),
    "office/report-weekly": ("0 7 * * 1", 420, 0.006, ""),
    "office/scan-inbox": ("*/20 7-19 * * 1-5", 11, 0.006, "{} pages"),
    "office/certbot-renew": ("0 */12 * * *", 8, 0.006, "no renewal due"),
    "home/photos": ("30 1 * * *", 960, 0.02, "copied {} files"),
    "home/scrub": ("0 3 * * 6", 18_000, 0.006, "0 errors in {} GB"),
    "home/snapshots": ("0 * * * *", 3, 0.006, ""),
    "home/dyndns": ("*/15 * * * *", 0, 0, ""),
    "home/weather": ("25 * * * *", 2, 0.03, ""),
}
_DISRUPTIONS = (  # from and to (days before now), how the names of the jobs begin, what they do or log, and why
    (61.4, 60.7, "home/", "", "Power outage at home"),
    (44.1, 43.9, "shop/s", "error: the supplier responded with 404", "The supplier's API moved"),
    (18.6, 17.3, "billing/bank-import", "error: the bank responded with 503", "The bank's API was down"),
    (9.3, 9.05, "db/", "", "The database server was replaced"),
    (1.3, 0.0, "home/photos", "error: no space left on device", ""),
    (0.4, 0.0, "home/dyndns", "", ""),
)
_RELEASES = (82.3, 68.2, 52.2, 33.2, 26.4, 12.2, 5.2)  # of the shop (days before now); the fourth makes jobs slow


@click.command("demo")
@click.option("--org", default="demo", show_default=True, help="The name of the organization.")
def demo(org: str, folder: Path) -> None:
    """Create an organization with 90 days of plausible data, and print a link to sign in.

    25 jobs with different schedules, with failures, silences, a slow week after a deploy, and annotations.
    """
    settings = config.load(folder)
    with opened(folder, create=True) as tenancy:
        if tenancy.keyring.organization(org) is not None:
            raise click.ClickException(f"There is already an organization {org}. Choose another name with --org.")
        with service.filled_organization(tenancy, org) as filled:
            tenancy.databases.migrate(filled, creates=True)
            _fill(tenancy, filled, tenancy.clock(), time_zones(str(settings["TIME_ZONES"])))
        token = service.create_sign_in_link(tenancy, org)
    click.echo(f"{org} has {len(_JOBS)} jobs. Their heartbeats end now, so they will become overdue.", err=True)
    click.echo("Sign in once, within 24 hours, while obs serve is running:", err=True)
    click.echo(f"{instance.base_url(settings)}/sign-in/{token}")


def _fill(tenancy: Tenancy, org: Org, now_ms: int, zones: Sequence[str]) -> None:
    """Record all heartbeats in the order of time; sweep in the middle of each disruption until its incidents end."""
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
    with click.progressbar(parts, length=len(times), label="90 days", show_eta=False) as bar:
        for end, sent in bar:
            tenancy.databases.write(org, partial(_record, list(sent)))
            if has_incidents or end in middles or end == now_ms:
                sweep(tenancy.databases, org, Reading(end), zones)
                with tenancy.databases.read(org) as db:
                    has_incidents = bool(alerts.open_incidents(db))


def _record(sent: Sequence[tuple[str, Heartbeat]], db: sqlite3.Connection) -> None:
    for job, heartbeat in sent:
        record(db, job, heartbeat, _PLACES[job.partition("/")[0]][0], None, heartbeat.time)


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
