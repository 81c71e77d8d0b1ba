"""Parse actions: they turn what the grammar has matched into nodes.

The action of a token takes a `Token`. The action of a rule takes the segment that is being parsed, the place where the
match starts, and what was matched there.
The grammar delivers operands and operators as flat lists; `condition`, `predicate` and `arithmetic` apply precedence.
"""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pyparsing import ParseException

from obs.api import is_storable
from obs.query.language import nodes
from obs.query.language.errors import OqlError, mismatch
from obs.query.language.nodes import Expression, Span
from obs.query.language.scan import Segment
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, WEEK_MS

Action = Callable[[Segment, int, Any], Any]

MOST_TERMS = 200  # operators in one sum or product; each adds a level to the syntax tree

MONTHS = {"mo": 1, "month": 1, "months": 1, "y": 12, "year": 12, "years": 12}
UNITS_MS = {  # of a duration, in milliseconds; for those in MONTHS, about
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), SECOND_MS),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), MINUTE_MS),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), HOUR_MS),
    **dict.fromkeys(("d", "day", "days"), DAY_MS),
    **dict.fromkeys(("w", "week", "weeks"), WEEK_MS),
    **{unit: months * 30 * DAY_MS for unit, months in MONTHS.items()},
}

_LONGEST_MS = 36_525 * DAY_MS  # the longest duration: 100 years
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_DURATION = re.compile(r"(\d[\d.]*)\s*([^\W\d_]*)", re.ASCII)
_LARGEST = 2**63 - 1
_MOST_DIGITS = 400  # with more, it is read as a float, which is infinite: Python refuses to read thousands of digits
_CONSTANTS = {"TRUE": True, "FALSE": False, "NULL": None}
_CLAUSE_NAMES = {"window": "The time window", "order": "ORDER BY", "compare": "COMPARE WITH"}
"""How an error names a clause, where that is not its kind in capital letters."""


class Token(NamedTuple):
    """What a token has matched: its span in the statement, and its text."""

    span: Span
    text: str
    segment: Segment


def drop(_token: Token) -> list[Any]:
    """A token that adds nothing to the tree."""
    return []


def prefixes(token: Token) -> tuple[int, bool]:
    """Any number of signs or NOTs: where they start in the statement, and whether an odd number of them negates."""
    return token.span.start, (token.text.count("-") or token.text.upper().count("NOT")) % 2 == 1


def word(token: Token) -> Token:
    """A keyword or an operator in small letters, as actions of larger rules see it among the nodes."""
    return Token(token.span, token.text.lower(), token.segment)


def name(token: Token) -> nodes.Name:
    unquoted = token.text[1:-1].replace('""', '"') if token.text.startswith('"') else token.text
    return nodes.Name(token.span, unquoted, is_quoted=token.text.startswith('"'))


def text(token: Token) -> nodes.Literal:
    written = token.text[1:-1].replace("''", "'") if token.text[0] == "'" else _sent(token, (str,), "a text")
    return nodes.Literal(token.span, written)


def value(token: Token) -> nodes.Name | nodes.Literal | nodes.Duration:
    if token.text[0] == "'":
        return text(token)
    if token.text[0] == ":":
        sent = _sent(token, (str, int, float, bool, type(None)), "a text, a number, a boolean or null")
        return replace(_literal(token, sent), is_sent=True)
    if token.text[0].isdecimal():
        return number(token)
    constant = token.text.upper()
    return nodes.Literal(token.span, _CONSTANTS[constant]) if constant in _CONSTANTS else name(token)


def number(token: Token) -> nodes.Literal | nodes.Duration:
    if not _NUMBER.fullmatch(token.text):
        return duration(token)
    is_whole = token.text.isdigit() and len(token.text) <= _MOST_DIGITS
    return _literal(token, int(token.text) if is_whole else float(token.text))


