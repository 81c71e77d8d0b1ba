"""Rollups of runs and events by the hour, the day and the week: which are missing, reading them, storing them.

docs/architecture.md says what a series is. For each of these units, a cell counts the rows of a series. Series without
a job have negative ids: from -101 down those of a place, which has attribution 0 if there is none, and down to -100 all
runs with one status, and all events of one kind. The time of a run is its start, that of an event when it arrived.

An hour is rolled up in three steps: note an attempt, read the rows, and store the cells if the attempt is still noted.
A row that changes in between removes the note (triggers of the schema), and nothing is stored. A day is rolled up from
its hours in the same way, and a week from its days.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple, cast, get_args

from obs.storage.connection import first_value
from obs.storage.packed import LARGEST_BLOB, pack, unpack
from obs.times import HOUR_MS

LARGEST_TOTAL_MS = 2**38
"""Hours whose runs of one status took longer than this in total, 8.7 years, are not rolled up: so the mean over three
years of hours is computed without rounding (2^53)."""

Series = tuple[int | None, ...]  # the values of _SERIES: runs have no kind, events no status and exit code
_SERIES = ("job_id", "status", "attribution_id", "exit_code", "kind")

Unit = Literal["hour", "day", "week"]  # numbered from 1970, so that weeks begin on Thursdays
_PARTS: Mapping[Unit, tuple[Unit, int]] = {"day": ("hour", 24), "week": ("day", 7)}  # what they are rolled up from
_TABLES = {"hour": (("hour", 1), ("five_minutes", 12)), "day": (("day", 1),), "week": (("week", 1),)}
"""The units of the cells that are stored with an hour, a day or a week: how many of them there are."""


class Values(NamedTuple):
    """What is stored of the values that some rows have. All but the first is NULL if there are none."""

    valued: int = 0  # how many
    total: Any = None
    least: Any = None
    most: Any = None
    squares_high: Any = None  # the sum of their squares is `squares_high` * 2^32 + `squares_low`
    squares_low: Any = None
    sorted: Any = None  # all of them, packed; NULL for messages, which may be many


class Cell(NamedTuple):
    """What is stored of rows: how many, the first and the last time, durations or lengths of messages, and lateness."""

    runs: int
    first_at: int
    last_at: int
    values: Values
    late: Values


_COLUMNS = ("runs", "first_at", "last_at", *Values._fields, *(f"late_{name}" for name in Values._fields))
_CELL = ", ".join(_COLUMNS)
_DONE = "ifnull(attempt, -1) = -1"  # NULL: rolled up; -1: cannot be, until one of its rows changes
_ROWS = f"""
    SELECT job_id, status, attribution_id, exit_code, NULL, started_at, duration_ms, late_ms FROM runs
    WHERE started_at >= ?1 * {HOUR_MS} AND started_at < ?2 * {HOUR_MS}
    UNION ALL SELECT job_id, NULL, attribution_id, NULL, kind, received_at,
        iif(instr(message, char(0)), message, length(message)), NULL FROM events -- SQLite counts up to the first NUL
    WHERE received_at >= ?1 * {HOUR_MS} AND received_at < ?2 * {HOUR_MS}
