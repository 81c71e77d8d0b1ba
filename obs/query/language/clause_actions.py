"""What the grammar makes of clauses and of whole statements."""

from dataclasses import replace
from typing import Any

from obs.query.language import precedence
from obs.query.language.actions import Mark
from obs.query.language.errors import OqlError
from obs.query.language.nodes import (
    Clause,
    Duration,
    Every,
    Expression,
    Fill,
    Item,
    Literal,
    Moment,
    Name,
    Operation,
    Select,
    Show,
    Sorting,
    Span,
    Window,
)


def moment(_text: str, place: int, found: Any) -> Moment:
    """A time of a window."""
    first = found[0]
    if isinstance(first, Literal):
        assert isinstance(first.value, str)
        return Moment(first.span, first.value)
    before = found[1] if len(found) > 1 else None
    end = before.span.end if before else place + len("NOW")
    return Moment(Span(place, end), None, before.milliseconds if before else 0)


def every(span: Span, found: list[Any]) -> Every:
    """The interval of EVERY."""
    return Every(span, found[0] if isinstance(found[0], Duration) else None)


def fill(span: Span, found: list[Any]) -> Fill:
    """What FILL says. Raises OqlError."""
    if isinstance(found[0], Mark):
        return Fill(span, str(found[0]))
    (_, minuses), value = found
    if not isinstance(value, Literal) or not isinstance(value.value, int | float):
        raise OqlError("oql_type_mismatch", value.span, "FILL takes a number.", expected=["a number"])
    return Fill(span, -value.value if minuses % 2 else value.value)


def sorting(_text: str, _place: int, found: Any) -> Sorting:
    """One part of ORDER BY."""
    return Sorting(found[0], len(found) > 1 and found[1] == "desc")


def item(text: str, _place: int, found: Any) -> Item:
    """A column of the answer."""
    expression = found[0]
    written = " ".join(text[expression.span.start : expression.span.end].split())
    return Item(expression, found[1] if len(found) > 1 else None, written)


def show(_text: str, _place: int, found: Any) -> Show:
    """SHOW."""
    return Show(found[0] if found else None)


def select(_text: str, _place: int, found: Any) -> Select:
    """A whole SELECT. Raises OqlError (oql_duplicate_clause)."""
    parts = list(found)
    explain = isinstance(parts[0], Mark)
    items, source, *clauses = parts[explain:]
    given: dict[str, Clause] = {}
    for clause in clauses:
        if clause.kind in given:
            what = "the time window" if clause.kind == "window" else _CLAUSE_NAMES[clause.kind]
            raise OqlError("oql_duplicate_clause", clause.span, f"{what} is given twice.")
        given[clause.kind] = clause
    values: dict[str, Any] = {kind: clause.value for kind, clause in given.items()}
    if "where" in values and "window" not in values:
        values["where"], values["window"] = _window_behind(values["where"])
    return Select(tuple(items), source, explain=explain, **values)


def _window_behind(condition: Expression) -> tuple[Expression, Window | None]:
    """A condition in parentheses is finished: a BETWEEN behind it is the window."""
    if not isinstance(condition, Operation):
        return condition, None
    first, last = condition.operands[0], condition.operands[-1]
    if condition.operator == "between" and isinstance(first, Operation) and first.operator in _FINISHED:
        moments = [_as_moment(operand) for operand in condition.operands[1:]]
        if None not in moments:
            return first, Window(condition.span, None, *moments)
    if condition.operator in ("and", "or", "not"):
        last, window = _window_behind(last)
        return replace(condition, operands=(*condition.operands[:-1], last)), window
    return condition, None


def _as_moment(expression: Expression) -> Moment | None:
    """A time of a window that was read as an expression; None for what is none."""
    match expression:
        case Literal(value=str(written)):
            return Moment(expression.span, written)
        case Name() if expression.name.upper() == "NOW":
            return Moment(expression.span, None)
        case Operation(operator="-", operands=(Name() as now, Duration() as before)) if now.name.upper() == "NOW":
            return Moment(expression.span, None, before.milliseconds)
    return None


_FINISHED = frozenset(precedence.COMPARISONS) | {"and", "or", "not"}
_CLAUSE_NAMES = {
    "where": "WHERE",
    "by": "BY",
    "every": "EVERY",
    "having": "HAVING",
    "order": "ORDER BY",
    "top": "TOP",
    "limit": "LIMIT",
    "fill": "FILL",
    "timezone": "TIMEZONE",
    "compare": "COMPARE WITH",
    "around": "AROUND",
}
