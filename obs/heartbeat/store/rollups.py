"""Rollups of runs by the hour, the day and the week of their start: which are missing, reading them, storing them.

A series is the runs of a job in one place (its attribution) with one status and exit code. For each hour, day and week,
a cell counts the runs of a series. The totals of an hour, and of each five minutes, count the runs of each status.

An hour is rolled up in three steps: note an attempt, read the runs, and store the cells if the attempt is still noted.
A run that changes in between removes the note (triggers of the schema), and nothing is stored. A day is rolled up from
its hours in the same way, and a week from its days.
"""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, cast, get_args

from obs.heartbeat.source import STATUS_NUMBERS_SQL
from obs.storage.connection import first_value
from obs.storage.packed import LARGEST_BLOB, pack, unpack
from obs.times import HOUR_MS

LARGEST_TOTAL_MS = 2**38
"""Hours whose runs took longer than this in total, 8.7 years, are not rolled up: so the mean over three years of hours
is computed without rounding (2^53)."""

Series = tuple[int, int, int | None, int | None]
"""The job, status, attribution and exit code of runs."""

Unit = Literal["hour", "day", "week"]
_PARTS: Mapping[Unit, tuple[Unit, int]] = {"day": ("hour", 24), "week": ("day", 7)}
"""What days and weeks are rolled up from: the unit, and how many of it."""

_TOTALS = {"hour": 1, "five_minutes": 12}
"""The units of the tables of totals: how many of them an hour has."""
_OF_HOUR = {
    unit: f"totals_by_{unit} WHERE status IN ({STATUS_NUMBERS_SQL})"
    f" AND {unit} >= ?1 * {count} AND {unit} < (?1 + 1) * {count}"
    for unit, count in _TOTALS.items()
}


class Cell(NamedTuple):
    """What is stored of some runs: how many, how many with a duration, the durations, the first and the last start."""

    runs: int
    timed: int
    total_ms: int | None
    least_ms: int | None
    most_ms: int | None
    first_at: int
    last_at: int
    durations: bytes | None


@dataclass(frozen=True, slots=True)
class Counted:
    """The cells of an hour, a day or a week. `number` counts the unit from 1970; its weeks begin on Thursdays.

    Only hours have `totals`: for each of their units, the cells by status and the number of the unit.
    """

    unit: Unit
    number: int
    cells: Mapping[Series, Cell]
    totals: Mapping[str, Mapping[tuple[int, int], Cell]] = field(default_factory=dict)


