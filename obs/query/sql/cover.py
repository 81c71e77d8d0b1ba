"""Covers: which statements the rollups can answer exactly, and from which of their parts."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from obs.query.language import nodes
from obs.query.language.plan import Aggregate, Apply, Checked, Plan, Range, Read, Scan, columns_of, terms, walk
from obs.query.sql.select import aggregates_of, finds_row, prefix_of
from obs.sources import Grain, Type
from obs.times import DAY_MS, HOUR_MS, SECOND_MS

Span = tuple[int, int]  # consecutive units of a grain: the number of the first, and the number after the last
Part = tuple[int | None, int | None]
"""The rows of a cell whose measured value is in a range, ends included; (None, None) for those without a value."""


@dataclass(frozen=True, slots=True)
class Cover:
    """Which part of a window is read from which rollup. `rest` is read from the rows."""

    spans: tuple[tuple[Grain, tuple[Span, ...]], ...] = ()
    rest: tuple[Range, ...] = ()
    compared: Checked | None = None  # what is measured, where it is compared with constants
    parts: Sequence[Part] = ()  # into which each cell is split then; without any, it means all values
    binned: Apply | None = None  # a histogram, into whose bins each part is split; its last argument is their width
    moments: Sequence[int] = ()  # when comparisons of the time with constants change
    is_wide: bool = True  # whether WHERE chooses many of the cells


_DAY_FUNCTIONS = ("weekday", "date")
_HOUR_FUNCTIONS = ("hour", *_DAY_FUNCTIONS)  # the same for a time and for the start of its hour, or its day in UTC
IS_AFTER: Mapping[str, Sequence[bool]] = {"<": (False,), ">=": (False,), ">": (True,), "<=": (True,)}
"""Where the result of a comparison changes: True is after the constant, False at it. BETWEEN changes at the first one
and after the second one; other operators change at and after each."""
_COMPARISONS = (*IS_AFTER, "=", "!=", "in", "between", "is null", "is not null")
_LARGEST = 2**53  # above all values that cells have measured
_MAX_PARTS = 20  # into how many parts a cell is split at most; with more, reading the rows may be faster


def usable_grains(plan: Plan, scan: Scan) -> tuple[list[Grain], Cover]:
    """The rollups that can answer a plan exactly, in the order in which to try them, and a cover without any spans."""
    if not plan.source.grains or not plan.grouped or plan.around is not None:
        return [], Cover()
    found = [part for part in walk(*plan.expressions) if isinstance(part, Aggregate) and not finds_row(plan, part)]
    aggregates = [each for part in found for each in aggregates_of(part)]
    chosen = [*plan.groups, plan.where, *(aggregate.filter for aggregate in aggregates)]
    chosen += [each for aggregate in aggregates if templates_of(aggregate) is _OF_KEY for each in aggregate.arguments]
    comparisons = [each for each in walk(*chosen) if _is_comparison(each)]
    binned = next(filter(None, map(_histogram, plan.groups)), None)
    of_measured = [*comparisons, *([] if binned is None else [binned])]
    compared = next((each.arguments[0] for each in of_measured), None)
    parts = _parts(comparisons, plan.where, is_needed=binned is not None)
    is_known = len(parts) <= _MAX_PARTS and all(each.arguments[0] == compared for each in of_measured)
    is_known = is_known and (binned is None or not any(map(_is_comparison, walk(*plan.groups))))
    if not is_known or any(template_of(aggregate, compared, binned) is None for aggregate in aggregates):
        return [], Cover()
    grains: list[Grain] = []
    for grain in plan.source.grains:
        same_clock = all(offset % grain.unit_ms == 0 for _, _, offset in scan.offsets)
        same = _HOUR_FUNCTIONS if grain.unit_ms <= HOUR_MS else _DAY_FUNCTIONS if grain.unit_ms == DAY_MS else ()
        others = (each for each in chosen if binned is None or _histogram(each) != binned)
        columns = {name for each in others for name in _columns(each, same if same_clock else ())}
        is_short = scan.timeline is None or grain.unit_ms <= scan.timeline.interval_ms  # it may lie within one bucket
        if is_short and columns <= grain.columns and (not grains or grains[0].columns == grain.columns):
            grains.append(grain)
    moments = sorted(moment for each in walk(*chosen) for moment in _changes(each, scan.now_ms))
    return grains, Cover(compared=compared, parts=parts, binned=binned, moments=moments)


def needs_value(where: Checked | None) -> bool:
    """Whether WHERE chooses no rows without a measured value."""
    return any(_is_comparison(term) and term.name != "is null" for term in terms(where))


def terms_of_series(plan: Plan) -> Checked | None:
    """The terms of WHERE that are the same for all rows of a series; None without any."""
    chosen = [term for term in terms(plan.where) if set() < columns_of(term) <= plan.source.apart()]
    return Apply(chosen[0].span, "and", tuple(chosen), Type.BOOLEAN) if len(chosen) > 1 else next(iter(chosen), None)


_OF_ROWS = {"count": "coalesce(sum({runs}), 0)"}
_OF_MEASURED = {
    "count": "coalesce(sum({valued}), 0)",
    "sum": "sum({total})",
    "avg": "(CAST(sum({total}) AS REAL) / nullif(sum({valued}), 0))",
    **dict.fromkeys(("min", "any"), "min({least})"),
    "max": "max({most})",
    "stddev": "obs_deviation(sum({valued}), sum({total}), sum({squares_high}), sum({squares_low}))",
    "percentile": "obs_percentile({sorted}, {fractions})",
}
OF_TIME = dict.fromkeys(("min", "first", "any"), "min({first_at})") | dict.fromkeys(("max", "last"), "max({last_at})")
_OF_KEY = {
    **_OF_ROWS,
    "count distinct": "count(DISTINCT {key})",
    "sum": "sum({key} * {runs})",
    "avg": "(CAST(sum({key} * {runs}) AS REAL) / nullif(sum({runs}), 0))",
    **dict.fromkeys(("min", "any"), "min({key})"),
    "max": "max({key})",
    "first": "obs_first({first_at}, {key})",
    "last": "obs_last({last_at}, {key})",
}
"""Aggregates from the columns of cells: of ``*``, what is measured, the time, or the ``key`` that rows share."""
_WHOLE = (Type.INTEGER, Type.DURATION)


def templates_of(aggregate: Aggregate) -> Mapping[str, str]:
    """The SQL of aggregates by name, from the columns of cells for the same argument."""
    match aggregate.arguments:
        case ():
            return _OF_ROWS
        case (one,) if prefix_of(one) is not None and (aggregate.percent is None or isinstance(one, Read)):
            return _OF_MEASURED
        case (Read(column=column),) if column.name == "time" and aggregate.name in OF_TIME:
            return OF_TIME
    return _OF_KEY


def template_of(aggregate: Aggregate, compared: Checked | None, binned: Apply | None) -> str | None:
    """The SQL of an aggregate from the columns of cells; None if these do not have what it needs."""
    templates = templates_of(aggregate)
    name = aggregate.name if aggregate.percent is None else "percentile"
    if compared is not None:
        is_compared = aggregate.arguments == (compared,)
        is_unknown = templates is _OF_MEASURED and (not is_compared or binned is not None)
        if templates is OF_TIME or name in ("first", "last") or is_unknown:
            return None  # of the rows of a part, neither the times are known nor what else was measured; of a bin, less
    if templates is _OF_KEY and name in ("sum", "avg") and aggregate.arguments[0].type not in _WHOLE:
        return None  # of other numbers, the sum depends on the order in which they are added
    return templates.get(f"{name} distinct" if aggregate.distinct else name)


def _columns(expression: Checked | None, functions: Sequence[str]) -> Iterator[str]:
    """The columns that an expression reads, but for the time in `functions`, and what it compares with constants."""
    match expression:
        case Apply() if _is_comparison(expression) or _changes(expression, 0):
            return
        case Apply(name=name, arguments=(Read(column=column),)) if column.name == "time" and name in functions:
            return
        case Read():
            yield expression.column.name
        case Apply():
            for argument in expression.arguments:
                yield from _columns(argument, functions)


def _is_comparison(expression: Checked) -> TypeGuard[Apply]:
    match expression:
        case Apply(name=name, arguments=(Read() as measured, *others)) if prefix_of(measured) is not None:
            return name in _COMPARISONS and all(isinstance(each, nodes.Literal) for each in others)
    return False


def _changes(expression: Checked, now_ms: int) -> list[int]:
    """When the result of a comparison of the time with constants changes; empty for any other expression."""
    match expression:
        case Apply(name=name, arguments=(Read(column=column), *others)) if column.name == "time":
            sides = (False, True) if name == "between" else IS_AFTER.get(name, ())
            moments = [each for other in others if (each := _moment(other, now_ms)) is not None]
            if len(moments) == len(sides):
                return [moment + is_after for moment, is_after in zip(moments, sides, strict=True)]
    return []


def _moment(constant: Checked, now_ms: int) -> int | None:
    match constant:
        case nodes.Literal(value=int(moment)):
            return moment
        case Apply(name="now"):
            return now_ms
        case Apply(name="-", arguments=(Apply(name="now"), nodes.Literal(value=int(before)))):
            return now_ms - before
    return None


def _histogram(group: Checked | None) -> Apply | None:
    """A histogram of what is measured, or floor, ceil or round of a quotient, with both and the width."""
    match group:
        case Apply(name="floor" | "ceil" | "round" as name, arguments=(Apply(name="/", arguments=of),)):
            pass
        case Apply(name="histogram" as name, arguments=(_, nodes.Literal(value=int())) as of):
            pass  # with a width such as 60000.0, bins begin at floats
        case _:
            return None
    match of:
        case (Read() as measured, nodes.Literal(value=int() | float() as width)) if prefix_of(measured) is not None:
            is_wide = _LARGEST >= width == int(width) >= SECOND_MS  # of narrower bins, cells have too many
            return Apply(group.span, name, of, group.type) if is_wide else None
    return None


def _parts(comparisons: Sequence[Apply], where: Checked | None, *, is_needed: bool) -> Sequence[Part]:
    """The parts within which each comparison has one result, but () for all values if no part is needed."""
    firsts = {0}
    for comparison in comparisons:
        for place, constant in enumerate(comparison.arguments[1:]):
            if isinstance(constant, nodes.Literal) and isinstance(value := constant.value, int | float):
                sides = (place > 0,) if comparison.name == "between" else IS_AFTER.get(comparison.name, (False, True))
                firsts |= {math.floor(value) + 1 if is_after else math.ceil(value) for is_after in sides}
    ascending = sorted(first for first in firsts if 0 <= first < _LARGEST)
    lasts = [*(first - 1 for first in ascending[1:]), _LARGEST]
    parts = [*([] if needs_value(where) else [(None, None)]), *zip(ascending, lasts, strict=True)]
    return parts if is_needed or (comparisons and parts != [(0, _LARGEST)]) else ()
