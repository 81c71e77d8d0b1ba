"""The commands ``obs channel``. They also work while the service is running."""

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import click

from obs.alerts.routes import ChannelRequestSchema
from obs.alerts.service import AlertService, result_of_test
from obs.api import load
from obs.tenancy.auth import Caller
from obs.tenancy.cli import opened, printable
from obs.tenancy.service import find_organization


@contextmanager
def _opened(folder: Path, org: str) -> Iterator[tuple[AlertService, Caller]]:
    with opened(folder) as tenancy:
        alerts = AlertService(tenancy)
        with closing(alerts.courier):
            yield alerts, Caller(find_organization(tenancy, org), 0, frozenset({"admin"}), tenancy.clock(), tenancy)


@click.group()
def channel() -> None:
    """Manage channels: where alerts are sent."""


@channel.command()
@click.argument("org")
@click.argument("name")
@click.argument("url")
@click.option("--webhook", is_flag=True, help="URL receives JSON; without this option it is an Apprise URL.")
def add(org: str, name: str, url: str, webhook: bool, folder: Path) -> None:
    """Add the channel NAME to ORG and print its id.

    With - as URL, the URL is read from standard input. Send a test message with: obs channel test ORG ID
    """
    url = sys.stdin.readline().strip() if url == "-" else url
    address: dict[str, object] = {"webhook": {"url": url}} if webhook else {"url": url}
    with _opened(folder, org) as (alerts, caller):
        created = alerts.save(caller, load(ChannelRequestSchema, {"name": name, **address}))
    click.echo(f"Added channel {printable(name)}: {created.masked}", err=True)
    if created.secret is not None:
        click.echo(f"The secret that signs its requests, which will not be shown again: {created.secret}", err=True)
    click.echo(created.id)


@channel.command("list")
@click.argument("org")
def list_(org: str, folder: Path) -> None:
    """List the channels of ORG: id, name, address, state."""
    with _opened(folder, org) as (alerts, caller):
        for each in alerts.channels(caller.org):
            click.echo(f"{each.id}\t{printable(each.name)}\t{each.masked}\t{'enabled' if each.enabled else 'disabled'}")


@channel.command()
@click.argument("org")
@click.argument("channel_id", type=int)
def test(org: str, channel_id: int, folder: Path) -> None:
    """Send a test message to a channel of ORG and print the answer."""
    with _opened(folder, org) as (alerts, caller):
        answer = alerts.test(caller.org, channel_id)
    click.echo(result_of_test(answer), err=True)
    raise SystemExit(not answer["delivered"])


@channel.command()
@click.argument("org")
@click.argument("channel_id", type=int)
def delete(org: str, channel_id: int, folder: Path) -> None:
    """Delete a channel of ORG."""
    with _opened(folder, org) as (alerts, caller):
        click.echo(f"Deleted channel {printable(alerts.delete(caller, channel_id).name)}.", err=True)
