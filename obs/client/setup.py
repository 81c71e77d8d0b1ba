"""Setting a machine up: the server and the key, the crontab, units of systemd."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from getpass import getpass
from itertools import chain, count
from pathlib import Path
from shlex import quote
from typing import Any

from .outbox import Outbox, printable, warn
from .server import CONFIG, Server

_PROGRAM = os.path.abspath(sys.argv[0])
_DROP_IN = """\
# Save this as /etc/systemd/system/{unit}.service.d/obs.conf, then run: systemctl daemon-reload
# It runs as root, with what `sudo obs login URL` stores. The job has the name of the unit.
[Service]
ExecStartPre=-+/usr/bin/env HOME=/root {program} ping %N --systemd
ExecStopPost=-+/usr/bin/env HOME=/root {program} ping %N --systemd
"""
_SETTING = re.compile(r"""\s*["']?([^\s#="']+)["']?\s*=\s*(["']?)(.*?)\2\s*$""")
_JOB = re.compile(r"(\s*(?:@\w+|[^\s#@]\S*(?:\s+\S+){4})\s+)((?:\\.|[^%\\])+\\?)(.*)")  # when, command, its input
_WRAPPED = re.compile(r"(?:^|[\s/;&|(])obs run (\S+) ")
_SIMPLE = re.compile(r"([^\s|&;()<>=`'\"$\\]+)(?!\S)([^|&;()<>]|>&(?=\d)|>)*")  # one command, with redirections
_DULL = re.compile(r"-.*|\w+=.*|[\d.]+[smhd]?|.*\.lock|(.*/)?(sudo|nice|timeout|flock|env|cd|(ba)?sh|python3?|php)")


def login(options: Any) -> None:
    """Ask for the key, test it, and store it with the URL in a file that only the user can read."""
    key = (getpass("API key: ") if sys.stdin.isatty() else sys.stdin.readline()).strip()
    found, path = Server(options.url, key).request("GET", "me", "organization"), Path(CONFIG).expanduser()
    os.umask(0o077)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(f'url = "{options.url}"\nkey = "{key}"\n')
    new.replace(path)
    warn(f"organization {found['organization']}, scopes {', '.join(found['key']['scopes'])}: stored in {path}")


def systemd(options: Any) -> None:
    """Print a drop-in, with which systemd calls `report_unit` before a unit starts and after it has ended."""
    program = quote(_PROGRAM).replace("%", "%%").replace("$", "$$")
    unit = options.unit.removesuffix(".service").removesuffix(".timer")
    sys.stdout.write(_DROP_IN.format(unit=unit, program=program))


def report_unit(outbox: Outbox) -> int:
    """Report the start or the end of the unit in whose environment this runs: only an end has a result there."""
    result, code, run = (os.environ.get(name) for name in ("SERVICE_RESULT", "EXIT_STATUS", "INVOCATION_ID"))
    if result is None:
        outbox.add("start", run_id=run)
    else:
        status, message = ("success", None) if result == "success" else ("failed", f"systemd: {result}, {code}")
        exit_code = int(code) if code and code.isdigit() else None  # else it is the name of a signal
        outbox.add("end", run_id=run, status=status, exit_code=exit_code, message=message)
    outbox.close(2)  # the unit waits for this
    return 0


def crontab(options: Any) -> None:
    """Show the new crontab; or save the old one and install the new one, if cron can run the client."""
    listed = subprocess.run(["crontab", "-l"], capture_output=True)  # noqa: S607
    if listed.returncode:
        raise OSError(listed.stderr.decode(errors="replace"))
    old = listed.stdout.decode(errors="surrogateescape")
    new = _wrapped(old, asks=options.write and sys.stdin.isatty()).encode(errors="surrogateescape")
    if new == listed.stdout or not options.write:
        sys.stdout.buffer.write(new)
        return
    settings = {found[1]: found[3] for line in old.split("\n") if (found := _SETTING.match(line))}
    environment = {"HOME": str(Path.home()), "PATH": "/usr/bin:/bin", **settings}
    tried = subprocess.run([_PROGRAM, "flush"], env=environment, capture_output=True)  # noqa: S603
    if tried.returncode:
        raise OSError(f"nothing was changed: cron cannot use {_PROGRAM}\n{tried.stderr.decode(errors='replace')}")
    os.umask(0o077)
    saved = Path.home() / f"crontab-before-obs-{time.time():.0f}"
    saved.write_bytes(listed.stdout)
    warn(f"the old crontab is in {saved}")
    if subprocess.run(["crontab", "-"], input=new).returncode:  # noqa: S607
        raise OSError("nothing was changed: crontab refuses the new one")


def _wrapped(text: str, *, asks: bool) -> str:
    r"""The crontab `text` with each command in ``obs run``. What cron makes of ``\`` and ``%`` stays as it is."""
    shell, names, lines = "/bin/sh", set(_WRAPPED.findall(text)), []
    for line in text.split("\n"):
        setting, job = _SETTING.match(line), _JOB.match(line)
        shell = setting[3] if setting and setting[1] == "SHELL" else shell
        if job and not (setting or _WRAPPED.search(line) or f"{quote(_PROGRAM)} run " in line):
            when, command, stdin = job.groups()
            base = f"{os.uname().nodename.partition('.')[0]}/{_name(command)}"
            name = next(name for name in chain([base], map(f"{base}-{{}}".format, count(2))) if name not in names)
            if asks:
                name = input(f"{printable(command)}\n  name of the job [{name}]: ").strip() or name
            names.add(name)
            if not _is_program(command, shell):
                command = f"{quote(shell)} -c '" + command.replace("'", "'\"'\"'") + "'"
            line = when + f"{quote(_PROGRAM)} run {quote(name)} -- ".replace("%", r"\%") + command + stdin
        lines.append(line)
    return "\n".join(lines)


def _is_program(command: str, shell: str) -> bool:
    """Whether `shell` would start one program for `command`, so that `obs run` can start it in its place."""
    simple = _SIMPLE.fullmatch(command)
    # Prints the path of a program, only the name of a command of the shell, and nothing for what is neither.
    asked = [shell, "-c", 'command -v "$0"', os.path.expanduser(simple[1] if simple else "")]
    return b"/" in subprocess.run(asked, capture_output=True, cwd=Path.home()).stdout  # noqa: S603


def _name(command: str) -> str:
    """The first two words that tell what it does, such as ``restic-backup``."""
    words = re.findall(r"[^\s'\"`$|&;()<>]+", re.sub(r"\d*>+\s*\S+", " ", command))
    telling = (os.path.basename(word.rstrip("/")) for word in words if not _DULL.fullmatch(word))
    stems = (re.sub(r"\.(sh|py|pl|php|rb|js)$|[^\w.-]+", "-", word).strip("-.") for word in telling)
    return "-".join(list(dict.fromkeys(filter(None, stems)))[:2]) or "job"
