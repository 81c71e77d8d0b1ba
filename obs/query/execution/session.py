"""A read-only connection for one statement: small, watched, and able to do nothing but read what it may."""

import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from obs.errors import ServiceError
from obs.query.execution.limits import Limits, too_many_bytes, too_slow
from obs.query.execution.watchdog import Watch, Watchdog
from obs.query.language.errors import OqlError
from obs.query.language.nodes import Span
from obs.query.sql import functions as sqlfunctions
from obs.query.sql.compile import compile_touch
from obs.query.sql.compile_rows import Compiled
from obs.storage.connection import explained, open_reader

_LIMITS = {
    # Text of a row, and what a function may make of it: larger values could not be interrupted.
    sqlite3.SQLITE_LIMIT_LENGTH: 1_000_000,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1_000_000,
    sqlite3.SQLITE_LIMIT_COLUMN: 2_000,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 10,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 100,
}
_TOO_MUCH = ("stack overflow", "tree is too large", "query string is too large", "too many")
_FETCH = 256


class Session:
    """Runs statements on one connection, all of them together within the limits of one query."""

    def __init__(self, connection: sqlite3.Connection, watch: Watch, limits: Limits) -> None:
        self._connection = connection
        self._watch = watch
        self._limits = limits

    def fetch(self, compiled: Compiled, more: Mapping[str, Any] | None = None) -> list[Sequence[Any]]:
        """All rows of a statement; `more` are parameters beside its own. Raises OqlError, ServiceError (422, 503)."""
        try:
            cursor = self._connection.execute(compiled.sql, {**compiled.parameters, **(more or {})})
            rows: list[Sequence[Any]] = []
            while batch := cursor.fetchmany(_FETCH):
                rows += batch
                self._check()
        except sqlite3.Error as error:
            self._explain(error)
            raise
        return rows

    def elapsed_seconds(self) -> float:
        """Time since the session began."""
        return time.monotonic() - self._watch.started

    def bytes_scanned(self) -> int | None:
        """Bytes read so far; None where the system does not tell."""
        return self._watch.bytes_scanned()

    def _check(self) -> None:
        """The watchdog looks every 10 ms only; a statement that has just ended may be over a limit too."""
        if self._watch.is_over():
            raise self._breach()

    def _breach(self) -> ServiceError:
        if self._watch.breach == "max_bytes_scanned":
            return too_many_bytes(self._limits, self.bytes_scanned() or 0)
        return too_slow(self._limits, self.elapsed_seconds())

    def _explain(self, error: sqlite3.Error) -> None:
        """Raises what an error of SQLite means to a client, if it means anything."""
        if self._watch.breach is not None:
            raise self._breach() from error
        message = str(error)
        if "integer overflow" in message:
            raise OqlError(
                "oql_type_mismatch",
                Span(0, 0),
                "a sum, or a value without its sign, is larger than 64 bits hold.",
                hint="Multiply by 1.0 first: sum(x * 1.0).",
            ) from error
        if any(sign in message for sign in _TOO_MUCH):
            raise OqlError(
                "oql_too_long", Span(0, 0), "the statement is nested too deeply, or names too much."
            ) from error


class Sessions:
    """Opens sessions, and keeps up to `most_kept` connections for the next. Safe to use from any thread.

    To open a connection and to read the schema takes longer than most statements.
    """

    def __init__(self, most_kept: int = 0) -> None:
        self._watchdog = Watchdog()
        self._most_kept = most_kept
        self._mutex = threading.Lock()
        self._kept: list[_Reader] = []

    @contextmanager
    def open(
        self,
        path: Path,
        tables: Sequence[str],
        limits: Limits,
        *,
        zone: ZoneInfo | None = None,
        timelines: Sequence[Sequence[int]] = (),
        full_text: Sequence[str] = (),
    ) -> Iterator[Session]:
        """A session on the file at `path` that may read `tables`, and sees the file as it is at its first statement.

        `full_text` names those of the tables that are full-text indexes.
        """
        with explained():
            reader = self._take(path) or _Reader(path)
            try:
                connection = reader.connection
                with self._watchdog.watching(connection, limits.max_seconds, limits.max_bytes_scanned) as watch:
                    sqlfunctions.register(connection, zone, timelines, watch.is_over)
                    connection.execute("BEGIN")
                    for table in full_text:  # what FTS5 does when first used is more than the authorizer lets pass
                        connection.execute(compile_touch(table))
                    connection.set_authorizer(_authorizer(frozenset(tables)))
                    yield Session(connection, watch, limits)
                reader.rest()
            except BaseException:
                reader.connection.close()
                raise
            for unused in self._keep(reader):
                unused.connection.close()

    def close(self) -> None:
        """Close the connections that are kept."""
        with self._mutex:
            readers, self._kept = self._kept, []
        for reader in readers:
            reader.connection.close()

    def _take(self, path: Path) -> "_Reader | None":
        with self._mutex:
            for place, reader in enumerate(self._kept):
                if reader.path == path:
                    del self._kept[place]
                    break
            else:
                return None
        if reader.file == _file(path):
            return reader
        reader.connection.close()  # the organization is another one of the same name
        return None

    def _keep(self, reader: "_Reader") -> "list[_Reader]":
        """Keep it, rather than the one that was used the longest ago; those that are not kept any more."""
        with self._mutex:
            self._kept.append(reader)
            excess = max(0, len(self._kept) - self._most_kept)
            unused, self._kept = self._kept[:excess], self._kept[excess:]
        return unused


class _Reader:
    """A small read-only connection, and which file it is on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = _file(path)
        self.connection = open_reader(path, busy_seconds=1)
        try:
            self.connection.row_factory = None
            self.connection.execute("PRAGMA mmap_size = 0")
            self.connection.execute("PRAGMA cache_size = -2000")
            for limit, value in _LIMITS.items():
                self.connection.setlimit(limit, value)
        except BaseException:
            self.connection.close()
            raise

    def rest(self) -> None:
        """Let go of what the session held: the snapshot, and the pages, so that the next one counts what it reads."""
        self.connection.set_authorizer(None)
        self.connection.execute("ROLLBACK")
        self.connection.execute("PRAGMA shrink_memory")


def _file(path: Path) -> tuple[int, int] | None:
    """Which file is at `path`. As long as it is open no other file has the same."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _authorizer(tables: frozenset[str]) -> Any:
    """Permits SELECT, reads of `tables` and of what a statement derives from them, and the functions we compile to."""

    def authorize(action: int, first: str | None, second: str | None, _database: str | None, _by: str | None) -> int:
        allowed = (
            action == sqlite3.SQLITE_SELECT
            or (action == sqlite3.SQLITE_READ and first in tables)
            or (action == sqlite3.SQLITE_FUNCTION and second in sqlfunctions.PERMITTED)
            or (
                action == sqlite3.SQLITE_PRAGMA and first == "data_version" and second is None
            )  # a full-text index asks
        )
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

    return authorize
