"""``obs demo``: fill an organization with 90 days of believable data."""

import sqlite3
from bisect import bisect_left
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from pathlib import Path

import click

from obs import background, config
from obs.alerts import store as alerts
from obs.annotations import store as annotations
from obs.annotations.rules import Draft
from obs.demo import story
from obs.demo.jobs import JOBS, NOTES
from obs.heartbeat.store import jobs
from obs.heartbeat.store.record import record
from obs.heartbeat.sweep import sweep
from obs.tenancy import instance, service, store
from obs.tenancy.auth import Tenancy
from obs.tenancy.cli import instance_option, opened
from obs.times import DAY_MS, HOUR_MS

_LOOK_AGAIN_MS = 2 * HOUR_MS
_MOST_UNWRITTEN = 2_000


@click.command("demo")
@click.option("--org", default="demo", show_default=True, help="The organization; made when missing.")
@instance_option
def demo(org: str, folder: Path) -> None:
    """Fill an organization that has no jobs with 90 days of believable data, and print a link to sign in.

    25 jobs of different schedules with failures, a slow week after a deploy, spells of silence, and annotations.
    """
    settings = config.load(folder)
    with opened(folder) as tenancy:
        service.check_slug(org)
        now_ms = tenancy.clock()
        with tenancy.control.read() as db:
            is_new = store.organization_id(db, org) is None
        if is_new:
            tenancy.databases.delete(org)  # what an earlier call left that was interrupted
        tenancy.databases.create(org)
        with tenancy.databases.read(org) as db:
            if jobs.jobs(db, now_ms, q=None, after=None, limit=1):
                raise click.ClickException(f"{org} has jobs already; choose another with --org.")
        _fill(tenancy, org, now_ms, background.time_zones(str(settings["TIME_ZONES"])))
        # Only now, so that a service that runs meanwhile does not look at days that are half told.
        tenancy.control.write(lambda db: store.add_organization(db, org, now_ms))
        token = service.create_sign_in_link(tenancy, org)
    click.echo(
        f"{len(JOBS)} jobs are in {org}. Their heartbeats end now: as nothing sends any more, they become overdue.\n"
        "Sign in once, within 24 hours, while obs serve runs:",
        err=True,
    )
    click.echo(f"{instance.base_url(settings)}/sign-in/{token}")


def _fill(tenancy: Tenancy, org: str, now_ms: int, zones: Sequence[str]) -> None:
    """Write the heartbeats in the order of time; the service looks at them in each trouble, and until it is over."""
    tenancy.databases.write(org, lambda db: _annotate(db, now_ms))
    looks = story.moments(now_ms)
    ends = sorted({*looks, *range(now_ms, now_ms - story.DAYS * DAY_MS, -_LOOK_AGAIN_MS)})
    parts = groupby(story.tell(now_ms), key=lambda beat: ends[bisect_left(ends, beat.time)])
    unwritten: list[story.Beat] = []
    lasts = False
    with click.progressbar(length=len(ends), label="Ninety days", show_eta=False) as bar:
        for end, beats in parts:
            unwritten += beats
            is_looked_at = lasts or end in looks or end == now_ms
            if is_looked_at or len(unwritten) > _MOST_UNWRITTEN:
                tenancy.databases.write(org, partial(_record, unwritten))
                unwritten = []
            if is_looked_at:
                sweep(tenancy.databases, org, end, zones, background.Incidents())
                with tenancy.databases.read(org) as db:
                    lasts = any(one.ended_at is None for one in alerts.incidents(db, limit=1))
            bar.update(1)


def _record(beats: Sequence[story.Beat], db: sqlite3.Connection) -> None:
    for beat in beats:
        record(db, beat.job.name, beat.heartbeat, beat.job.at, None, beat.time)


def _annotate(db: sqlite3.Connection, now_ms: int) -> None:
    for begins, ends, name, title in NOTES:
        start = round(now_ms - begins * DAY_MS)
        end = None if ends is None else round(now_ms - ends * DAY_MS)
        draft = Draft(
            name=name, title=title, start_time=start, end_time=end, description=None, url=None, idempotency_key=None
        )
        annotations.add(db, draft, start)
