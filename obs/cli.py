"""The command ``obs``, which combines the commands of the areas."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from obs import config
from obs.alerts.cli import channel
from obs.backup.check import check
from obs.backup.copies import backup, restore
from obs.backup.transfer import export, import_group
from obs.client import main as client
from obs.demo.cli import demo
from obs.server import serve as server
from obs.tenancy import cli as tenancy_cli

_INSTANCE = click.Option(
    ["--instance", "folder"],
    type=click.Path(path_type=Path, file_okay=False),
    default=config.default_instance,
    help="Folder of the instance (OBS_INSTANCE).",
)


class _Commands(click.Group):
    """The commands of the service; those of the client are passed on to it."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **settings: Any) -> Any:
        """Run the command in `args`."""
        arguments = list(sys.argv[1:] if args is None else args)
        if arguments[:1] and arguments[0] in client.COMMANDS:
            sys.exit(client.main(arguments))
        return super().main(arguments, *rest, **settings)


@click.group(cls=_Commands, epilog=f"Commands of the client: {', '.join(client.COMMANDS)}. Try: obs run --help")
@click.version_option(package_name="obs")
def main() -> None:
    """Annotations, OQL queries and cron heartbeats behind one HTTP API."""


@click.command()
@click.option("--host", help="Address to listen on (OBS_HOST, 127.0.0.1).")
@click.option("--port", type=click.IntRange(1, 65535), help="Port to listen on (OBS_PORT, 8080).")
@click.option("--check", is_flag=True, help="Only check that the program and its settings can be loaded.")
def serve(folder: Path, host: str | None, port: int | None, *, check: bool) -> None:
    """Run the server until SIGINT or SIGTERM. SIGHUP starts the installed version in its place.

    Creates the instance if it is missing.
    """
    overrides = {name: value for name, value in {"HOST": host, "PORT": port}.items() if value is not None}
    with tenancy_cli.reported_errors():
        if check:
            server.check(folder, overrides)
        else:
            sys.exit(server.serve(folder, overrides))


for command in (serve, *tenancy_cli.COMMANDS, channel, demo, backup, restore, check, export, import_group):
    main.add_command(command)
    for each in command.commands.values() if isinstance(command, click.Group) else (command,):
        each.params.append(_INSTANCE)