def hours_to_roll_up(db: sqlite3.Connection, oldest: int, end: int) -> list[int]:
    """The hours from `oldest` up to, not including, `end` that are not rolled up, the latest day first.

    Within a day they ascend: SQLite fills the pages of a table if rows are added in the order of their key. Hours
    before the first run are left out, except for hours with stored totals whose runs are gone.
    """
    first = _first(db, oldest)
    rolled = "SELECT hour FROM rolled_up_hours WHERE hour >= ? AND hour < ? AND attempt IS NULL"
    known = {row[0] for row in db.execute(rolled, (first, end))}
    hours = [] if first is None else [hour for hour in range(first, end) if hour not in known]
    return sorted(hours, key=lambda hour: -(hour // 24))


def _first(db: sqlite3.Connection, oldest: int) -> int | None:
    """The first hour of the first week from `oldest` on that has runs or stored totals: a week is rolled up whole."""
    hours = f"SELECT min(started_at) / {HOUR_MS} AS hour FROM runs WHERE started_at >= ? UNION ALL"
    hours += f" SELECT min(hour) FROM totals_by_hour WHERE status IN ({STATUS_NUMBERS_SQL})"
    return cast("int | None", first_value(db, f"SELECT min(hour) / 168 * 168 FROM ({hours})", (oldest * HOUR_MS,)))


def missing(db: sqlite3.Connection, unit: Unit) -> list[int]:
    """The days or weeks that are not rolled up although all their parts are, ascending."""
    part, count = _PARTS[unit]
    is_done = f"SELECT 1 FROM rolled_up_{unit}s AS done WHERE done.{unit} = {part} / {count} AND done.attempt IS NULL"
    whole = f"SELECT {part} / {count} AS number FROM rolled_up_{part}s WHERE attempt IS NULL"
    whole += f" GROUP BY number HAVING count(*) = {count} AND NOT EXISTS ({is_done}) ORDER BY number"
    return [row[0] for row in db.execute(whole)]


def forget_before(db: sqlite3.Connection, oldest: int, limit: int) -> int:
    """Delete the marks of at most `limit` hours before the first one to roll up, and series without cells."""
    old = "SELECT hour FROM rolled_up_hours WHERE ?1 IS NULL OR hour < ?1 ORDER BY hour LIMIT ?2"
    forget = f"DELETE FROM rolled_up_hours WHERE hour IN ({old})"
    forgotten = db.execute(forget, (_first(db, oldest), limit)).rowcount
    if forgotten:
        gone = (f"NOT EXISTS (SELECT 1 FROM series_by_{unit} WHERE series_id = series.id)" for unit in get_args(Unit))
        db.execute(f"DELETE FROM series WHERE {' AND '.join(gone)}")
    return forgotten


def note_attempt(db: sqlite3.Connection, unit: Unit, number: int, attempt: int) -> None:
    """Note an attempt to roll up an hour, a day or a week; the latter only where all its parts are rolled up."""
    part, count = _PARTS.get(unit, ("hour", 0))
    rolled = f"SELECT count(*) FROM rolled_up_{part}s WHERE attempt IS NULL"
    whole = f" WHERE {count} = ({rolled} AND {part} >= ?1 * {count} AND {part} < (?1 + 1) * {count})"
    db.execute(f"INSERT OR REPLACE INTO rolled_up_{unit}s SELECT ?1, ?2{whole}", (number, attempt))


def read(db: sqlite3.Connection, unit: Unit, number: int) -> Counted | None:
    """The cells of an hour, from its runs, or of a day or a week, from its parts.

    None where the durations are too long, negative, or too many for one value: it cannot be rolled up.
    """
    if unit == "hour":
        by = {each: f"status, started_at / {HOUR_MS // count}" for each, count in _TOTALS.items()}
        totals = {each: _cells_of_runs(db, number, key) for each, key in by.items()}
        counted = Counted(unit, number, _cells_of_runs(db, number, _SERIES), totals)
    else:
        parts: dict[Series, list[Cell]] = defaultdict(list)
        part, count = _PARTS[unit]
        for series, cell in _stored(db, part, number * count, (number + 1) * count):
            parts[series].append(cell)
        counted = Counted(unit, number, {series: _together(cells) for series, cells in parts.items()})
    total_ms = sum(cell.total_ms or 0 for cell in counted.cells.values())
    for cell in (*counted.cells.values(), *counted.totals.get("hour", {}).values()):
        if (cell.least_ms or 0) < 0 or len(cell.durations or b"") > LARGEST_BLOB:
            return None
    return None if unit == "hour" and total_ms > LARGEST_TOTAL_MS else counted


def _cells_of_runs(db: sqlite3.Connection, hour: int, key: str) -> dict[Any, Cell]:
    """The cells of the runs of an hour, by the columns of `key`."""
    every = "json_group_array(duration_ms) FILTER (WHERE duration_ms IS NOT NULL)"
    cells = f"SELECT count(*), min(started_at), max(started_at), {every}, {key} FROM runs"
    of_hour = (hour * HOUR_MS, (hour + 1) * HOUR_MS)
    rows = db.execute(f"{cells} WHERE started_at >= ? AND started_at < ? GROUP BY {key}", of_hour)
    return {tuple(key): _cell(runs, json.loads(durations), first, last) for runs, first, last, durations, *key in rows}


def _together(cells: Sequence[Cell]) -> Cell:
    durations = (duration for cell in cells if cell.durations for duration in unpack(cell.durations))
    first, last = min(cell.first_at for cell in cells), max(cell.last_at for cell in cells)
    return _cell(sum(cell.runs for cell in cells), durations, first, last)


def _cell(runs: int, unsorted: Iterable[int], first: int, last: int) -> Cell:
    if not (durations := sorted(unsorted)):
        return Cell(runs, 0, None, None, None, first, last, None)
    return Cell(runs, len(durations), sum(durations), durations[0], durations[-1], first, last, pack(durations))


_SERIES = "job_id, status, attribution_id, exit_code"
_CELL = ", ".join(Cell._fields)


def _stored(db: sqlite3.Connection, unit: Unit, first: int, end: int) -> list[tuple[Series, Cell]]:
    cells = f"series CROSS JOIN series_by_{unit} ON series_id = series.id AND {unit} >= ? AND {unit} < ?"
    rows = db.execute(f"SELECT {_SERIES}, {_CELL} FROM {cells}", (first, end))
    return [((row[0], row[1], row[2], row[3]), Cell(*row[4:])) for row in rows]


def _stored_totals(db: sqlite3.Connection, unit: str, hour: int) -> dict[tuple[int, int], Cell]:
    rows = db.execute(f"SELECT status, {unit}, {_CELL} FROM {_OF_HOUR[unit]}", (hour,))
    return {(row[0], row[1]): Cell(*row[2:]) for row in rows}


def outdated(db: sqlite3.Connection) -> int:
    """How many of the hours, days and weeks that are rolled up differ from what `read` counts."""
    found = 0
    for unit in get_args(Unit):
        for (number,) in db.execute(f"SELECT {unit} FROM rolled_up_{unit}s WHERE attempt IS NULL").fetchall():
            totals = {each: _stored_totals(db, each, number) for each in _TOTALS if unit == "hour"}
            stored = Counted(unit, number, dict(_stored(db, unit, number, number + 1)), totals)
            found += read(db, unit, number) != stored
    return found


def keep(db: sqlite3.Connection, counted: Counted, attempt: int) -> bool:
    """Store the cells of a unit, and mark it as rolled up; False if a run has changed since the attempt."""
    unit, number = counted.unit, counted.number
    noted = db.execute(f"SELECT 1 FROM rolled_up_{unit}s WHERE {unit} = ? AND attempt = ?", (number, attempt))
    if noted.fetchone() is None:
        return False
    db.execute(f"DELETE FROM series_by_{unit} WHERE {unit} = ? AND series_id IN (SELECT id FROM series)", (number,))
    key = "job_id = ? AND status = ? AND ifnull(attribution_id, 0) = ifnull(?, 0)"
    key += " AND ifnull(exit_code, -9223372036854775807) = ifnull(?, -9223372036854775807)"
    db.executemany(f"INSERT OR IGNORE INTO series ({_SERIES}) VALUES (?, ?, ?, ?)", counted.cells)
    values = ", ".join("?" * len(Cell._fields))
    add = f"INSERT INTO series_by_{unit} (series_id, {unit}, {_CELL}) SELECT id, ?, {values} FROM series WHERE {key}"
    db.executemany(add, [(number, *cell, *series) for series, cell in counted.cells.items()])
    for each, totals in counted.totals.items():
        db.execute(f"DELETE FROM {_OF_HOUR[each]}", (number,))
        add = f"INSERT INTO totals_by_{each} (status, {each}, {_CELL}) VALUES (?, ?, {values})"
        db.executemany(add, [(*key, *cell) for key, cell in totals.items()])
    db.execute(f"UPDATE rolled_up_{unit}s SET attempt = NULL WHERE {unit} = ?", (number,))
    return True
