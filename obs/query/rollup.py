"""Whether a plan can be answered out of a rollup, exactly as from the rows, and for which part of its window."""

from collections.abc import Iterator
from itertools import groupby

from obs.query.compile import compile_rolled_hours
from obs.query.plan import Aggregate, Apply, Checked, Plan, Read, walk
from obs.query.reading import Reading, Rolled
from obs.query.session import Session
from obs.query.timeline import Range
from obs.sources import Grain, Rollup
from obs.times import HOUR_MS

_MOST_WITHOUT = 200
"""Hours that may be left out one by one; each is a parameter of the statement."""
_OF_AN_HOUR = ("hour", "weekday", "date")
"""Functions that say the same of a time and of the start of its hour, in UTC."""


def rolled(plan: Plan, reading: Reading, session: Session) -> Rolled | None:
    """What to read from the rollup of the plan's source; None where the rows alone can say, or say it as quickly."""
    grain = grain_for(plan)
    if grain is None or not _on_the_hour(reading):
        return None
    first, end = -(-reading.window.start // HOUR_MS), reading.window.end // HOUR_MS
    if first >= end:
        return None
    known = {row[0] for row in session.fetch(compile_rolled_hours(plan, first, end))}
    if 2 * len(known) < end - first:
        return None
    first, end = min(known), max(known) + 1
    without = tuple(hour for hour in range(first, end) if hour not in known)
    if len(without) > _MOST_WITHOUT:
        return None
    return Rolled(grain, first, end, without, tuple(_stretches(reading.window, first, end, without)))


def grain_for(plan: Plan) -> Grain | None:
    """The table of the rollup that can say what the plan asks for, whatever the window; None for the rows alone."""
    rollup = plan.source.rollup
    if rollup is None or not plan.grouped:
        return None
    written = [output.expression for output in plan.outputs] + [order.expression for order in plan.order]
    written += [plan.having] if plan.having is not None else []
    aggregates = [part for each in written for part in walk(each) if isinstance(part, Aggregate)]
    if not all(_is_answered(aggregate, rollup) for aggregate in aggregates):
        return None
    chosen = [*plan.groups, *([plan.where] if plan.where is not None else [])]
    chosen += [aggregate.filter for aggregate in aggregates if aggregate.filter is not None]
    read = {name for each in chosen for name in _read(each, in_utc=plan.timezone is None)}
    if any(aggregate.percent is not None for aggregate in aggregates) and not read <= rollup.values.columns:
        return None
    return next((grain for grain in rollup.grains if read <= grain.columns), None)


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


def _read(expression: Checked, *, in_utc: bool) -> Iterator[str]:
    """The columns that an expression reads; not the time where its hour is enough."""
    match expression:
        case Apply(name=name, arguments=(Read(column=column),)) if column.name == "time" and name in _OF_AN_HOUR:
            if not in_utc:
                yield column.name
        case Read():
            yield expression.column.name
        case Apply():
            for argument in expression.arguments:
                yield from _read(argument, in_utc=in_utc)


def _on_the_hour(reading: Reading) -> bool:
    """Whether every bucket begins on the hour (not so in zones that are half an hour off)."""
    if reading.interval_ms is None:
        return True
    if isinstance(reading.starts, range):
        return reading.starts.start % HOUR_MS == 0 and reading.interval_ms % HOUR_MS == 0
    return all(start % HOUR_MS == 0 for start in reading.starts)


def _stretches(window: Range, first: int, end: int, without: tuple[int, ...]) -> Iterator[Range]:
    """What is left of the window for the rows."""
    if window.start < first * HOUR_MS:
        yield Range(window.start, first * HOUR_MS)
    for _, neighbours in groupby(enumerate(without), lambda numbered: numbered[1] - numbered[0]):
        hours = [hour for _, hour in neighbours]
        yield Range(hours[0] * HOUR_MS, (hours[-1] + 1) * HOUR_MS)
    if end * HOUR_MS < window.end:
        yield Range(end * HOUR_MS, window.end)
