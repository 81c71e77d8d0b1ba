"""Parse actions: they turn what the grammar has matched into nodes.

Every action takes the segment that is being parsed, the place where the match starts, and what was matched there.
The grammar delivers operands and operators as flat lists; `condition`, `predicate` and `arithmetic` apply precedence.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from obs.query.language import nodes
from obs.query.language.errors import OqlError
from obs.query.language.nodes import Expression, Span
from obs.query.language.scan import Segment
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, WEEK_MS

Action = Callable[[Segment, int, Any], Any]

MOST_TERMS = 200
"""Operators in one sum or product. Each adds a level to the syntax tree."""

UNITS_MS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "second", "seconds"), SECOND_MS),
    **dict.fromkeys(("m", "min", "minute", "minutes"), MINUTE_MS),
    **dict.fromkeys(("h", "hour", "hours"), HOUR_MS),
    **dict.fromkeys(("d", "day", "days"), DAY_MS),
    **dict.fromkeys(("w", "week", "weeks"), WEEK_MS),
}
"""The units of a duration, in milliseconds."""

_LONGEST_MS = 36_525 * DAY_MS
"""The longest duration: 100 years."""
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_DURATION = re.compile(r"(\d[\d.]*)\s*([^\W\d_]*)", re.ASCII)
_LARGEST = 2**63 - 1
_MOST_DIGITS = 400
"""With more, a whole number is read as a float, which is infinite then: Python refuses to read thousands of digits."""
_CONSTANTS = {"TRUE": True, "FALSE": False, "NULL": None}
_CLAUSE_NAMES = {"window": "The time window", "order": "ORDER BY", "compare": "COMPARE WITH"}
"""How an error names a clause, where that is not its kind in capital letters."""


class Word(NamedTuple):
    """A keyword or an operator that the action of a larger rule needs to see, in small letters."""

    span: Span
    text: str


class Arguments(NamedTuple):
    expressions: tuple[Expression, ...]
    distinct: bool = False


class Clause(NamedTuple):
    """A clause. `span` is that of its keyword. `kind` is the field of nodes.Select that `value` belongs to."""

    span: Span
    kind: str
    value: object


# Tokens


def drop(_segment: Segment, _place: int, _found: Any) -> list[Any]:
    """A token that adds nothing to the tree."""
    return []


def prefixes(segment: Segment, place: int, found: Any) -> tuple[int, bool]:
    """Any number of signs or NOTs: where they start in the statement, and whether an odd number of them negates."""
    written: str = found[0].upper()
    return segment.start + place, (written.count("-") or written.count("NOT")) % 2 == 1


def word(segment: Segment, place: int, found: Any) -> Word:
    return Word(span_of(segment, place, found), found[0].lower())


def name(segment: Segment, place: int, found: Any) -> nodes.Name:
    written: str = found[0]
    unquoted = written[1:-1].replace('""', '"') if written.startswith('"') else written
    return nodes.Name(span_of(segment, place, found), unquoted, is_quoted=written.startswith('"'))


def text(segment: Segment, place: int, found: Any) -> nodes.Literal:
    return nodes.Literal(span_of(segment, place, found), found[0][1:-1].replace("''", "'"))


def star(segment: Segment, place: int, found: Any) -> nodes.Star:
    return nodes.Star(span_of(segment, place, found))


def value(segment: Segment, place: int, found: Any) -> nodes.Name | nodes.Literal | nodes.Duration:
    written: str = found[0]
    if written[0] == "'":
        return text(segment, place, found)
    if written[0].isdecimal():
        return number(segment, place, found)
    constant = written.upper()
    if constant in _CONSTANTS:
        return nodes.Literal(span_of(segment, place, found), _CONSTANTS[constant])
    return name(segment, place, found)


def number(segment: Segment, place: int, found: Any) -> nodes.Literal | nodes.Duration:
    written: str = found[0]
    if not _NUMBER.fullmatch(written):
        return duration(segment, place, found)
    span = span_of(segment, place, found)
    value = int(written) if written.isdigit() and len(written) <= _MOST_DIGITS else float(written)
    if value == float("inf") or (isinstance(value, int) and value > _LARGEST):
        raise OqlError("oql_type_mismatch", span, "The number is too large.", hint="Whole numbers go up to 2^63 - 1.")
    return nodes.Literal(span, value)


def duration(segment: Segment, place: int, found: Any) -> nodes.Duration:
    written: str = found[0]
    span = span_of(segment, place, found)
    match = _DURATION.fullmatch(written)
    amount, unit = match.groups() if match else ("", "")
    if match is None:
        wrong = f"{written!r} is not a duration."
    elif not unit:
        wrong = f"{written} has no unit of time."
    elif unit == "M":
        wrong = "M could be minutes or months."
    elif unit.lower() not in UNITS_MS:
        wrong = f"{unit} is not a unit of time."
    elif not amount.isdigit():
        wrong = f"{amount} is not a whole number."
    elif len(amount) > 15 or int(amount) * UNITS_MS[unit.lower()] > _LONGEST_MS:
        wrong = "A duration can be at most 100 years."
    else:
        return nodes.Duration(span, int(amount) * UNITS_MS[unit.lower()])
    hint = "Write a whole number and one of ms, s, m, h, d, w: 90s, 5m, 24h, 7d."
    if date := re.match(r"\d{4}-\d\d(-\d\d)?[\dTZ:.]*", segment[place:]):
        hint = f"Write a time in single quotes: '{date[0]}'."
    if unit == "M":
        hint = "Write 1m for a minute, 30d for a month."
    raise OqlError("oql_bad_duration", span, wrong, expected=["a duration"], hint=hint)


def length(segment: Segment, place: int, found: Any) -> nodes.Duration:
    """A duration that cannot be zero."""
    length = duration(segment, place, found)
    if length.milliseconds == 0:
        raise OqlError("oql_bad_duration", length.span, "The duration has to be at least 1ms.", expected=["a duration"])
    return length


def auto(segment: Segment, place: int, found: Any) -> nodes.Duration:
    return nodes.Duration(span_of(segment, place, found), 0)


def count(segment: Segment, place: int, found: Any) -> nodes.Literal | nodes.Duration:
    if not found[0].isdecimal():
        span = span_of(segment, place, found)
        raise OqlError("oql_syntax", span, f"{found[0]!r} is not a whole number.", expected=["a whole number"])
    return number(segment, place, found)


# Groups


def group(segment: Segment, place: int, found: Any) -> Expression:
    """An expression in parentheses, or CASE ... END; its span includes them."""
    inner: Expression = replace(segment.tree(place), span=span_of(segment, place, found))
    return inner


def values(segment: Segment, place: int, found: Any) -> list[Any]:
    """The list of IN, and its closing parenthesis as a span."""
    return [*segment.tree(place).expressions, span_of(segment, place, found)]


def call_head(segment: Segment, place: int, found: Any) -> nodes.Call:
    written: str = found[0]
    parenthesis = written.index("(")
    name = written[:parenthesis].rstrip()
    inner = segment.tree(place + parenthesis)
    function = nodes.Name(segment.span(place, place + len(name)), name)
    return nodes.Call(span_of(segment, place, found), function, inner.expressions, inner.distinct)


def call(_segment: Segment, _place: int, found: Any) -> nodes.Call:
    call, *rest = found
    assert isinstance(call, nodes.Call)
    if not rest:
        return call
    ((end, condition),) = rest
    return replace(call, span=Span(call.span.start, end), filter=condition)


def filter_(segment: Segment, place: int, found: Any) -> tuple[int, Expression]:
    """Where FILTER (WHERE ...) ends, and its condition."""
    return segment.span(place, place + len(found[0])).end, segment.tree(place)


def arguments(_segment: Segment, _place: int, found: Any) -> Arguments:
    distinct = bool(found) and isinstance(found[0], Word)
    return Arguments(tuple(found[distinct:]), distinct)


def case(segment: Segment, place: int, found: Any) -> nodes.Operation:
    *parts, end = found
    return nodes.Operation(Span(segment.start + place, end.end), "case", tuple(parts))


def otherwise(segment: Segment, place: int, found: Any) -> Expression:
    """The value of ELSE, or NULL where there is none."""
    value: Expression = found[0] if found else nodes.Literal(segment.span(place, place), None)
    return value


# Operators


def arithmetic(_segment: Segment, _place: int, found: Any) -> Expression:
    """``signs operand {operator signs operand}``: products before sums, each from left to right."""
    parts = list(found)
    operands = [_signed(parts[index], parts[index + 1]) for index in range(0, len(parts), 3)]
    operators: list[Word] = parts[2::3]
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
    return total


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


def _binary(operator: Word, left: Expression, right: Expression) -> nodes.Operation:
    return nodes.Operation(Span(left.span.start, right.span.end), operator.text, (left, right))


def _compared(left: Expression, rest: Sequence[Any]) -> nodes.Operation:
    """`left` with the comparison after it: ``[not] operator operands``, or ``is [not]``."""
    if rest[0].text == "is":
        return nodes.Operation(left.span, "is not null" if len(rest) > 1 else "is null", (left,))
    negated = rest[0].text == "not"
    operator, *operands = rest[negated:]
    last = operands[-1]
    end = last.end if isinstance(last, Span) else last.span.end
    symbol = {"<>": "!=", "==": "=", "starts": "starts with"}.get(operator.text, operator.text)
    return nodes.Operation(
        Span(left.span.start, end),
        f"not {symbol}" if negated else symbol,
        (left, *(operand for operand in operands if not isinstance(operand, Span))),
    )


# Clauses


def clause(kind: str) -> Action:
    def action(_segment: Segment, _place: int, found: Any) -> Clause:
        keyword, *rest = found
        node = _NODES.get(kind)
        return Clause(keyword.span, kind, node(keyword.span, *rest) if node else rest[0])

    return action


def moment(_segment: Segment, _place: int, found: Any) -> nodes.Moment:
    first, *before = found
    if isinstance(first, nodes.Literal):
        assert isinstance(first.value, str)
        return nodes.Moment(first.span, first.value)
    if isinstance(first, nodes.Duration):
        return nodes.Moment(first.span, None, first.milliseconds)
    end = before[0].span.end if before else first.span.end
    day = first.text if first.text in nodes.DAYS else None
    return nodes.Moment(Span(first.span.start, end), day, before[0].milliseconds if before else 0)


def _fill(span: Span, first: Any, *number: Any) -> nodes.Fill:
    if isinstance(first, Word):
        return nodes.Fill(span, first.text)
    value = _signed(first, *number)
    if not isinstance(value, nodes.Literal) or not isinstance(value.value, int | float):
        raise OqlError("oql_type_mismatch", value.span, "FILL takes a number.", expected=["a number"])
    return nodes.Fill(span, value.value)


def _list(_span: Span, *found: Any) -> tuple[Any, ...]:
    return found


_NODES: Mapping[str, Callable[..., object]] = {
    "window": nodes.Window,
    "around": nodes.Around,
    "fill": _fill,
    "by": _list,
    "order": _list,
}
"""How the value of a clause is made from the span of its keyword and what follows; by default it is what follows."""


def sorting(_segment: Segment, _place: int, found: Any) -> nodes.Sorting:
    return nodes.Sorting(found[0], len(found) > 1 and found[1].text == "desc")


def item(segment: Segment, _place: int, found: Any) -> nodes.Item:
    expression = found[0]
    written = " ".join(segment.statement[slice(*expression.span)].split())
    return nodes.Item(expression, found[1] if len(found) > 1 else None, written)


def show(_segment: Segment, _place: int, found: Any) -> nodes.Show:
    return nodes.Show(found[0] if found else None)


def select(_segment: Segment, _place: int, found: Any) -> nodes.Select:
    parts = list(found)
    words = [part.text for part in parts if isinstance(part, Word)]
    items, source, *clauses = parts[len(words) :]
    by_kind: dict[str, Clause] = {}
    for clause in clauses:
        if clause.kind in by_kind:
            name = _CLAUSE_NAMES.get(clause.kind, clause.kind.upper())
            raise OqlError("oql_duplicate_clause", clause.span, f"{name} is specified twice.")
        by_kind[clause.kind] = clause
    values: dict[str, Any] = {kind: clause.value for kind, clause in by_kind.items()}
    named = [group for group in values.get("by", ()) if group.alias is not None]
    return nodes.Select((*named, *items), source, distinct="distinct" in words, explain="explain" in words, **values)


def span_of(segment: Segment, place: int, found: Any) -> Span:
    return segment.span(place, place + len(found[0]))