def _literal(token: Token, value: Any) -> nodes.Literal:
    if isinstance(value, int | float) and abs(value) > (_LARGEST if isinstance(value, int) else sys.float_info.max):
        raise mismatch(token.span, "The number is too large.", hint="Whole numbers go up to 2^63 - 1.")
    return nodes.Literal(token.span, value)


def _sent(token: Token, types: tuple[type, ...], expected: str, *, is_list: bool = False) -> Any:
    """The value of a parameter, which has to be of one of these types, or a list of such values."""
    name, sent = token.text[1:], token.segment.parameters
    if name not in sent:
        known = [f":{each}" for each in sent]
        message, advice = f"The parameter {name} has no value.", f'Send it: "params": {{"{name}": ...}}.'
        raise OqlError("oql_bad_parameter", token.span, message, expected=known, known=known, advice=advice)
    token.segment.used.add(name)
    values = sent[name] if is_list else [sent[name]]
    fit = isinstance(values, list) and all(type(each) in types and is_storable(str(each)) for each in values)
    if not fit or not values:
        raise mismatch(token.span, f"The parameter has to be {expected}.", [expected])
    return sent[name]


def duration(token: Token) -> nodes.Duration:
    text = _sent(token, (str,), "a duration such as '24h'") if token.text[0] == ":" else token.text
    return duration_of(text, token.span, token.segment.statement[token.span.start :])


def duration_of(text: str, span: Span, rest: str = "") -> nodes.Duration:
    """The duration that `text` is, at `span`, where the `rest` of the statement begins. Raises OqlError."""
    match = _DURATION.fullmatch(text)
    amount, unit = match.groups() if match else ("", "")
    if match is None:
        wrong = f"{text!r} is not a duration."
    elif not unit:
        wrong = f"{text} has no unit of time."
    elif unit == "M":
        wrong = "M could be minutes or months."
    elif unit.lower() not in UNITS_MS:
        wrong = f"{unit} is not a unit of time."
    elif not amount.isdigit():
        wrong = f"{amount} is not a whole number."
    elif len(amount) > 15 or int(amount) * UNITS_MS[unit.lower()] > _LONGEST_MS:
        wrong = "A duration can be at most 100 years."
    else:
        months = int(amount) * MONTHS.get(unit.lower(), 0)
        return nodes.Duration(span, int(amount) * UNITS_MS[unit.lower()], months)
    hint = "Write a whole number and one of ms, s, m, h, d, w, mo, y: 90s, 5m, 24h, 7d."
    if date := re.match(r"\d{4}-\d\d(-\d\d)?[\dTZ:.]*|\d+([-./])\d+\2\d+|\d\dT", rest):
        is_iso = re.match(r"\d{4}-\d\d", date[0])
        hint = f"Write a time in single quotes: '{date[0] if is_iso else '2026-06-21T10:00:00Z'}'."
    if unit == "M":
        hint = "Write 1m for a minute, 1mo for a month."
    raise OqlError("oql_bad_duration", span, wrong, expected=["a duration"], hint=hint)


def length(token: Token) -> nodes.Duration:
    """A duration that cannot be zero."""
    length = duration(token)
    if length.milliseconds == 0:
        raise OqlError("oql_bad_duration", length.span, "The duration has to be at least 1ms.", expected=["a duration"])
    return length


def count(token: Token) -> nodes.Literal | nodes.Duration:
    if token.text[0] == ":":
        return _literal(token, _sent(token, (int,), "a whole number"))
    return number(token)


def group(token: Token) -> Expression:
    """An expression in parentheses, or CASE ... END; its span includes them."""
    inner: Expression = replace(token.segment.trees[token.span.start], span=token.span)
    return inner


def values(token: Token) -> nodes.Operation:
    """The list of IN; its span includes the parentheses. A parameter is a list of literals."""
    if token.text[0] == ":":
        sent = _sent(token, (str, int, float, bool), "a list of at least one text, number or boolean", is_list=True)
        return nodes.Operation(token.span, "in", tuple(_literal(token, each) for each in sent))
    expressions, _ = token.segment.trees[token.span.start]
    return nodes.Operation(token.span, "in", expressions)


