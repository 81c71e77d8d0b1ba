"""What the grammar makes of what it has read: a node, or a part of one, for every rule."""

import re
from collections.abc import Callable
from typing import Any

from obs.query.language import precedence
from obs.query.language.durations import parse_duration
from obs.query.language.errors import OqlError
from obs.query.language.nodes import (
    Call,
    Duration,
    Expression,
    Literal,
    Name,
    Operation,
    Span,
    Star,
)

Action = Callable[[str, int, Any], Any]
"""Takes the statement, the place, and what was found there."""

_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_DURATION = re.compile(r"(\d[\d.]*)\s*([^\W\d_]*)", re.ASCII)
_LARGEST = 2**63 - 1
_LONGEST_NUMBER = 400


class Mark(str):
    """A keyword, among nodes."""

    __slots__ = ()


def drop(_text: str, _place: int, _found: Any) -> list[Any]:
    """A token that leaves nothing behind."""
    return []


def mark(kind: str) -> Action:
    """A keyword that the node above has to know of."""
    marked = Mark(kind)
    return lambda text, place, found: [marked]


def name(_text: str, place: int, found: Any) -> Name:
    """A name, in double quotes or not."""
    written: str = found[0]
    name = written[1:-1].replace('""', '"') if written.startswith('"') else written
    return Name(Span(place, place + len(written)), name)


def text(_text: str, place: int, found: Any) -> Literal:
    """A text in single quotes."""
    return Literal(Span(place, place + len(found[0])), found[0][1:-1].replace("''", "'"))


def constant(value: bool | None) -> Action:
    """TRUE, FALSE or NULL."""
    return lambda text, place, found: Literal(Span(place, place + len(found[0])), value)


def star(_text: str, place: int, _found: Any) -> Star:
    """``*``."""
    return Star(Span(place, place + 1))


def end(_text: str, place: int, found: Any) -> Span:
    """Where something ends: a closing parenthesis, an END."""
    return Span(place, place + len(found[0]))


def signs(_text: str, place: int, found: Any) -> tuple[int, int]:
    """Any number of signs, or of NOTs: where they begin and how many turn the meaning."""
    written: str = found[0].upper()
    return place, written.count("-") or written.count("NOT")


def operator(_text: str, place: int, found: Any) -> precedence.Operator:
    """An operator, in lower case."""
    return precedence.Operator(Span(place, place + len(found[0])), found[0].lower())


def number(_text: str, place: int, found: Any) -> Literal | Duration:
    """A number, or a duration. Raises OqlError."""
    written: str = found[0]
    span = Span(place, place + len(written))
    if not _NUMBER.fullmatch(written):
        return duration(_text, place, found)
    if len(written) > _LONGEST_NUMBER:
        raise OqlError("oql_type_mismatch", span, f"a number has at most {_LONGEST_NUMBER} characters.")
    value = int(written) if written.isdigit() else float(written)
    if (isinstance(value, float) and value == float("inf")) or (isinstance(value, int) and value > _LARGEST):
        raise OqlError("oql_type_mismatch", span, "the number is too large.", hint="Whole numbers go up to 2^63 - 1.")
    return Literal(span, value)


def alone(statement: str, place: int, found: Any) -> Name | Literal | Duration:
    """A name, a text or a number."""
    written: str = found[0]
    if written.startswith("'"):
        return text(statement, place, found)
    return number(statement, place, found) if written[0].isdigit() else name(statement, place, found)


def duration(_text: str, place: int, found: Any) -> Duration:
    """A duration. Raises OqlError (oql_bad_duration)."""
    written: str = found[0]
    span = Span(place, place + len(written))
    match = _DURATION.fullmatch(written)
    try:
        if match is None:
            raise ValueError(f"{written!r} is not a duration")
        if not match[2]:
            raise ValueError(f"{written} has no unit of time")
        return Duration(span, parse_duration(match[1], match[2]))
    except ValueError as error:
        raise OqlError(
            "oql_bad_duration",
            span,
            f"{error}.",
            expected=["a duration"],
            hint="Write a whole number and one of ms, s, m, h, d, w: 90s, 5m, 24h, 7d.",
        ) from error


def count(_text: str, place: int, found: Any) -> Literal:
    """A whole number. Raises OqlError."""
    written: str = found[0]
    span = Span(place, place + len(written))
    if not (written.isascii() and written.isdigit()):
        raise OqlError("oql_syntax", span, f"{written!r} is not a whole number.", expected=["a whole number"])
    if len(written) > 18:
        raise OqlError("oql_type_mismatch", span, "the number is too large.", expected=["a whole number"])
    return Literal(span, int(written))


def group(_text: str, place: int, found: Any) -> Expression:
    """An expression in parentheses."""
    expression: Expression = found[0]
    return precedence.at(Span(place, found[1].end), expression)


def call(_text: str, place: int, found: Any) -> Call:
    """A function with its arguments, and FILTER."""
    name, *rest = found
    parts: list[list[Any]] = [[]]
    end = place
    for part in rest:
        if isinstance(part, Span):
            end = part.end
            parts.append([])
        else:
            parts[-1].append(part)
    arguments = parts[0]
    distinct = bool(arguments) and isinstance(arguments[0], Mark)
    condition = parts[1][0] if parts[1] else None
    return Call(Span(place, end), name, tuple(arguments[distinct:]), distinct, condition)


def otherwise(_text: str, place: int, found: Any) -> Expression:
    """What ELSE says; NULL without it."""
    return found[0] if found else Literal(Span(place, place), None)


def case(_text: str, place: int, found: Any) -> Operation:
    """CASE ... END."""
    return Operation(Span(place, found[-1].end), "case", tuple(found[1:-1]))
