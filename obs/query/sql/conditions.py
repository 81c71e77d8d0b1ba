"""What WHERE and BY say about what rollups know: measured values, and the columns that they keep apart."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeGuard

from obs.query.language import nodes
from obs.query.language.plan import Aggregate, Apply, Checked, Plan, Read, terms, walk
from obs.sources import Type

IS_AFTER: Mapping[str, Sequence[bool]] = {"<": (False,), ">=": (False,), ">": (True,), "<=": (True,)}
"""Whether the result of a comparison changes after the constant, or at it. With other operators, it does both."""
_COMPARISONS = (*IS_AFTER, "=", "!=", "in", "between", "is null", "is not null")


def prefix_of(expression: Checked | None) -> str | None:
    """What the columns of cells begin with that have the values of an expression; None if there are none."""
    match expression:
        case Read(column=column) if column.type is not Type.TEXT:
            return column.measured
        case Apply(name="length", arguments=(Read(column=column),)):
            return column.measured
    return None


def is_comparison(expression: Checked) -> TypeGuard[Apply]:
    match expression:
        case Apply(name=name, arguments=(Read() as measured, *others)) if prefix_of(measured) is not None:
            return name in _COMPARISONS and all(isinstance(each, nodes.Literal) for each in others)
    return False


def columns_of(expression: Checked | None, functions: Sequence[str]) -> Iterator[str]:
    """The columns that an expression reads, except for the time as the argument of one of `functions`, and for what is
    measured in comparisons with constants.
    """
    match expression:
        case Apply() if is_comparison(expression):
            return
        case Apply(name=name, arguments=(Read(column=column),)) if column.name == "time" and name in functions:
            return
        case Read():
            yield expression.column.name
        case Apply():
            for argument in expression.arguments:
                yield from columns_of(argument, functions)


def threshold(where: Checked | None) -> tuple[Aggregate, int] | None:
    """The largest or the smallest of what is measured, and the bound that it has to reach for any row to be chosen.

    None if WHERE has no such term: ``duration_ms > 15m`` or ``duration_ms < 2s``.
    """
    for term in terms(where):
        match term:
            case Apply(name=name, arguments=(value, nodes.Literal(value=int() | float() as constant))):
                if name in IS_AFTER and prefix_of(value) is not None:
                    first = math.floor(constant) + 1 if IS_AFTER[name][0] else math.ceil(constant)
                    extreme, bound = ("max", first) if name in (">", ">=") else ("min", first - 1)
                    return Aggregate(term.span, extreme, (value,), value.type), bound
    return None


def needs_value(where: Checked | None) -> bool:
    """Whether WHERE chooses no rows without a measured value."""
    return any(is_comparison(term) and term.name != "is null" for term in terms(where))


def terms_of_series(plan: Plan) -> Checked | None:
    """The terms of WHERE that are the same for all rows of a series; None without any."""
    apart = frozenset[str]().union(*(grain.columns for grain in plan.source.grains))
    chosen = [term for term in terms(plan.where) if set() < {*columns_of(term, ())} <= apart]
    chosen = [term for term in chosen if not any(map(is_comparison, walk(term)))]
    return Apply(chosen[0].span, "and", tuple(chosen), Type.BOOLEAN) if len(chosen) > 1 else next(iter(chosen), None)
