"""The commands of the client."""

from __future__ import annotations

import argparse
import os
import re
import sys
from importlib import import_module

from .outbox import Outbox, flush, warn
from .run import Run, messages

_LATER = dict.fromkeys(("login", "systemd", "crontab"), ".setup")  # imported late: `obs run` must start fast
_LATER |= dict.fromkeys(("jobs", "query", "annotate"), ".views")
COMMANDS = ("run", "ping", "log", "flush", *_LATER, "import healthchecks")
_LATER["healthchecks"] = ".importing"


def main(arguments: list[str]) -> int:
    """Run a command and return its exit code."""
    while os.open(os.devnull, os.O_RDWR) <= 2:
        pass  # standard streams that are closed: files of our own must not be in their place
    end = arguments.index("--") if "--" in arguments else len(arguments)
    parser, command = _parser(), arguments[end + 1 :]
    options, others = parser.parse_known_args(arguments[:end])
    if options.command == "run" and not command:
        parser.error("the command is missing: obs run JOB [OPTION]... -- COMMAND...")
    if others:
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    try:
        if options.command in _LATER:
            return int(getattr(import_module(_LATER[options.command], __package__), options.command)(options) or 0)
        return _report(options, command)
    except OSError as error:
        warn(str(error))
        return 1
    except (KeyboardInterrupt, EOFError):
        return 130


def _report(options: argparse.Namespace, command: list[str]) -> int:
    if options.command == "flush":
        sent = flush()
        warn(f"sent the heartbeats of {sent} run{'' if sent == 1 else 's'}")
        return 0
    outbox = Outbox(options.job, {name: getattr(options, name) for name in ("host", "service", "project")})
    if options.command == "run":
        return Run(command, outbox, options).report()
    if options.command == "log":
        for message in messages(os.fsencode(options.text) if options.text is not None else sys.stdin.buffer.read()):
            outbox.add("log", run_id=None, message=message)
    if options.command == "ping" and options.systemd:
        return int(import_module(".setup", __package__).report_unit(outbox))
    if options.command == "ping":
        outbox.add("ping", run_id=None)
    outbox.close()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="obs", description="Run jobs and report them to obs.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, about: str, *arguments: str, **flags: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=about)
        for argument in arguments:
            name = argument.strip("?")
            command.add_argument(name, metavar=name.upper(), nargs="?" if name != argument else None)
        for flag, effect in flags.items():
            command.add_argument(f"--{flag.replace('_', '-')}", action="store_true", help=effect)
        return command

    flags = {"quiet": "only log the output", "no_log": "do not send the output"}
    flags["log_on_failure"] = "send the output only if the command fails"
    run = add("run", "run a command: obs run JOB [OPTION]... -- COMMAND...", "job", **flags)
    run.add_argument("--timeout", type=_seconds, help="stop the command after this time, such as 90s or 2h")
    ping = add("ping", "report that a job ran", "job", systemd="report the start or the end of this unit of systemd")
    log = add("log", "send a log message, by default from standard input", "job", "text?")
    for command in (run, ping, log):
        for name, default in (("host", os.uname().nodename), ("service", None), ("project", None)):
            command.add_argument(f"--{name}", default=default, help=f"{name} of the job")
    add("flush", "send what could not be sent while the server was unreachable")
    add("login", "ask for a key, test it, and store it with the URL of the server", "url")
    add("jobs", "list the jobs", trouble="only the jobs that need attention")
    query = add("query", "run a statement in OQL", "statement", csv="print CSV", json="print JSON")
    query.add_argument("--param", type=_param, action="append", default=[], metavar="NAME=VALUE", help="value of :NAME")
    add("annotate", "mark the time on charts", "name", "title?", end="end the last annotation of that name")
    add("systemd", "print a drop-in that reports a unit", "unit")
    add("crontab", "show your crontab with each command in obs run", write="save it, then install the new one")
    imports = add("import", "import checks of Healthchecks", learn="past runs, not pins", write="import, not only show")
    imports.add_argument("command", choices=["healthchecks"])
    imports.add_argument("--url", required=True, help="of Healthchecks, such as https://healthchecks.io")
    imports.add_argument("--api-key", required=True, help="a key of the project that can read and write")
    imports.add_argument("--tags", choices=("project", "service", "none"), default="project", help="what a tag becomes")
    return parser


def _param(text: str) -> tuple[str, object]:
    name, value = text.split("=", 1)  # ValueError: argparse says that it is invalid
    return name, import_module(".views", __package__).as_value(value)


def _seconds(text: str) -> float:
    if not (match := re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text)) or not float(match[1]):
        raise argparse.ArgumentTypeError("not a time such as 90s, 30m or 2h")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]]
