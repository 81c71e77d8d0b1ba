"""The command ``obs``, which combines the commands of the areas."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from obs import config
from obs.alerts.cli import channel
from obs.backup.copies import backup, restore
from obs.backup.files import check
from obs.backup.transfer import export, import_group
from obs.client import main as client
from obs.demo import demo
from obs.errors import ServiceError
from obs.server import serve as server
from obs.tenancy import cli as tenancy_cli

_FOLDER: dict[str, Any] = {"type": click.Path(path_type=Path, file_okay=False), "help": "The instance (OBS_INSTANCE)."}


class _Commands(click.Group):
    """The commands of the service; those of the client are passed on to it."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **settings: Any) -> Any:
        arguments = list(sys.argv[1:] if args is None else args)
        if {" ".join(arguments[:words]) for words in (1, 2)} & {*client.COMMANDS}:
            sys.exit(client.main(arguments))
        return super().main(arguments, *rest, **settings)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command of the service. An error becomes one line on standard error and exit code 1."""
        try:
            return super().invoke(ctx)
        except ServiceError as error:
            where = f"(instance: {ctx.obj.absolute()})" if error.error == "organization_not_found" else None
            raise click.ClickException(" ".join(filter(None, [error.message, error.hint, where]))) from error
        except OSError as error:
            where = f"{error.filename2 or error.filename}: " if error.filename else ""
            raise click.ClickException(f"{where}{error.strerror}." if error.strerror else str(error)) from error
        except config.ConfigError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=_Commands, epilog=f"Commands of the client: {', '.join(client.COMMANDS)}. Try: obs run --help")
@click.option("--instance", **_FOLDER)
@click.version_option(package_name="obs")
@click.pass_context
def main(context: click.Context, instance: Path | None) -> None:
    """Annotations, OQL queries and cron heartbeats behind one HTTP API."""
    context.obj = instance or config.default_instance()


@click.command()
@click.option("--host", help="Address to listen on (OBS_HOST, 127.0.0.1).")
@click.option("--port", type=click.IntRange(1, 65535), help="Port to listen on (OBS_PORT, 8080).")
@click.option("--threads", type=click.IntRange(1, 1024), help="Requests handled at the same time (OBS_THREADS, 64).")
def serve(folder: Path, **options: str | int | None) -> None:
    """Run the server until SIGINT or SIGTERM. Creates the instance if it is missing."""
    sys.exit(server.serve(folder, {name.upper(): value for name, value in options.items() if value is not None}))


def _chosen(context: click.Context, _parameter: click.Parameter, folder: Path | None) -> Path:
    root = context.find_root()
    root.obj = chosen = folder or root.obj  # after the command, else after ``obs``
    return chosen


for command in (serve, *tenancy_cli.COMMANDS, channel, demo, backup, restore, check, export, import_group):
    main.add_command(command)
    for each in command.commands.values() if isinstance(command, click.Group) else (command,):
        each.params.append(click.Option(["--instance", "folder"], callback=_chosen, **_FOLDER))
