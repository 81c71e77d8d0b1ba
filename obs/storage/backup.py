"""Backup of a file that is in use."""

import sqlite3
from contextlib import closing
from pathlib import Path

from obs.storage.databases import Databases


def copy(databases: Databases, org: str, path: Path) -> None:
    """Write a consistent copy of the file of `org` to `path`; writes continue meanwhile. Raises ServiceError (503)."""
    with databases.read(org) as source, closing(sqlite3.connect(path)) as target:
        source.backup(target)
        target.execute("PRAGMA journal_mode = DELETE")
