"""The commands of the client."""

from __future__ import annotations

import argparse
import os
import re
import sys

from .outbox import Outbox, flush, warn
from .run import Run, messages
from .server import configured

COMMANDS = ("run", "ping", "log", "flush")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def main(arguments: list[str]) -> int:
    """Run a command and return its exit code."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options, command, server = _parser().parse_args(arguments[:end]), arguments[end + 1 :], configured()
    if options.command == "run" and not command:
        warn("the command is missing: obs run JOB [OPTION]... -- COMMAND...")
        return 2
    if server is None:
        warn("no server is configured: set OBS_URL and OBS_API_KEY, or url and key in ~/.config/obs.toml")
        return Run(command, None, options).report() if command else 1
    if options.command == "flush":
        warn(f"sent the heartbeats of {flush(server)} runs")
        return 0
    outbox = Outbox(server, options.job, {name: getattr(options, name) for name in ("host", "service", "project")})
    if options.command == "run":
        return Run(command, outbox, options).report()
    if options.command == "ping":
        outbox.add("ping")
    for message in messages((options.text or sys.stdin.read()).encode()) if options.command == "log" else ():
        outbox.add("log", run_id=None, message=message)
    outbox.close()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="obs", description="Run jobs and report them to obs.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("flush", help="send what could not be sent while the server was unreachable")
    ping = commands.add_parser("ping", help="report that a job ran")
    log = commands.add_parser("log", help="send a log message")
    run = commands.add_parser("run", help="run a command and report it: obs run JOB [OPTION]... -- COMMAND...")
    for command in (run, ping, log):
        command.add_argument("job", metavar="JOB", help="name of the job")
        for name, default in (("host", os.uname().nodename), ("service", None), ("project", None)):
            command.add_argument(f"--{name}", default=default, help=f"{name} of the job")
    log.add_argument("text", nargs="?", help="the message; default: standard input")
    run.add_argument("--quiet", action="store_true", help="do not pass the output on: it is only in the log")
    run.add_argument("--no-log", action="store_true", help="do not send the output")
    run.add_argument("--log-on-failure", action="store_true", help="send the output only if the command fails")
    run.add_argument("--timeout", type=_seconds, help="stop the command after this time, such as 90s or 2h")
    return parser


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text)
    if not match:
        raise argparse.ArgumentTypeError("not a time such as 90s, 30m or 2h")
    return float(match[1]) * _UNITS[match[2]]
