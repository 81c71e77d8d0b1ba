"""Queries on the command line: what a statement would do, and the limits of an organization."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from obs import config
from obs.query import service, store
from obs.query.execution.run import run
from obs.query.execution.session import Sessions
from obs.query.language import Language
from obs.query.language.errors import OqlError
from obs.query.language.plan import Listing
from obs.sources import Source
from obs.tenancy import audit
from obs.tenancy import cli as tenancy_cli
from obs.tenancy.audit import COMMAND_LINE, Action
from obs.tenancy.cli import instance_option, opened
from obs.tenancy.service import find_organization


def query_group(sources: Sequence[Source]) -> click.Group:
    """The group ``query``."""

    @click.group()
    def query() -> None:
        """Query data with OQL."""

    @query.command("explain")
    @click.argument("statement")
    @click.option("--org", default="default", show_default=True, help="The organization whose data would be read.")
    @instance_option
    def explain_command(statement: str, org: str, folder: Path) -> None:
        """Show what STATEMENT means, the SQL it becomes, SQLite's plan for it, and how much it may read."""
        with opened(folder) as tenancy:
            with tenancy.control.read() as db:
                found = find_organization(db, org)
                limits = service.limits_of(db, found, config.load(folder))
            try:
                plan = Language(sources).plan(statement, limits.max_length)
                if isinstance(plan, Listing):
                    raise click.ClickException("SHOW reads no data: there is nothing to explain.")
                path, now_ms = tenancy.databases.path(found), tenancy.clock()
                result = run(replace(plan, explain=True), path, now_ms, limits, Sessions())
            except OqlError as error:
                shown = error.error(statement)
                assert shown.errors is not None
                lines = [shown.message, shown.errors["query"][0]["caret"], shown.advice]
                raise click.ClickException("\n".join(filter(None, lines))) from error
        for what, text in result.rows:
            click.echo(f"{what}: {text}")

    return query


@tenancy_cli.org.command("set-limit")
@click.argument("org")
@click.argument("name", type=click.Choice([f"query_{name}" for name in store.LIMITS], case_sensitive=False))
@click.argument("value", type=click.IntRange(1, 2**62), required=False)
@click.option("--default", "reset", is_flag=True, help="Remove the limit: the setting applies again.")
@instance_option
def set_limit(org: str, name: str, value: int | None, reset: bool, folder: Path) -> None:
    """Set the limit NAME of the organization ORG to VALUE, from the next query on."""
    if (value is None) is not reset:
        raise click.UsageError("Give either a VALUE or --default.")
    with opened(folder) as tenancy:
        with tenancy.control.read() as db:
            found = find_organization(db, org)
        service.set_limit(tenancy.control, found, name.removeprefix("query_"), value)
        subject = f"{name} to {'the default' if value is None else value}"
        audit.note(tenancy.databases, found, COMMAND_LINE, tenancy.clock(), Action.SET_LIMIT, subject)
    click.echo(f"{org}: {name} is {'the default' if value is None else value}.", err=True)


@tenancy_cli.org.command("limits")
@click.argument("org")
@instance_option
def show_limits(org: str, folder: Path) -> None:
    """Show the query limits of the organization ORG."""
    with opened(folder) as tenancy, tenancy.control.read() as db:
        found = find_organization(db, org)
        own = store.own_limits(db, found)
        limits = service.limits_of(db, found, config.load(folder))
    for name in store.LIMITS:
        click.echo(f"query_{name}\t{getattr(limits, name)}\t{'own' if name in own else 'default'}")
