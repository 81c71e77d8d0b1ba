"""The limits of a query, and its read-only connection, which can only read its tables and is stopped at the limits."""

import json
import math
import os
import re
import sqlite3
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from obs.errors import ServiceError
from obs.query.language.errors import OqlError
from obs.query.language.functions import FUNCTIONS, Number, SqlFunction, deviation, null_safe
from obs.query.language.nodes import Span
from obs.query.language.plan import Plan, Range, Scan, Timeline
from obs.query.sql.expressions import OPERATOR_FUNCTIONS
from obs.query.sql.select import OPEN_VIRTUAL, SqlStatement
from obs.storage.connection import explained, open_reader
from obs.storage.packed import pack, squares, total, unpack
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, offset_ms, write_duration

_SQLITE_LIMITS = {
    # The text of a row, and what a function may return: SQLite cannot be interrupted while it handles one value.
    sqlite3.SQLITE_LIMIT_LENGTH: 1_000_000,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1_000_000,
    sqlite3.SQLITE_LIMIT_COLUMN: 2_000,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 10,
}
_TOO_COMPLEX = ("stack overflow", "too large", "too many", "too big", "too complex")
"""Parts of SQLite's messages for a statement that is beyond its limits."""
_SCALARS = {each.sqlite for each in FUNCTIONS.values() if each.sqlite and not each.aggregate} | {*OPERATOR_FUNCTIONS}
_AGGREGATES = {each.sqlite for each in FUNCTIONS.values() if each.sqlite and each.aggregate}
_CALLED = (  # the functions that a query may call
    ["->>", "char", "coalesce", "count", "glob", "instr", "length", "like", "match", "max", "min", "nullif", "sum"]
    + ["obs_bins", "obs_bucket", "obs_bucket_ms", "obs_deviation", "obs_item", "obs_local", "obs_part", "row_number"]
    + [function.name for function in (*_SCALARS, *_AGGREGATES)]
    + [name for each in FUNCTIONS.values() if isinstance(each.sql, str) for name in re.findall(r"\w+(?=\()", each.sql)]
)
_PRAGMAS = ("cache_size", "data_version", "mmap_size", "schema_version", "shrink_memory", "temp_store")
_PERMITTED = {
    (sqlite3.SQLITE_SELECT, None),
    *((sqlite3.SQLITE_FUNCTION, name) for name in _CALLED),
    *((sqlite3.SQLITE_PRAGMA, name) for name in _PRAGMAS),
    *((sqlite3.SQLITE_TRANSACTION, name) for name in ("BEGIN", "ROLLBACK")),
}
_FETCH_ROWS = 256
_CHECK_STEPS = 20_000  # of SQLite's virtual machine, after which limits are checked: about every two milliseconds


@dataclass(frozen=True, slots=True)
class Limits:
    """What the queries of an organization may use: each query by itself, but for `rate_per_minute`."""

    max_rows: int
    max_bytes_scanned: int
    max_seconds: float
    max_length: int
    rate_per_minute: int
    may_spill: bool = True  # whether sorting may write to the disk; if not, it needs more memory


class Session:
    """Runs SQL statements on one connection; all of them together are within the limits of one query.

    It is created on the thread that runs the query. Linux counts what a thread asks of the kernel (``rchar`` in
    ``/proc/thread-self/io``): with a small cache and no memory map, what SQLite reads. Elsewhere bytes are not limited.
    """

    def __init__(self, connection: sqlite3.Connection, limits: Limits) -> None:
        self._connection, self.limits = connection, limits
        self._started = time.monotonic()
        self._refusal: ServiceError | None = None
        self._io: int | None = None
        with suppress(OSError):
            self._io = os.open("/proc/thread-self/io", os.O_RDONLY | os.O_CLOEXEC)
        self._bytes_before = 0
        self._bytes_before = self.bytes_scanned() or 0
        connection.set_progress_handler(lambda: self._check() is not None, _CHECK_STEPS)

    def fetch(self, statement: SqlStatement, more: Mapping[str, Any] | None = None) -> list[Sequence[Any]]:
        """All rows of a statement; `more` are parameters beside its own. Raises OqlError, ServiceError (422, 503)."""
        try:
            cursor = self._connection.execute(statement.sql, {**statement.parameters, **(more or {})})
            rows: list[Sequence[Any]] = []
            while batch := cursor.fetchmany(_FETCH_ROWS):
                rows += batch
                if (refusal := self._check()) is not None:
                    raise refusal
        except sqlite3.Error as error:
            if (explanation := self._refusal or _explanation(str(error))) is not None:
                raise explanation from error
            raise
        return rows

    def bytes_scanned(self) -> int | None:
        """Bytes read so far; None where the system does not count them."""
        return None if self._io is None else int(os.pread(self._io, 32, 0).split(None, 2)[1]) - self._bytes_before

    def seconds(self) -> float:
        return time.monotonic() - self._started

    def close(self) -> None:
        if self._io is not None:
            os.close(self._io)

    def _check(self) -> ServiceError | None:
        """The error once a limit is exceeded. SQLite asks while a statement runs, and stops it."""
        if self._refusal is None:
            scanned, seconds = self.bytes_scanned(), self.seconds()
            if scanned is not None and scanned > self.limits.max_bytes_scanned:
                most = self.limits.max_bytes_scanned
                message = f"The query was stopped after reading {scanned} bytes; {most} are allowed."
                self._refusal = _exceeded("max_bytes_scanned", most, scanned, message, _NARROWER)
            elif seconds > self.limits.max_seconds:
                self._refusal = too_slow(self.limits, seconds)
        return self._refusal