def call_head(token: Token) -> nodes.Call:
    parenthesis = token.text.index("(")
    name = token.text[:parenthesis].rstrip()
    arguments, distinct = token.segment.trees[token.span.start + parenthesis]
    function = nodes.Name(Span(token.span.start, token.span.start + len(name)), name)
    return nodes.Call(token.span, function, arguments, distinct)


def call(_segment: Segment, _place: int, found: Any) -> nodes.Call:
    call, *rest = found
    assert isinstance(call, nodes.Call)
    if not rest:
        return call
    ((end, condition),) = rest
    return replace(call, span=Span(call.span.start, end), filter=condition)


def filter_(token: Token) -> tuple[int, Expression]:
    """Where FILTER (WHERE ...) ends, and its condition."""
    return token.span.end, token.segment.trees[token.span.start]


def arguments(_segment: Segment, _place: int, found: Any) -> tuple[tuple[Expression, ...], bool]:
    """The expressions, and whether DISTINCT is before them."""
    distinct = bool(found) and isinstance(found[0], Token)
    return tuple(found[distinct:]), distinct


def case(segment: Segment, place: int, found: Any) -> nodes.Operation:
    """Without ELSE, the value is NULL."""
    *parts, end = found
    otherwise = () if len(parts) % 2 else (nodes.Literal(end.span, None),)
    return nodes.Operation(Span(segment.start + place, end.span.end), "case", (*parts, *otherwise))


def arithmetic(segment: Segment, _place: int, found: Any) -> Expression:
    """``signs operand {operator signs operand}``: products before sums, each from left to right."""
    parts = list(found)
    operands = [_signed(parts[index], parts[index + 1]) for index in range(0, len(parts), 3)]
    operators: list[Token] = parts[2::3]
    if len(operators) > MOST_TERMS:
        message = f"An expression can have at most {MOST_TERMS} operators."
        raise OqlError("oql_too_long", operators[MOST_TERMS].span, message)
    terms = [operands[0]]
    additions = []
    for operator, operand in zip(operators, operands[1:], strict=True):
        if operator.text in "*/%":
            terms[-1] = _binary(operator, terms[-1], operand)
        else:
            additions.append(operator)
            terms.append(operand)
    total = terms[0]
    for operator, term in zip(additions, terms[1:], strict=True):
        total = _binary(operator, total, term)
    segment.operand = total
    return total


def between(token: Token) -> Token:
    """BETWEEN compares the value before it. After a condition it does not: there it starts the time window."""
    match token.segment.operand:
        case nodes.Literal(value=bool()):
            raise ParseException(token.text)
        case nodes.Operation(operator=operator) if operator not in ("+", "-", "*", "/", "%", "negative", "case"):
            raise ParseException(token.text)
    return word(token)


def predicate(_segment: Segment, _place: int, found: Any) -> Expression:
    """``nots operand [comparison]``."""
    (start, negated), operand, *rest = found
    expression: Expression = _compared(operand, rest) if rest else operand
    return nodes.Operation(Span(start, expression.span.end), "not", (expression,)) if negated else expression


def condition(_segment: Segment, _place: int, found: Any) -> Expression:
    """``predicate {(AND | OR) predicate}``: AND binds before OR."""
    alternatives: list[list[Expression]] = [[found[0]]]
    for operator, operand in zip(found[1::2], found[2::2], strict=True):
        if operator.text in ("and", "&&"):
            alternatives[-1].append(operand)
        else:
            alternatives.append([operand])
    return _joined("or", [_joined("and", operands) for operands in alternatives])


def _joined(symbol: str, operands: Sequence[Expression]) -> Expression:
    if len(operands) == 1:
        return operands[0]
    listed = (
        each.operands if isinstance(each, nodes.Operation) and each.operator == symbol else (each,) for each in operands
    )
    operands = [one for each in listed for one in each]
    return nodes.Operation(Span(operands[0].span.start, operands[-1].span.end), symbol, tuple(operands))


