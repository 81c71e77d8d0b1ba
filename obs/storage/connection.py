"""How a SQLite file is opened, and what its errors mean to a client."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from obs.errors import ServiceError

_WRITER_PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = FULL",
    # macOS: fsync alone leaves data in the drive's cache. Without effect elsewhere.
    "fullfsync = ON",
    "checkpoint_fullfsync = ON",
    "foreign_keys = ON",
    # A burst must not leave a large write-ahead log behind for good.
    "journal_size_limit = 67108864",
)


def open_writer(path: Path, busy_seconds: float) -> sqlite3.Connection:
    """A connection that writes durably: when COMMIT has returned, the rows survive power loss.

    Transactions are begun and ended by the caller. Any thread may use it, one at a time. Makes the file if missing.
    """
    connection = sqlite3.connect(
        path, timeout=busy_seconds, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    connection.row_factory = sqlite3.Row
    try:
        for pragma in _WRITER_PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
    except BaseException:
        connection.close()
        raise
    return connection


def open_reader(path: Path, busy_seconds: float) -> sqlite3.Connection:
    """A connection that cannot write, on a file that exists. Any thread may use it, one at a time."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro",
        uri=True,
        timeout=busy_seconds,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.row_factory = sqlite3.Row
    try:
        connection.execute("PRAGMA query_only = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def explain_failure(error: sqlite3.Error) -> ServiceError | None:
    """The 503 that tells a client of a file that is busy, full or unusable; None where the error is a bug of ours."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if code is not None else None
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return ServiceError("storage_busy", headers={"Retry-After": "1"})
    if primary == sqlite3.SQLITE_FULL or code in (sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE):
        return ServiceError("storage_full", headers={"Retry-After": "30"})
    if primary in (
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_AUTH,
    ):
        return unavailable(f"The organization's file cannot be used: {error}.")
    return None


def unavailable(message: str) -> ServiceError:
    """The 503 for a file that will not be usable before somebody has seen to it."""
    return ServiceError(
        "storage_unavailable",
        message,
        hint="The operator finds the details in the service's log.",
        headers={"Retry-After": "60"},
    )


@contextmanager
def explained() -> Iterator[None]:
    """Turn SQLite's errors that a client should hear of into ServiceErrors; let the others through."""
    try:
        yield
    except sqlite3.Error as error:
        explanation = explain_failure(error)
        if explanation is None:
            raise
        raise explanation from error
