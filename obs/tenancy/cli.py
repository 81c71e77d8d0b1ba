"""The commands ``obs org``, ``key``, ``user`` and ``sign-in``. They also work while the service is running."""

import sys
import time
from contextlib import closing
from pathlib import Path

import click

from obs import config, times
from obs.api import load, time_of_query
from obs.tenancy import instance, keys, service, store
from obs.tenancy.audit import Action
from obs.tenancy.auth import Tenancy
from obs.tenancy.routes import KeyRequestSchema, UserSchema

_SCOPE_HELP = "Repeat for several; admin includes all others. Default: heartbeat:write."


def opened(folder: Path, *, create: bool = False) -> closing[Tenancy]:
    """Open the instance, or `create` it, for one command."""
    settings = config.load(folder)
    if not create and not (folder / "control.db").exists():
        raise click.ClickException(f"There is no instance in {folder.absolute()}. Set --instance FOLDER.")
    return closing(instance.open_instance(folder, settings, lambda: time.time_ns() // 1_000_000, checkpoints=False))


def printable(name: str) -> str:
    """A name for a line of output, without characters that could control the terminal."""
    return "".join(each if each.isprintable() else " " for each in name)


@click.group()
def org() -> None:
    """Manage organizations. Each has its own keys and its own data."""


@org.command("create")
@click.argument("name")
def create_org(name: str, folder: Path) -> None:
    """Create the organization NAME. A name has 1 to 63 of a-z, 0-9 and -, and does not begin with -."""
    with opened(folder, create=True) as tenancy:
        service.create_organization(tenancy, name)
    click.echo(f"Created organization {name}. Create a key with: obs key create {name} --label LABEL", err=True)


@org.command("list")
def list_orgs(folder: Path) -> None:
    """List the organizations: name, creation time."""
    with opened(folder) as tenancy, tenancy.control.read() as db:
        for each, created_at in store.organizations(db).items():
            click.echo(f"{each}\t{times.format_ms(created_at)}")


@org.command("delete")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def delete_org(name: str, yes: bool, folder: Path) -> None:
    """Delete the organization NAME with its keys and data."""
    with opened(folder) as tenancy:
        found = service.find_organization(tenancy, name)
        if not yes:
            click.confirm(f"Delete organization {name} with its keys and data?", abort=True, err=True)
        service.delete_organization(tenancy, found)
    click.echo(f"Deleted organization {name}.", err=True)


@org.command("set-limit")
@click.argument("org")
@click.argument("name", type=click.Choice(config.LIMITS, case_sensitive=False))
@click.argument("value", type=click.IntRange(1, 2**62), required=False)
@click.option("--default", "reset", is_flag=True, help="Remove the limit: the setting applies again.")
def set_limit(org: str, name: str, value: int | None, reset: bool, folder: Path) -> None:
    """Set the limit NAME of the organization ORG to VALUE."""
    if (value is None) is not reset:
        raise click.UsageError("Give either a VALUE or --default.")
    with opened(folder) as tenancy:
        service.set_limit(tenancy, service.find_organization(tenancy, org), name, value)
    click.echo(f"{org}: {name} is {'the default' if value is None else value}.", err=True)


@click.group()
def key() -> None:
    """Manage API keys."""


@key.command("create")
@click.argument("org")
@click.option("--label", required=True, help="What the key is used for.")
@click.option("--scope", "scopes", multiple=True, type=click.Choice(keys.SCOPES), help=_SCOPE_HELP)
@click.option("--ping", is_flag=True, help="Create a ping key: it is sent in URLs and can only ping.")
@click.option("--expires", help="ISO 8601 time, or a time from now such as +30d. Default: never.")
def create_key(org: str, label: str, scopes: tuple[str, ...], ping: bool, expires: str | None, folder: Path) -> None:
    """Create a key for ORG and print it. The key is not stored and cannot be shown again."""
    with opened(folder) as tenancy:
        expires_at = times.format_optional_ms(time_of_query("--expires", expires, tenancy.clock()))
        found = service.find_organization(tenancy, org)
        chosen = (*scopes, keys.PING) if ping else scopes or keys.DEFAULT_SCOPES
        fields = load(KeyRequestSchema, {"label": label, "scopes": chosen, "expires_at": expires_at})
        created = service.create_key(tenancy, found, **fields)
    click.echo(f"Created key {created.id}. Copy it now: it will not be shown again.", err=True)
    click.echo(created.key)


@key.command("list")
@click.argument("org")
def list_keys(org: str, folder: Path) -> None:
    """List the keys of ORG: id, label, scopes, state, last use."""
    with opened(folder) as tenancy, tenancy.control.read() as db:
        now_ms = tenancy.clock()
        for row in store.keys_of(db, service.find_organization(tenancy, org)):
            is_expired = row.expires_at and row.expires_at <= now_ms
            state = "revoked" if row.revoked_at else "expired" if is_expired else "valid"
            last_use = times.format_optional_ms(row.last_used_at) or "never used"
            click.echo(f"{row.id}\t{printable(row.label)}\t{' '.join(row.scopes)}\t{state}\t{last_use}")


@key.command("revoke")
@click.argument("key_id", type=int)
def revoke_key(key_id: int, folder: Path) -> None:
    """Revoke the key with the id KEY_ID. The command "obs key list ORG" shows the ids."""
    with opened(folder) as tenancy:
        service.revoke_key(tenancy, None, key_id)
    click.echo(f"Revoked key {key_id}.", err=True)


@click.group()
def user() -> None:
    """Manage users: people who sign in to the dashboard."""


@user.command("add")
@click.argument("org")
@click.argument("name")
@click.option("--role", type=click.Choice(list(keys.ROLES)), default="reader", show_default=True)
def add_user(org: str, folder: Path, **fields: str) -> None:
    """Add the user NAME to ORG. No other user of the instance may have this name.

    The password is asked for, or read from standard input if that is not a terminal. See Settings for all else.
    """
    if sys.stdin.isatty():
        fields["password"] = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        fields["password"] = sys.stdin.readline().rstrip("\r\n")
    with opened(folder) as tenancy:
        found, loaded = service.find_organization(tenancy, org), load(UserSchema, fields)
        service.change_user(tenancy, found, Action.ADD_USER, **loaded)
    click.echo(f"Added user {loaded['name']}.", err=True)


@click.command("accept-clock")
def accept_clock(folder: Path) -> None:
    """Confirm that the clock of the server is right. The service then trusts it, and deletes old data by it."""
    with opened(folder) as tenancy:
        tenancy.control.write(store.accept_clock)
    click.echo("Accepted the clock.", err=True)


@click.command("sign-in")
@click.argument("org")
def sign_in(org: str, folder: Path) -> None:
    """Print a link for signing in to ORG. The link works once, within 24 hours."""
    with opened(folder) as tenancy:
        token = service.create_sign_in_link(tenancy, org)
    click.echo(f"{instance.base_url(config.load(folder))}/sign-in/{token}")


COMMANDS = (org, key, user, sign_in, accept_clock)