def _signed(signs: tuple[int, bool], operand: Expression) -> Expression:
    start, negated = signs
    if not negated:
        return operand
    span = Span(start, operand.span.end)
    value = operand.value if isinstance(operand, nodes.Literal) else None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return nodes.Literal(span, -value)
    return nodes.Operation(span, "negative", (operand,))


def _binary(operator: Token, left: Expression, right: Expression) -> nodes.Operation:
    return nodes.Operation(Span(left.span.start, right.span.end), operator.text, (left, right))


def _compared(left: Expression, rest: Sequence[Any]) -> nodes.Operation:
    """`left` with the comparison after it: ``[not] operator operands``, or ``is [not]``."""
    if rest[0].text == "is":
        return nodes.Operation(left.span, "is not null" if len(rest) > 1 else "is null", (left,))
    negated = rest[0].text == "not"
    operator, *operands = rest[negated:]
    span = Span(left.span.start, max(operand.span.end for operand in operands))
    if operator.text == "in":
        operands = operands[0].operands
    symbol = {"<>": "!=", "==": "=", "starts": "starts with"}.get(operator.text, operator.text)
    compared = nodes.Operation(span, symbol, (left, *operands))
    return nodes.Operation(span, "not", (compared,)) if negated else compared


def clause(kind: str) -> Action:
    """The action of a clause: the span of its keyword, the field of nodes.Select that it is for, and its value."""

    def action(_segment: Segment, _place: int, found: Any) -> tuple[Span, str, object]:
        keyword, *rest = found
        node = _NODES.get(kind)
        return keyword.span, kind, node(keyword.span, *rest) if node else rest[0]

    return action


def moment(_segment: Segment, _place: int, found: Any) -> nodes.Moment:
    first, *before = found
    if isinstance(first, nodes.Duration):
        return nodes.Moment(first.span, None, first)
    text = str(first.value) if isinstance(first, nodes.Literal) else first.text if first.text in nodes.DAYS else None
    return nodes.Moment(Span(first.span.start, found[-1].span.end), text, *before)


def _fill(span: Span, first: Any, *number: Any) -> nodes.Literal:
    if isinstance(first, Token):
        return nodes.Literal(span, first.text)
    value = _signed(first, *number)
    if not isinstance(value, nodes.Literal) or isinstance(value.value, bool | str | None):
        raise mismatch(value.span, "FILL takes a number.", ["a number"])
    return nodes.Literal(span, value.value)


_NODES: Mapping[str, Callable[..., object]] = {
    "window": nodes.Window,
    "around": nodes.Around,
    "fill": _fill,
    **dict.fromkeys(("by", "order"), lambda _, *listed: listed),
}
"""How the value of a clause is made from the span of its keyword and what follows; by default it is what follows."""


def sorting(_segment: Segment, _place: int, found: Any) -> tuple[Expression, bool]:
    return found[0], len(found) > 1 and found[1].text == "desc"


def item(segment: Segment, _place: int, found: Any) -> nodes.Item:
    expression = found[0]
    written = " ".join(segment.statement[slice(*expression.span)].split())
    return nodes.Item(expression, found[1] if len(found) > 1 else None, written)


def select(_segment: Segment, _place: int, found: Any) -> nodes.Select:
    parts = list(found)
    words = [part.text for part in parts if isinstance(part, Token)]
    items, source, *clauses = parts[len(words) :]
    values: dict[str, Any] = {}
    for span, kind, value in clauses:
        if kind in values:
            message = f"{_CLAUSE_NAMES.get(kind, kind.upper())} is specified twice."
            hint = "Write all columns after one BY. TOP ranks by the first aggregate." if kind == "by" else None
            raise OqlError("oql_duplicate_clause", span, message, hint=hint)
        values[kind] = value
    return nodes.Select(tuple(items), source, distinct="distinct" in words, explain="explain" in words, **values)