def _explanation(message: str) -> OqlError | None:
    """The error of the statement that a message of SQLite means, if it means one."""
    if "integer overflow" in message:
        message = "a sum or an absolute value does not fit into 64 bits."
        return OqlError("oql_type_mismatch", Span(0, 0), message, hint="Multiply by 1.0 first: sum(x * 1.0).")
    return too_complex() if any(part in message for part in _TOO_COMPLEX) else None


def too_complex() -> OqlError:
    return OqlError("oql_too_long", Span(0, 0), "the statement is nested too deeply, or has too many or long parts.")


class _Opened:
    """A file that is open for queries. While they read the same tables, SQLite keeps the statements it has compiled.

    It compiles them again after a function or the authorizer is set, so the functions find here what a query changes.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.zone: ZoneInfo | None = None
        self.timelines: Sequence[Timeline] = ()
        self._permitted: object = None
        connection.row_factory = None
        for limit, value in _SQLITE_LIMITS.items():
            connection.setlimit(limit, value)
        of_query = (
            SqlFunction("obs_part", _part),
            SqlFunction("obs_bins", _bins),
            SqlFunction("obs_deviation", deviation),
            SqlFunction("obs_item", null_safe(lambda items, place: json.loads(items)[place])),
            SqlFunction("obs_local", null_safe(self._local)),
            SqlFunction("obs_bucket", lambda number, time: self.timelines[number].bucket(time)),
            SqlFunction("obs_bucket_ms", lambda number, bucket: self.timelines[number].length_ms(bucket)),
        )
        for name, python in (*_SCALARS, *of_query):
            connection.create_function(name, -1, python, deterministic=True)
        for name, python in _AGGREGATES:
            aggregate: Any = python
            connection.create_aggregate(name, -1, aggregate)

    def begin(self, plan: Plan, scans: Sequence[Scan], limits: Limits) -> None:
        """Begin a transaction in which statements may read the tables of a plan, and call the functions of queries."""
        self.zone = plan.timezone
        self.timelines = [scan.timeline for scan in scans if scan.timeline is not None]
        execute = self.connection.execute
        temp_store = "DEFAULT" if limits.may_spill else "MEMORY"
        # With a small cache and no memory map, the bytes that the thread reads are those that SQLite reads.
        for pragma in ("mmap_size = 0", "cache_size = -2000", f"temp_store = {temp_store}"):
            execute(f"PRAGMA {pragma}")
        execute("BEGIN")
        tables = plan.source.tables + (plan.around.source.tables if plan.around is not None else ())
        permitted = (tables, *execute("PRAGMA schema_version"))
        if permitted == self._permitted:
            return
        self.connection.set_authorizer(None)
        searched = [column.search for column in plan.source.columns if column.search]
        for virtual_table in ("json_each", *searched):  # the authorizer would refuse what they do when first used
            execute(OPEN_VIRTUAL.format(virtual_table))

        def authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
            """Permits SELECT, reads of `tables` and of subqueries over them, and the functions that are compiled to."""
            what = second if action == sqlite3.SQLITE_FUNCTION else first
            is_permitted = what in tables if action == sqlite3.SQLITE_READ else (action, what) in _PERMITTED
            return sqlite3.SQLITE_OK if is_permitted else sqlite3.SQLITE_DENY

        self.connection.set_authorizer(authorize)
        self._permitted = permitted

    def _local(self, time: Number) -> int | None:
        assert self.zone is not None
        try:
            return int(time) + offset_ms(int(time), self.zone)
        except OverflowError:  # before the year 1 or after 9999
            return None


class Reader:
    """Opens the files of queries. With `keeps`, for one thread: the last one stays open for the next, until `close`."""

    def __init__(self, *, keeps: bool = False) -> None:
        self._keeps = keeps  # opening a file and reading its schema takes more than a millisecond
        self._kept: dict[int, _Opened] = {}  # at most one, by the inode

    @contextmanager
    def open(self, path: Path) -> Iterator[_Opened]:
        inode = 0
        with suppress(FileNotFoundError):  # SQLite reports it
            inode = path.stat().st_ino
        opened = self._kept.pop(inode, None) or _Opened(open_reader(path, 1))
        self.close()
        try:
            yield opened
            if self._keeps:
                opened.connection.set_progress_handler(None, 0)
                opened.connection.execute("ROLLBACK")
                opened.connection.execute("PRAGMA shrink_memory")  # the next query counts all bytes that it reads
                self._kept[inode] = opened
        finally:
            if not self._kept:
                opened.connection.close()

    def close(self) -> None:
        while self._kept:
            self._kept.popitem()[1].connection.close()


@contextmanager
def open_session(path: Path, plan: Plan, scans: Sequence[Scan], limits: Limits, reader: Reader) -> Iterator[Session]:
    """A session that may read the tables of a plan in a file, as of its first statement. Raises ServiceError (503)."""
    with explained(), reader.open(path) as opened, closing(Session(opened.connection, limits)) as session:
        opened.begin(plan, scans, limits)
        yield session


_OF_PART: Any = {"total": total, "least": itemgetter(0), "most": itemgetter(-1), "sorted": pack}
_OF_PART["squares_high"] = lambda values: squares(values) >> 32
_OF_PART["squares_low"] = lambda values: squares(values) & 0xFFFFFFFF


def _part(packed: bytes, first: int, last: int, name: str) -> Any:
    """What the column `name` of a cell would be if the cell only had its values from `first` to `last`."""
    values = unpack(packed)
    start = bisect_left(values, first)
    end = bisect_right(values, last, start)
    return end - start if name == "valued" else _OF_PART[name](values[start:end])


def _bins(packed: bytes, without: int, first: int | None, last: int, width: int, ahead: int) -> str:
    """As JSON, the start and the number of rows of each bin with values from `first` to `last`. A bin starts `ahead` of
    a multiple of `width`. If `first` is None, the only bin is null, with the rows `without` a value.
    """
    if first is None:
        return f"[[null,{without}]]"  # json.dumps takes twice the time
    values, bins = unpack(packed), []
    place, end = bisect_left(values, first), bisect_right(values, last)
    while place < end:
        start = (values[place] + ahead) // width * width - ahead
        place, before = bisect_left(values, start + width, place, end), place
        bins.append(f"[{max(start, 0)},{place - before}]")
    return f"[{','.join(bins)}]"


# What is said of a query that goes over a limit. The hints name numbers that work.
_UNITS_MS = (DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, 1)
_NARROWER = "Narrow the window, or choose one job with WHERE job = '...'."


def _exceeded(limit: str, maximum: float, actual: int | float, message: str, hint: str) -> ServiceError:
    extra = {"limit": limit, "max": maximum, "actual": actual}
    return ServiceError("query_limit_exceeded", message, hint=hint, extra=extra)


def too_much_memory(maximum: int) -> ServiceError:
    message = f"The query needs more than {maximum >> 20} MB of memory."
    hint = "Ask for fewer rows: narrow the window, raise EVERY, or group by something with fewer values."
    return ServiceError("query_limit_exceeded", message, hint=hint, extra={"limit": "memory", "max": maximum})


def too_many_buckets(window: Range, interval_ms: int, count: int, groups: int, limits: Limits) -> ServiceError:
    rows = count * groups
    what = f"{count} buckets" if groups == 1 else f"{count} buckets for each of {groups} groups"
    ways = []
    each = limits.max_rows // groups
    if each >= 2:
        unit = next(unit for unit in _UNITS_MS if interval_ms % unit == 0)
        interval = -(-((window.length_ms - 1) // (each - 1) + 1) // unit) * unit
        ways.append(f"raise EVERY from {write_duration(interval_ms)} to at least {write_duration(interval)}")
        ways.append(f"narrow the window to {longest((each - 1) * interval_ms)}")
    if groups > 1 and limits.max_rows >= count:
        ways.append(f"keep the largest groups with TOP {limits.max_rows // count}")
    if not ways:
        ways.append("remove BY, or group by something with fewer values")
    hint = ", or ".join(ways)
    message = f"The result would have {rows} rows ({what}); {limits.max_rows} are allowed."
    return _exceeded("max_rows", limits.max_rows, rows, message, f"{hint[0].upper()}{hint[1:]}.")


def too_many_rows(limits: Limits, *, grouped: bool) -> ServiceError:
    most = limits.max_rows
    way = f"add TOP {most} or LIMIT {most}" if grouped else f"add LIMIT {most}"
    hint = f"Narrow the window, choose fewer rows with WHERE, or {way}."
    return _exceeded("max_rows", most, most + 1, f"The result has more than {most} rows.", hint)


def too_slow(limits: Limits, seconds: float) -> ServiceError:
    most = limits.max_seconds
    message = f"The query was stopped after {seconds:.2f} s; {most} s are allowed."
    return _exceeded("max_seconds", most, math.ceil(seconds * 1000) / 1000, message, _NARROWER)


def longest(length_ms: int) -> str:
    """The longest duration of at most `length_ms` that is a multiple of the largest unit it can be written in."""
    unit = next(unit for unit in _UNITS_MS if length_ms >= unit)
    return write_duration(length_ms // unit * unit)
