"""Queries on the command line: what a statement would do."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from obs.query import service
from obs.query.execution.run import run
from obs.query.execution.session import Sessions
from obs.query.language import Language
from obs.query.language.errors import OqlError
from obs.query.language.plan import Listing
from obs.sources import Source
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
            found = find_organization(tenancy, org)
            limits = service.limits_of(tenancy.quotas.limits(found))
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
