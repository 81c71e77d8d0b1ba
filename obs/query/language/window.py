"""The time window of a statement, also where it is written as a condition of WHERE."""

from dataclasses import replace

from obs.query.language import nodes
from obs.query.language.errors import OqlError
from obs.query.language.expressions import CONDITIONS
from obs.query.language.nodes import Span


def windowed(statement: nodes.Select, text: str) -> tuple[nodes.Select, nodes.Window]:
    """The statement without the window in its WHERE, if one is there, and the window. Raises OqlError without any."""
    if statement.window is None and statement.where is not None:
        condition, window = _without_window(statement.where)
        statement = replace(statement, where=condition, window=window)
        if window is None:
            statement = _with_window_of_time(statement)
    if statement.window is None:
        end = Span(len(text.rstrip()), len(text.rstrip()))
        message, hint = "The statement has no time window.", "Add a window, such as LAST 1h."
        raise OqlError("oql_no_time_window", end, message, expected=["LAST", "BETWEEN", "SINCE"], hint=hint)
    return statement, statement.window


def _without_window(condition: nodes.Expression) -> tuple[nodes.Expression, nodes.Window | None]:
    """Split WHERE from a window at its end.

    The grammar reads ``(status = 'failed') BETWEEN '2026-06-01' AND NOW`` as a comparison.
    But what is in parentheses is a condition, so BETWEEN starts the window there.
    """
    if not isinstance(condition, nodes.Operation):
        return condition, None
    first, last = condition.operands[0], condition.operands[-1]
    if condition.operator == "between" and isinstance(first, nodes.Operation) and first.operator in CONDITIONS:
        since, until = map(_as_moment, condition.operands[1:])
        if since is not None and until is not None:
            return first, nodes.Window(condition.span, since, until)
    if condition.operator in ("and", "or", "not"):
        last, window = _without_window(last)
        return replace(condition, operands=(*condition.operands[:-1], last)), window
    return condition, None


def _with_window_of_time(statement: nodes.Select) -> nodes.Select:
    """The statement with the conditions on the time in its WHERE, if they are joined with AND, as its window."""
    condition = statement.where
    assert condition is not None
    conditions: tuple[nodes.Expression, ...] = (condition,)
    if isinstance(condition, nodes.Operation) and condition.operator == "and":
        conditions = condition.operands
    rest: list[nodes.Expression] = []
    bounds: dict[str, nodes.Moment] = {}
    for condition in conditions:
        found = _bounds(condition)
        if found and not found.keys() & bounds:
            bounds |= found
        else:
            rest.append(condition)
    if "since" not in bounds:
        return statement
    where = nodes.Operation(condition.span, "and", tuple(rest)) if len(rest) > 1 else rest[0] if rest else None
    window = nodes.Window(condition.span, bounds["since"], bounds.get("until"))
    return replace(statement, where=where, window=window)


def _bounds(condition: nodes.Expression) -> dict[str, nodes.Moment]:
    """Where a condition says that the window starts (`since`) or ends (`until`), if it does."""
    bounds: list[tuple[str, nodes.Expression]] = []
    match condition:
        case nodes.Operation(operator="between", operands=(nodes.Name(name="time"), low, high)):
            bounds = [(">=", low), ("<=", high)]
        case nodes.Operation(operator=operator, operands=(nodes.Name(name="time"), value)) if operator in _BOUNDS:
            bounds = [(operator, value)]
        case nodes.Operation(operator=operator, operands=(value, nodes.Name(name="time"))) if operator in _BOUNDS:
            bounds = [({"<": ">", "<=": ">=", ">": "<", ">=": "<="}[operator], value)]
    found = {}
    for operator, value in bounds:
        side, after = _BOUNDS[operator]
        if (moment := _as_moment(value)) is not None:
            found[side] = replace(moment, before_ms=moment.before_ms - after)
    return found


_BOUNDS = {">=": ("since", 0), ">": ("since", 1), "<": ("until", 0), "<=": ("until", 1)}
"""Which end of the window a comparison of the time is, and how many milliseconds after the time."""


def _as_moment(expression: nodes.Expression) -> nodes.Moment | None:
    match expression:
        case nodes.Literal(value=str(written)):
            return nodes.Moment(expression.span, written)
        case nodes.Name(name=name) | nodes.Call(name=nodes.Name(name=name), arguments=()) if name.upper() == "NOW":
            return nodes.Moment(expression.span, None)
        case nodes.Name(name=name) if name.lower() in nodes.DAYS:
            return nodes.Moment(expression.span, name.lower())
        case nodes.Operation(operator="-", operands=(base, nodes.Duration() as before)):
            moment = _as_moment(base)
            return moment and replace(moment, span=expression.span, before_ms=before.milliseconds)
    return None
