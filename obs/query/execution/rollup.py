"""Whether a plan can be answered out of a rollup, exactly as from the rows, and for which part of its window."""

from collections.abc import Iterator, Sequence

from obs.query.execution.session import Session
from obs.query.execution.window import Range
from obs.query.language.plan import Aggregate, Apply, Checked, Plan, Read, walk
from obs.query.sql.compile import compile_known, compile_stretches
from obs.query.sql.reading import Reading, Rolled
from obs.sources import Grain, Rollup
from obs.times import HOUR_MS

_MOST_SPANS = 200
"""Stretches of a window that are read apart; each is two parameters of the statement."""
_MANY_ROWS = 100_000
"""Rows beside a rollup from which on it is quicker to do without it."""
_OF_A_DAY = ("weekday", "date")
_OF_AN_HOUR = ("hour", *_OF_A_DAY)
"""Functions that say the same of a time and of the start of its hour, in UTC."""


def rolled(plan: Plan, reading: Reading, session: Session) -> Rolled | None:
    """What to read from the rollups of the plan's source; None where the rows alone can say, or say it as quickly."""
    left, spans = [reading.window], []
    for grain in grains_for(plan):
        if not _begins_at(reading, grain.unit_ms):
            continue
        known, rest = _known(grain, left, session)
        if known and len(known) <= _MOST_SPANS and len(rest) <= _MOST_SPANS:
            left = rest
            spans.append((grain, tuple(known)))
    if not spans:
        return None
    hours = Rolled(tuple(spans), tuple(left))
    if 2 * sum(stretch.length_ms for stretch in left) > reading.window.length_ms:
        ((rows,),) = session.fetch(compile_stretches(plan, reading, left), {"most": _MANY_ROWS})
        if rows == _MANY_ROWS:
            return None
    return hours


def grains_for(plan: Plan) -> list[Grain]:
    """The rollups that can say what the plan asks for, whatever its window, in the order in which to try them."""
    rollup = plan.source.rollup
    if rollup is None or not plan.grouped:
        return []
    written = [output.expression for output in plan.outputs] + [order.expression for order in plan.order]
    written += [plan.having] if plan.having is not None else []
    aggregates = [part for each in written for part in walk(each) if isinstance(part, Aggregate)]
    if not all(_is_answered(aggregate, rollup) for aggregate in aggregates):
        return []
    chosen = [*plan.groups, *([plan.where] if plan.where is not None else [])]
    chosen += [aggregate.filter for aggregate in aggregates if aggregate.filter is not None]
    percentiles = any(aggregate.percent is not None for aggregate in aggregates)
    found: list[Grain] = []
    for grain in rollup.grains:
        known = _OF_AN_HOUR if grain.unit_ms == HOUR_MS else _OF_A_DAY
        read = {name for each in chosen for name in _read(each, () if plan.timezone else known)}
        if percentiles and (grain.unit_ms != rollup.values.unit_ms or not read <= rollup.values.columns):
            continue
        if read <= grain.columns and (not found or found[0].columns == grain.columns):
            found.append(grain)
    return found


def _is_answered(aggregate: Aggregate, rollup: Rollup) -> bool:
    """Whether the rollup has what an aggregate needs."""
    match aggregate:
        case Aggregate(name="rate"):
            return True  # its argument is looked at for itself
        case Aggregate(distinct=True):
            return False
        case Aggregate(name="count", arguments=()):
            return True
        case Aggregate(arguments=(Read(column=column),)) if column.name == rollup.measured:
            return aggregate.percent is not None or aggregate.name in ("count", "sum", "avg", "min", "max", "any")
    return False


def _read(expression: Checked, of_the_start: Sequence[str]) -> Iterator[str]:
    """The columns that an expression reads; not the time in a function that may as well be asked of a unit's start."""
    match expression:
        case Apply(name=name, arguments=(Read(column=column),)) if column.name == "time" and name in of_the_start:
            return
        case Read():
            yield expression.column.name
        case Apply():
            for argument in expression.arguments:
                yield from _read(argument, of_the_start)


def _begins_at(reading: Reading, unit_ms: int) -> bool:
    """Whether every bucket begins where a unit does (not so in zones that are half an hour off)."""
    if reading.interval_ms is None:
        return True
    if isinstance(reading.starts, range):
        return reading.starts.start % unit_ms == 0 and reading.interval_ms % unit_ms == 0
    return all(start % unit_ms == 0 for start in reading.starts)


def _known(grain: Grain, stretches: Sequence[Range], session: Session) -> tuple[list[tuple[int, int]], list[Range]]:
    """Of stretches of time the numbers that a rollup has the answer for, as spans, and what is left of them."""
    spans, left = [], []
    unit_ms = grain.unit_ms
    for stretch in stretches:
        first, end = -(-stretch.start // unit_ms), stretch.end // unit_ms
        known = [row[0] for row in session.fetch(compile_known(grain, first, end))] if first < end else []
        start = stretch.start
        for span in _spans(known):
            spans.append(span)
            if start < span[0] * unit_ms:
                left.append(Range(start, span[0] * unit_ms))
            start = span[1] * unit_ms
        if start < stretch.end:
            left.append(Range(start, stretch.end))
    return spans, left


def _spans(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Ascending numbers as spans from one up to, not including, another."""
    if not numbers:
        return
    first = before = numbers[0]
    for number in numbers[1:]:
        if number != before + 1:
            yield first, before + 1
            first = number
        before = number
    yield first, before + 1
