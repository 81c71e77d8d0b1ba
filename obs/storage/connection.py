"""Opening, copying and checking SQLite files, and the responses to SQLite's errors."""

import errno
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from obs.errors import ServiceError
from obs.storage.disk import try_to_write

_WRITER_PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = FULL",
    "fullfsync = ON",  # this and the next one are for macOS, where fsync leaves data in the cache of the drive
    "checkpoint_fullfsync = ON",
    "foreign_keys = ON",
    "journal_size_limit = 67108864",  # to which the write-ahead log is truncated after a burst of writes
)
REPAIR = "The service's log has the details for the operator."
_NAMES = "IOERR CANTOPEN CORRUPT NOTADB READONLY PERM AUTH"
_UNUSABLE = {getattr(sqlite3, f"SQLITE_{name}") for name in _NAMES.split()}


class MissingFileError(ServiceError):
    """The 503 for a file that should exist, or that was deleted while it was open."""

    def __init__(self, path: Path) -> None:
        super().__init__("storage_unavailable", f"The file {path.name} is missing or empty.", hint=REPAIR)


def open_writer(path: Path, busy_seconds: float, *, checkpoints: bool = False) -> sqlite3.Connection:
    """A connection to an existing file for durable writes: once COMMIT has returned, the rows survive a power loss.

    The caller begins and ends transactions. Any thread may use it, one at a time. Raises sqlite3.Error.

    Only the process that owns the file `checkpoints`, because SQLite 3.7.0 to 3.51.2 can lose commits when two
    connections write and checkpoint at once. In others, the last connection to a file checkpoints when it closes.
    """
    pragmas = _WRITER_PRAGMAS if checkpoints else (*_WRITER_PRAGMAS, "wal_autocheckpoint = 0")
    return _open(path, "rw", busy_seconds, pragmas)


def open_reader(path: Path, busy_seconds: float, *, immutable: bool = False) -> sqlite3.Connection:
    """A read-only connection to an existing file. Any thread may use it, one at a time. Raises sqlite3.Error.

    With `immutable` it creates no other file; nobody may have the file open for writing.
    """
    return _open(path, "ro&immutable=1" if immutable else "ro", busy_seconds, ("query_only = ON",))


def _open(path: Path, mode: str, busy_seconds: float, pragmas: Iterable[str]) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode={mode}"  # without "c" in `mode`, a file that is missing is not created
    connection = sqlite3.connect(
        uri, timeout=busy_seconds, isolation_level=None, check_same_thread=False, cached_statements=256, uri=True
    )
    connection.row_factory = sqlite3.Row
    try:
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}")
    except BaseException:
        connection.close()
        raise
    return connection


def copy(source: sqlite3.Connection, target: Path, progress: Callable[[float], None] = lambda _: None) -> None:
    """Write the file of `source`, as it is now, to the new file `target`, which only this user can read.

    Others may write meanwhile. `progress` is called with the share that is copied. Raises sqlite3.Error, OSError.
    """
    target.touch(mode=0o600, exist_ok=False)
    with closing(sqlite3.connect(target, isolation_level=None)) as writer:
        source.execute("BEGIN")
        try:
            source.execute("SELECT 1 FROM sqlite_schema").fetchone()  # one snapshot, or each write would start it again
            source.backup(writer, pages=2_000, progress=lambda _, left, total: progress(1 - left / max(total, 1)))
        finally:
            source.execute("ROLLBACK")
        writer.execute("PRAGMA journal_mode = DELETE")  # the copy is one file


def first_value(db: sqlite3.Connection, sql: str, parameters: Any = ()) -> Any:
    """The first column of the first row that a statement returns; None if it returns none."""
    row = db.execute(sql, parameters).fetchone()
    return None if row is None else row[0]


def count_rows(db: sqlite3.Connection, *, table: str, condition: str = "1") -> int:
    return int(first_value(db, f"SELECT count(*) FROM {table} WHERE {condition}"))


def save_row(db: sqlite3.Connection, table: str, values: Mapping[str, Any]) -> int:
    """Insert a row, or change the one whose ``id`` is in `values`; returns its id, 0 if there is no such row."""
    if values.get("id"):
        changes = ", ".join(f"{name} = :{name}" for name in values)
        return int(values["id"]) * db.execute(f"UPDATE {table} SET {changes} WHERE id = :id", values).rowcount
    add = f"INSERT INTO {table} ({', '.join(values)}) VALUES (:{', :'.join(values)})"
    return int(db.execute(add, values).lastrowid or 0)


def delete_row(db: sqlite3.Connection, row_id: int, *, table: str) -> bool:
    """Delete the row with this ``id``; False if there is none."""
    return db.execute(f"DELETE FROM {table} WHERE id = ?", (row_id,)).rowcount > 0


def delete_oldest(db: sqlite3.Connection, limit: int, cutoff: int, *, table: str, time: str, condition: str) -> int:
    """Delete the first `limit` rows in the order of `time` to which a `condition` with ``:cutoff`` applies.

    Returns how many. Rows of the same time are in the order of their ids, so that it is always the same rows.
    """
    chosen = f"SELECT rowid FROM {table} WHERE {condition} ORDER BY {time}, rowid LIMIT :limit"
    return db.execute(f"DELETE FROM {table} WHERE rowid IN ({chosen})", {"cutoff": cutoff, "limit": limit}).rowcount


def damages(db: sqlite3.Connection) -> list[str]:
    """What SQLite finds wrong with the structure and the foreign keys of a file; empty if nothing."""
    try:
        found = [row[0] for row in db.execute("PRAGMA integrity_check") if row[0] != "ok"]
        dangling = db.execute("PRAGMA foreign_key_check").fetchall()
    except sqlite3.DatabaseError as error:
        return [str(error)]
    return found + [f"row {row[1]} of {row[0]} refers to a missing row of {row[2]}" for row in dangling]


@contextmanager
def explained(folder: Path | None = None) -> Iterator[None]:
    """Raise the 503 for a file (in `folder`) that is busy, full or unusable. What is a bug in this service stays."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK)
        primary = code & 0xFF
        if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise ServiceError("storage_busy") from error
        if primary == sqlite3.SQLITE_CANTOPEN and folder and getattr(try_to_write(folder), "errno", 0) == errno.ENOSPC:
            primary = sqlite3.SQLITE_FULL  # there was no room for the files that SQLite keeps beside this one
        if primary == sqlite3.SQLITE_FULL or code in (sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE):
            raise ServiceError("storage_full") from error
        if primary in _UNUSABLE or str(error) == "unsupported file format":  # its code is that of a bug
            raise ServiceError("storage_unavailable", f"The file cannot be used: {error}.", hint=REPAIR) from error
        raise