"""

Key = tuple[str, int, Series]  # where a cell is stored: the unit, its number, the series


def hours_to_roll_up(db: sqlite3.Connection, oldest: int, end: int) -> list[int]:
    """The hours from `oldest` up to, not including, `end` that are not rolled up, the latest day first.

    Within a day they ascend: SQLite fills the pages of a table if rows are added in the order of their key. Hours
    before the first row are left out, except for hours with stored totals whose runs are gone.
    """
    first = _first(db, oldest)
    rolled = f"SELECT hour FROM rolled_up_hours WHERE hour >= ? AND hour < ? AND {_DONE}"
    known = {row[0] for row in db.execute(rolled, (first, end))}
    hours = [] if first is None else [hour for hour in range(first, end) if hour not in known]
    return sorted(hours, key=lambda hour: -(hour // 24))


def _first(db: sqlite3.Connection, oldest: int) -> int | None:
    """The first hour of the first week from `oldest` on that has rows or stored totals: a week is rolled up whole."""
    hours = f"SELECT min(started_at) / {HOUR_MS} AS hour FROM runs WHERE started_at >= ?1 UNION ALL"
    hours += f" SELECT min(received_at) / {HOUR_MS} FROM events WHERE received_at >= ?1 UNION ALL"
    hours += " SELECT min((SELECT min(hour) FROM series_by_hour WHERE series_id = id)) FROM series WHERE job_id IS NULL"
    return cast("int | None", first_value(db, f"SELECT min(hour) / 168 * 168 FROM ({hours})", (oldest * HOUR_MS,)))


def missing(db: sqlite3.Connection, unit: Unit) -> list[int]:
    """The units, longer than an hour, that are not rolled up although all their parts are, ascending."""
    part, count = _PARTS[unit]
    is_done = f"SELECT 1 FROM rolled_up_{unit}s WHERE {unit} = {part} / {count} AND {_DONE}"
    whole = f"SELECT {part} / {count} AS number FROM rolled_up_{part}s WHERE attempt IS NULL"
    whole += f" GROUP BY number HAVING count(*) = {count} AND NOT EXISTS ({is_done}) ORDER BY number"
    return [row[0] for row in db.execute(whole)]


def forget_before(db: sqlite3.Connection, oldest: int, limit: int) -> int:
    """Delete the marks of at most `limit` hours before the first one to roll up, and series without cells."""
    old = "SELECT hour FROM rolled_up_hours WHERE ?1 IS NULL OR hour < ?1 ORDER BY hour LIMIT ?2"
    delete = f"DELETE FROM rolled_up_hours WHERE hour IN ({old})"
    if forgotten := db.execute(delete, (_first(db, oldest), limit)).rowcount:
        gone = (f"NOT EXISTS (SELECT 1 FROM series_by_{unit} WHERE series_id = series.id)" for unit in get_args(Unit))
        db.execute(f"DELETE FROM series WHERE {' AND '.join(gone)}")
    return forgotten


def note_attempt(db: sqlite3.Connection, unit: Unit, number: int, attempt: int) -> None:
    """Note an attempt to roll up a unit; one longer than an hour only where all its parts are rolled up."""
    part, count = _PARTS.get(unit, ("hour", 0))
    rolled = f"SELECT count(*) FROM rolled_up_{part}s WHERE attempt IS NULL"
    whole = f" WHERE {count} = ({rolled} AND {part} >= ?1 * {count} AND {part} < (?1 + 1) * {count})"
    db.execute(f"INSERT OR REPLACE INTO rolled_up_{unit}s SELECT ?1, ?2{whole}", (number, attempt))


def read(db: sqlite3.Connection, unit: Unit, number: int) -> dict[Key, Cell] | None:
    """The cells of an hour, from its rows, or of a longer unit, from its parts; None if it cannot be rolled up."""
    if unit == "hour":
        rows: dict[Key, list[tuple[Any, ...]]] = defaultdict(list)
        for *key, at, found, late in db.execute(_ROWS, (number, number + 1)):
            value = len(found) if isinstance(found, str) else found
            _, status, attribution, code, kind = key
            of_place, of_all = (None, status, attribution or 0, code, kind), (None, status, None, None, kind)
            by_hour = ((unit, number, series) for series in (tuple(key), of_place, of_all))
            for cell_key in (*by_hour, ("five_minutes", at // 300_000, of_all)):
                rows[cell_key].append((at, value, late))
        cells = {cell_key: _cell(each, is_of_runs=cell_key[2][-1] is None) for cell_key, each in rows.items()}
    else:
        parts: dict[Key, list[Cell]] = defaultdict(list)
        part, count = _PARTS[unit]
        for (_, _, series), cell in _stored(db, part, number * count, (number + 1) * count):
            if (series[0], series[2]) != (None, None):
                parts[unit, number, series].append(cell)
        cells = {cell_key: _together(each) for cell_key, each in parts.items()}
    both = [each for cell in cells.values() for each in (cell.values, cell.late) if each.valued]
    fit = all(each.least >= 0 and len(each.sorted or b"") <= LARGEST_BLOB for each in both)  # into a blob
    return cells if fit and (unit != "hour" or all(each.total <= LARGEST_TOTAL_MS for each in both)) else None


def _cell(rows: Sequence[tuple[Any, ...]], *, is_of_runs: bool) -> Cell:
    """The cell of rows, of which are given: the time, the value, how late."""
    times, values, late = zip(*rows, strict=True)
    of_values, of_late = (_values(column, is_listed=is_of_runs) for column in (values, late))
    return Cell(len(rows), min(times), max(times), of_values, of_late)


def _values(found: Iterable[int | None], *, is_listed: bool) -> Values:
    if not (values := sorted(value for value in found if value is not None)):
        return Values()
    squares = divmod(sum(value * value for value in values), 2**32)
    return Values(len(values), sum(values), values[0], values[-1], *squares, pack(values) if is_listed else None)


def _together(cells: Sequence[Cell]) -> Cell:
    runs, firsts, lasts, values, late = zip(*cells, strict=True)
    return Cell(sum(runs), min(firsts), max(lasts), _all_values(values), _all_values(late))


def _all_values(parts: Sequence[Values]) -> Values:
    if not (given := [part for part in parts if None not in part[:-1]]):
        return Values()
    counts, totals, leasts, mosts, high, low, lists = zip(*given, strict=True)
    squares_high, squares_low = divmod(sum(high) * 2**32 + sum(low), 2**32)
    listed = None if None in lists else pack(sorted(chain.from_iterable(map(unpack, lists))))
    return Values(sum(counts), sum(totals), min(leasts), max(mosts), squares_high, squares_low, listed)


def _stored(db: sqlite3.Connection, unit: str, first: int, end: int) -> Iterator[tuple[Key, Cell]]:
    tables = ("series", f"series_by_{unit}") if unit == "five_minutes" else (f"series_by_{unit}", "series")
    cells = f"{' CROSS JOIN '.join(tables)} ON series_id = series.id AND {unit} >= ? AND {unit} < ?"
    for number, *columns in db.execute(f"SELECT {unit}, {', '.join(_SERIES)}, {_CELL} FROM {cells}", (first, end)):
        runs, first_at, last_at, *both = columns[5:]
        values, late = Values(*both[: len(both) // 2]), Values(*both[len(both) // 2 :])
        yield (unit, number, tuple(columns[:5])), Cell(runs, first_at, last_at, values, late)


def outdated(db: sqlite3.Connection) -> int:
    """How many of the units that are rolled up differ from what `read` counts."""
    found = 0
    for unit in get_args(Unit):
        for (number,) in db.execute(f"SELECT {unit} FROM rolled_up_{unit}s WHERE attempt IS NULL").fetchall():
            stored = (_stored(db, each, number * n, (number + 1) * n) for each, n in _TABLES[unit])
            found += read(db, unit, number) != dict(chain.from_iterable(stored))
    return found


def keep(db: sqlite3.Connection, unit: Unit, number: int, cells: Mapping[Key, Cell] | None, attempt: int) -> bool:
    """Store the cells of a unit and mark it as rolled up, without cells as impossible; False if a row has changed."""
    mark = f"UPDATE rolled_up_{unit}s SET attempt = ? WHERE {unit} = ? AND attempt = ?"
    if db.execute(mark, (-1 if cells is None else None, number, attempt)).rowcount == 0 or cells is None:
        return False
    all_series = {series for _, _, series in cells}
    new_id = "CASE WHEN ?1 IS NULL AND ?3 IS NULL THEN -1 - ifnull(?2, 8 + ?5) WHEN ?1 IS NULL"
    new_id += " THEN (SELECT min(-100, ifnull(min(id), 0)) - 1 FROM series) END"  # else SQLite chooses it
    add_series = f"INSERT OR IGNORE INTO series (id, {', '.join(_SERIES)}) VALUES ({new_id}, ?1, ?2, ?3, ?4, ?5)"
    db.executemany(add_series, all_series)
    null = "-9223372036854775807"
    key = " AND ".join(f"ifnull({each}, {null}) = ifnull(?, {null})" for each in _SERIES)
    cell = ", ".join("?" * len(_COLUMNS))
    for each, count in _TABLES[unit]:
        old = f"{each} >= ?1 * {count} AND {each} < (?1 + 1) * {count}"
        if each == "five_minutes":  # the only cells that are not stored in the order of time
            old += " AND series_id IN (SELECT id FROM series WHERE id BETWEEN -100 AND -1)"
        db.execute(f"DELETE FROM series_by_{each} WHERE {old}", (number,))
        add = f"INSERT INTO series_by_{each} (series_id, {each}, {_CELL}) SELECT id, ?, {cell} FROM series WHERE {key}"
        added = ((cell_key, found) for cell_key, found in cells.items() if cell_key[0] == each)
        db.executemany(add, ((at, *found[:3], *found.values, *found.late, *series) for (_, at, series), found in added))
    return True
