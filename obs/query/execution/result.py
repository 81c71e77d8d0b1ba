"""Rows as SQLite gives them into rows as JSON shows them: times, booleans, texts, and buckets without rows."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from obs import times
from obs.query.language.plan import Output, Plan, Read
from obs.sources import Type

Cell = str | int | float | bool | None
Row = list[Cell]


def writers(outputs: Sequence[Output]) -> list[Callable[[Any], Cell]]:
    """For each output, what turns a stored value into JSON."""
    made: list[Callable[[Any], Cell]] = []
    for output in outputs:
        expression = output.expression
        if isinstance(expression, Read) and expression.column.values:
            made.append(_text_of(expression.column.values))
        else:
            made.append(_WRITERS.get(expression.type, _plain) if expression.type else _plain)
    return made


def write_row(row: Sequence[Any], writing: Sequence[Callable[[Any], Cell]]) -> Row:
    """One row as JSON shows it."""
    return [write(value) for write, value in zip(writing, row, strict=True)]


def _text_of(values: Sequence[str]) -> Callable[[Any], Cell]:
    return lambda number: values[number] if number is not None else None


def _plain(value: Any) -> Cell:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    cell: Cell = value
    return cell


def _time(value: Any) -> Cell:
    try:
        return None if value is None else times.format_ms(int(value))
    except (OverflowError, ValueError):  # computed, and outside the years 1 to 9999
        return None


def _boolean(value: Any) -> Cell:
    return None if value is None else bool(value)


_WRITERS: Mapping[Type, Callable[[Any], Cell]] = {Type.TIME: _time, Type.BOOLEAN: _boolean}


def in_order(rows: list[tuple[int, Row]], plan: Plan, places: Sequence[int]) -> list[tuple[int, Row]]:
    """The rows of a time series, each with the number of its bucket, as ORDER BY and LIMIT choose them; ascending.

    `places` says where in a row each output of the plan stands. ORDER BY decides which rows LIMIT keeps, and how the
    rows of one bucket follow each other.
    """
    for order in reversed(plan.order):
        assert order.output is not None
        place = None if order.output < 0 else places[order.output]
        rows.sort(key=lambda row: _rank(row[0] if place is None else row[1][place]), reverse=order.descending)
    kept = rows if plan.limit is None else rows[: plan.limit]
    return sorted(kept, key=itemgetter(0))


def grouped_in_order(rows: list[tuple[int, Row]], plan: Plan, places: Sequence[int]) -> list[tuple[int, Row]]:
    """The rows of groups, some of which SQLite has not seen, as ORDER BY and LIMIT choose them; else by their groups.

    What ORDER BY names without being a column of the answer does not count for them.
    """
    groups = [place for place, output in zip(places, plan.outputs, strict=True) if output.group is not None]
    rows = sorted(rows, key=lambda row: [_rank(row[1][place]) for place in groups])
    for order in reversed(plan.order):
        if order.output is not None:
            rows.sort(key=partial(_cell_rank, places[order.output]), reverse=order.descending)
    return rows if plan.limit is None else rows[: plan.limit]


def _cell_rank(place: int, row: tuple[int, Row]) -> tuple[bool, Any]:
    return _rank(row[1][place])


def _rank(cell: Cell) -> tuple[bool, Any]:
    return cell is not None, cell
