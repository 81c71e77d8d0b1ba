"""``obs demo``: an organization with 90 days of plausible data."""

import sqlite3
from bisect import bisect_left
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from pathlib import Path

import click

from obs import config
from obs.alerts.store import incidents as alerts
from obs.annotations import service as annotations
from obs.demo import story
from obs.heartbeat.runs import Heartbeat
from obs.heartbeat.store.record import record
from obs.storage.databases import Org
from obs.sweep import sweep, time_zones
from obs.tenancy import instance, service
from obs.tenancy.auth import Caller, Tenancy
from obs.tenancy.cli import opened
from obs.tenancy.clock import Reading
from obs.times import DAY_MS, HOUR_MS

_SWEEP_EVERY_MS = 3 * HOUR_MS


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
    click.echo(
        f"{org} has {len(story.JOBS)} jobs. Their heartbeats end now, so they will become overdue.\n"
        "Sign in once, within 24 hours, while obs serve is running:",
        err=True,
    )
    click.echo(f"{instance.base_url(settings)}/sign-in/{token}")


def _fill(tenancy: Tenancy, org: Org, now_ms: int, zones: Sequence[str]) -> None:
    """Record all heartbeats in the order of time; sweep in the middle of each disruption until its incidents end."""
    _annotate(tenancy, org, now_ms)
    middles = {round(now_ms - (begins + ends) / 2 * DAY_MS) for begins, ends, *_ in story.DISRUPTIONS}
    times = sorted({*middles, *range(now_ms, now_ms - story.DAYS * DAY_MS, -_SWEEP_EVERY_MS)})
    parts = groupby(story.heartbeats(now_ms), key=lambda sent: times[bisect_left(times, sent[1].time)])
    has_incidents = False
    with click.progressbar(parts, length=len(times), label="90 days", show_eta=False) as bar:
        for end, sent in bar:
            tenancy.databases.write(org, partial(_record, list(sent)))
            if has_incidents or end in middles or end == now_ms:
                sweep(tenancy.databases, org, Reading(end), zones)
                with tenancy.databases.read(org) as db:
                    has_incidents = bool(alerts.open_incidents(db))


def _record(sent: Sequence[tuple[story.DemoJob, Heartbeat]], db: sqlite3.Connection) -> None:
    for job, heartbeat in sent:
        record(db, job.name, heartbeat, job.at, None, heartbeat.time)


def _annotate(tenancy: Tenancy, org: Org, now_ms: int) -> None:
    for begins, ends, name, title in story.NOTES:
        start_time = round(now_ms - begins * DAY_MS)
        end_time = None if ends is None else round(now_ms - ends * DAY_MS)
        caller = Caller(org, 0, frozenset({"admin"}), start_time, tenancy)
        annotations.create(caller, {"name": name, "title": title, "start_time": start_time, "end_time": end_time})
