"""Setting a machine up: the server and the key, units of systemd."""

from __future__ import annotations

import os
import sys
from getpass import getpass
from pathlib import Path
from shlex import quote
from typing import Any

from .outbox import Outbox, warn
from .server import CONFIG, Server

_PROGRAM = os.path.abspath(sys.argv[0])
_DROP_IN = """\
# Save this as /etc/systemd/system/{unit}.service.d/obs.conf, then run: systemctl daemon-reload
# It runs as root, with what `sudo obs login URL` stores. The job has the name of the unit.
[Service]
ExecStartPre=-+/usr/bin/env HOME=/root {program} ping %N --systemd
ExecStopPost=-+/usr/bin/env HOME=/root {program} ping %N --systemd
"""


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
    sys.stdout.write(_DROP_IN.format(unit=options.unit.removesuffix(".service"), program=program))


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
