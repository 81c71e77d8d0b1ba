"""A copy of a file that is in use."""

import sqlite3
from contextlib import closing
from pathlib import Path

from obs.storage.databases import Databases


def copy(databases: Databases, org: str, path: Path) -> None:
    """Write what the file of `org` holds at this moment to `path`, while others go on writing. Raises ServiceError."""
    with databases.read(org) as source, closing(sqlite3.connect(path)) as target:
        source.backup(target)
        target.execute("PRAGMA journal_mode = DELETE")
