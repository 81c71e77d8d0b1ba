"""Setting a machine up: the server and the key."""

from __future__ import annotations

import os
import sys
from getpass import getpass
from typing import Any

from .outbox import warn
from .server import CONFIG, Server


def login(options: Any) -> None:
    """Ask for the key, test it, and store it with the URL in a file that only the user can read."""
    key = (getpass("API key: ") if sys.stdin.isatty() else sys.stdin.readline()).strip()
    found, path = Server(options.url, key).request("GET", "me", "organization"), os.path.expanduser(CONFIG)
    os.umask(0o077)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(f"{path}.new", "w") as file:
        file.write(f'url = "{options.url}"\nkey = "{key}"\n')
    os.replace(file.name, path)
    warn(f"organization {found['organization']}, scopes {', '.join(found['key']['scopes'])}: stored in {path}")
