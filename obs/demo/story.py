"""The demo: a shop, its office and a home, and their heartbeats in the order of time. Pure; times are milliseconds."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from random import Random
from zoneinfo import ZoneInfo

from cronsim import CronSim

from obs.heartbeat.runs import Heartbeat, Kind, Status
from obs.heartbeat.store.record import Attribution
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

DAYS = 89
_MISSED_SHARE = 0.003
_LOST_SHARE = 0.0008


@dataclass(frozen=True, slots=True)
class DemoJob:
    """A job: when it runs, how long it takes (None: it only pings), how often it fails, what it logs."""

    name: str
    cron: str
    typical_ms: int | None
    at: Attribution
    zone: str = "UTC"
    failure_share: float = 0.006
    lines: tuple[str, ...] = ()
    error: str = "error: exit status 1"


_WEB = Attribution("web-1", "storefront", "shop")
_DB = Attribution("db-1", "database", "shop")
_PAY = Attribution("web-2", "billing", "shop")
_OFFICE = Attribution("office-1", "accounting", "office")
_NAS = Attribution("nas", "storage", "home")
_PI = Attribution("pi", "house", "home")
_BANK_DOWN = "error: the bank responded with 503"

JOBS = (
    DemoJob("shop/heartbeat", "*/5 * * * *", None, _WEB),
    DemoJob("shop/send-queue", "*/15 * * * *", 9 * SECOND_MS, _WEB, lines=("sent {n} messages",)),
    DemoJob("shop/sync-stock", "*/30 * * * *", 48 * SECOND_MS, _WEB, failure_share=0.02, lines=("{n} items changed",)),
    DemoJob("shop/search-index", "7 * * * *", 4 * MINUTE_MS, _WEB, lines=("indexed {n} products",)),
    DemoJob("shop/sitemap", "40 3 * * *", 35 * SECOND_MS, _WEB),
    DemoJob("shop/thumbnails", "20 */2 * * *", 2 * MINUTE_MS, _WEB, lines=("{n} images",)),
    DemoJob("shop/expire-carts", "12 */6 * * *", 14 * SECOND_MS, _WEB),
    DemoJob("db/backup", "0 2 * * *", 22 * MINUTE_MS, _DB, lines=("dumped {n} MB", "uploaded to nas")),
    DemoJob("db/backup-verify", "30 5 * * 0", 41 * MINUTE_MS, _DB, lines=("restored, {n} tables match",)),
    DemoJob("db/vacuum", "15 4 * * *", 6 * MINUTE_MS, _DB),
    DemoJob("db/replica-lag", "*/10 * * * *", None, _DB),
    DemoJob("db/partitions", "0 1 1 * *", 3 * MINUTE_MS, _DB),
    DemoJob("billing/invoices", "0 6 * * 1-5", 11 * MINUTE_MS, _PAY, "Europe/Berlin", lines=("{n} invoices",)),
    DemoJob("billing/dunning", "30 9 * * 1-5", 95 * SECOND_MS, _PAY, "Europe/Berlin", lines=("{n} reminders",)),
    DemoJob("billing/bank-import", "5 8-18 * * 1-5", 26 * SECOND_MS, _PAY, "Europe/Berlin", 0.07, error=_BANK_DOWN),
    DemoJob("billing/exchange-rates", "10 16 * * 1-5", 4 * SECOND_MS, _PAY, "Europe/Berlin", lines=("{n} rates",)),
    DemoJob("office/payroll", "0 5 28 * *", 18 * MINUTE_MS, _OFFICE, "Europe/Berlin"),
    DemoJob("office/report-weekly", "0 7 * * 1", 7 * MINUTE_MS, _OFFICE, "Europe/Berlin"),
    DemoJob("office/scan-inbox", "*/20 7-19 * * 1-5", 11 * SECOND_MS, _OFFICE, "Europe/Berlin", lines=("{n} pages",)),
    DemoJob("office/certbot-renew", "0 */12 * * *", 8 * SECOND_MS, _OFFICE, lines=("no renewal due",)),
    DemoJob("home/photos", "30 1 * * *", 16 * MINUTE_MS, _NAS, "Europe/Berlin", 0.02, ("copied {n} files",)),
    DemoJob("home/scrub", "0 3 * * 6", 5 * HOUR_MS, _NAS, "Europe/Berlin", lines=("0 errors in {n} GB",)),
    DemoJob("home/snapshots", "0 * * * *", 3 * SECOND_MS, _NAS),
    DemoJob("home/dyndns", "*/15 * * * *", None, _PI),
    DemoJob("home/weather", "25 * * * *", 2 * SECOND_MS, _PI, "UTC", 0.03, error="error: could not resolve host"),
)

SLOW = (33.2, 26.4, 2.3, "shop")  # from and to (days before now), how much slower jobs are, of which project
DISRUPTIONS = (  # from and to (days before now), which jobs are silent or fail, and whether they are silent
    (61.4, 60.7, ("home/photos", "home/scrub", "home/snapshots"), True),
    (44.1, 43.9, ("shop/sync-stock", "shop/search-index"), False),
    (18.6, 17.3, ("billing/bank-import",), False),
    (9.3, 9.05, ("db/replica-lag", "db/vacuum"), True),
    (1.3, 0.0, ("home/photos",), False),
    (0.4, 0.0, ("home/dyndns",), True),
)

NOTES = (  # from and to (days before now), name and title
    (82.3, None, "deploy/shop", "Shop 3.8 released"),
    (68.2, None, "deploy/shop", "Shop 3.9 released"),
    (61.4, 60.7, "incident/nas", "Power outage at the drive"),
    (52.2, None, "deploy/billing", "Billing 1.14 released"),
    (44.1, 43.9, "incident/stock", "The supplier's API moved"),
    (33.2, None, "deploy/shop", "Shop 4.0 released"),
    (30.4, 30.3, "migration/orders", "Orders partitioned by month"),
    (26.4, None, "deploy/shop", "Shop 4.0.1 released: adds the missing index"),
    (18.6, 17.3, "incident/bank", "The bank's API was down"),
    (12.2, None, "deploy/billing", "Billing 1.15 released"),
    (5.2, None, "deploy/shop", "Shop 4.1 released"),
)


def heartbeats(now_ms: int) -> Iterator[tuple[DemoJob, Heartbeat]]:
    """All heartbeats of DAYS days up to now; always the same for the same `now_ms`."""
    each = (_of_job(job, now_ms, Random(job.name)) for job in JOBS)  # noqa: S311 - nothing secret
    return heapq.merge(*each, key=lambda sent: sent[1].time)


def _of_job(job: DemoJob, now_ms: int, random: Random) -> Iterator[tuple[DemoJob, Heartbeat]]:
    zone = ZoneInfo(job.zone)
    for slot in CronSim(job.cron, datetime.fromtimestamp((now_ms - DAYS * DAY_MS) / 1000, zone)):
        at = round(slot.timestamp() * 1000) + round(random.uniform(0.5, 9) * SECOND_MS)
        if at > now_ms:
            return
        ago = (now_ms - at) / DAY_MS
        silent = [silent for begins, ends, jobs, silent in DISRUPTIONS if job.name in jobs and begins >= ago > ends]
        if any(silent) or random.random() < _MISSED_SHARE:
            continue
        for heartbeat in _run(job, at, now_ms, bool(silent) or random.random() < job.failure_share, random):
            if heartbeat.time <= now_ms:
                yield job, heartbeat


def _run(job: DemoJob, at: int, now_ms: int, fails: bool, random: Random) -> Iterator[Heartbeat]:
    if job.typical_ms is None:
        yield Heartbeat(Kind.PING, at)
        return
    begins, ends, factor, project = SLOW
    slower = factor if job.at.project == project and begins >= (now_ms - at) / DAY_MS > ends else 1
    taken = round(job.typical_ms * slower * random.lognormvariate(0, 0.16) * (0.4 if fails else 1))
    yield Heartbeat(Kind.START, at)
    for place, line in enumerate(() if fails else job.lines, start=1):
        logged = at + taken * place // (len(job.lines) + 1)
        yield Heartbeat(Kind.LOG, logged, message=line.format(n=random.randint(3, 900)))
    if random.random() >= _LOST_SHARE:
        status, code = (Status.FAILED, random.choice((1, 1, 2, 75))) if fails else (Status.SUCCESS, 0)
        message = job.error if fails else None
        yield Heartbeat(Kind.END, at + taken, status=status, exit_code=code, message=message)
