"""Queries on the command line: what a statement would do, and the limits of an organization."""

from collections.abc import Sequence
from pathlib import Path

import click

from obs import config
from obs.errors import ServiceError
from obs.query import service, store
from obs.query.execution.limits import Limits
from obs.query.execution.run import explain_plan
from obs.query.execution.session import Sessions
from obs.query.language import Language
from obs.query.language.errors import OqlError
from obs.query.language.plan import Listing
from obs.sources import Source
from obs.tenancy.cli import instance_option, opened


def query_group(sources: Sequence[Source]) -> click.Group:
    """The group ``query``."""

    @click.group()
    def query() -> None:
        """OQL."""

    @query.command("explain")
    @click.argument("statement")
    @click.option("--org", default="default", show_default=True, help="The organization whose file is read.")
    @instance_option
    def explain_command(statement: str, org: str, folder: Path) -> None:
        """Show what STATEMENT means, the SQL that it becomes, SQLite's plan for it, and what it may read."""
        language = Language(sources)
        with opened(folder) as tenancy:
            with tenancy.control.read() as db:
                limits = Limits.of(config.load(folder), store.own_limits(db, org))
            try:
                plan = language.plan(statement, limits.max_length)
                if isinstance(plan, Listing):
                    raise click.ClickException("SHOW reads nothing; there is nothing to explain.")
                with tenancy.databases.read(org):
                    answer = explain_plan(plan, tenancy.databases.path(org), tenancy.clock(), limits, Sessions())
            except OqlError as error:
                raise click.ClickException(_told(error.error(statement))) from error
        for what, text in answer.rows:
            click.echo(f"{what}: {text}")

    return query


def _told(error: ServiceError) -> str:
    """An error of the language as lines of text."""
    assert error.errors is not None
    caret = error.errors["query"][0]["caret"]
    return "\n".join(filter(None, [error.message, caret, error.hint]))


@click.command("set-limit")
@click.argument("org")
@click.argument("name", type=click.Choice([f"query_{name}" for name in store.NAMES], case_sensitive=False))
@click.argument("value", type=click.IntRange(1, 2**62), required=False)
@click.option("--default", "reset", is_flag=True, help="Remove the limit: the setting applies again.")
@instance_option
def set_limit(org: str, name: str, value: int | None, reset: bool, folder: Path) -> None:
    """Set the limit NAME of the organization ORG to VALUE, from the next query on."""
    if (value is None) is not reset:
        raise click.UsageError("Give either a VALUE or --default.")
    with opened(folder) as tenancy:
        service.set_limit(tenancy.control, org, name.removeprefix("query_"), value)
    click.echo(f"{org}: {name} is {'the default' if value is None else value}.", err=True)


@click.command("limits")
@click.argument("org")
@instance_option
def show_limits(org: str, folder: Path) -> None:
    """Show the query limits of the organization ORG."""
    with opened(folder) as tenancy, tenancy.control.read() as db:
        own = store.own_limits(db, org)
    limits = Limits.of(config.load(folder), own)
    for name in store.NAMES:
        click.echo(f"query_{name}\t{getattr(limits, name)}\t{'own' if name in own else 'default'}")
