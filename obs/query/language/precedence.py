"""Operators in the order in which they bind: flat lists of operands and operators become trees."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from obs.query.language.errors import OqlError
from obs.query.language.nodes import Expression, Literal, Operation, Span

MOST_TERMS = 200
"""Terms of one sum or product; each is a level of the expression that SQLite has to walk."""


COMPARISONS = re.findall(r"\S+", "= != < <= > >= =~ !~") + [
    f"{negation}{word}"
    for negation in ("", "not ")
    for word in ("in", "like", "ilike", "contains", "starts with", "between")
]
"""Operators that make a condition of other things, but for IS NULL."""


class Operator(NamedTuple):
    """An operator where it stands, in lower case."""

    span: Span
    symbol: str


def at(span: Span, expression: Expression) -> Expression:
    """The same expression at another place: with the parentheses around it."""
    return replace(expression, span=span)


def arithmetic(_text: str, _place: int, found: Any) -> Expression:
    """``signs operand {operator signs operand}``: products before sums, each from left to right."""
    parts = list(found)
    operands = [_signed(parts[index], parts[index + 1]) for index in range(0, len(parts), 3)]
    operators: list[Operator] = parts[2::3]
    if len(operators) > MOST_TERMS:
        raise OqlError("oql_too_long", operators[MOST_TERMS].span, f"an expression has at most {MOST_TERMS} operators.")
    terms = [operands[0]]
    additions = []
    for operator, operand in zip(operators, operands[1:], strict=True):
        if operator.symbol in "*/%":
            terms[-1] = _binary(operator, terms[-1], operand)
        else:
            additions.append(operator)
            terms.append(operand)
    total = terms[0]
    for operator, term in zip(additions, terms[1:], strict=True):
        total = _binary(operator, total, term)
    return total


def predicate(_text: str, _place: int, found: Any) -> Expression:
    """``nots operand [comparison]``; an even number of NOTs is none."""
    (place, nots), operand, *rest = found
    expression: Expression = _compared(operand, rest) if rest else operand
    if nots % 2:
        return Operation(Span(place, expression.span.end), "not", (expression,))
    return expression


def condition(_text: str, _place: int, found: Any) -> Expression:
    """``predicate {(AND | OR) predicate}``: AND binds before OR."""
    alternatives: list[list[Expression]] = [[found[0]]]
    for operator, operand in zip(found[1::2], found[2::2], strict=True):
        if operator.symbol == "and":
            alternatives[-1].append(operand)
        else:
            alternatives.append([operand])
    return _joined("or", [_joined("and", operands) for operands in alternatives])


def _joined(operator: str, operands: Sequence[Expression]) -> Expression:
    if len(operands) == 1:
        return operands[0]
    return Operation(Span(operands[0].span.start, operands[-1].span.end), operator, tuple(operands))


def _signed(signs: tuple[int, int], operand: Expression) -> Expression:
    place, minuses = signs
    if minuses % 2 == 0:
        return operand
    span = Span(place, operand.span.end)
    if isinstance(operand, Literal) and isinstance(operand.value, int | float) and not isinstance(operand.value, bool):
        return Literal(span, -operand.value)
    return Operation(span, "negative", (operand,))


def _binary(operator: Operator, left: Expression, right: Expression) -> Operation:
    return Operation(Span(left.span.start, right.span.end), operator.symbol, (left, right))


def _compared(left: Expression, rest: Sequence[Any]) -> Operation:
    """`rest` is what followed `left`: [not] operator operands, or ``is null`` with an optional not before it."""
    negated = rest[0] == "not"
    operator, *operands = rest[negated:]
    if not isinstance(operator, Operator):  # IS [NOT] NULL
        return Operation(left.span, "is not null" if negated else "is null", (left,))
    end = operands[-1].end if isinstance(operands[-1], Span) else operands[-1].span.end
    operands = [operand for operand in operands if not isinstance(operand, Span)]
    symbol = {"<>": "!=", "starts": "starts with"}.get(operator.symbol, operator.symbol)
    return Operation(Span(left.span.start, end), f"not {symbol}" if negated else symbol, (left, *operands))
