"""What operators take and give: their types."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from obs import times
from obs.query.language import nodes
from obs.query.language.errors import OqlError
from obs.query.language.functions import NUMERIC, TYPES, Family
from obs.query.language.patterns import regular_expression
from obs.query.language.plan import Apply, Checked, Constant, Read
from obs.sources import Type

_ORDERED = TYPES[Family.ORDERED]
_TIME_HINT = "Write a time as '2026-06-21T10:00:00Z'."


def time_of(text: str, span: nodes.Span) -> int:
    """Milliseconds since the epoch. Raises OqlError (oql_bad_time)."""
    try:
        return times.parse_iso(text)
    except ValueError as error:
        raise OqlError("oql_bad_time", span, str(error), expected=["a time"], hint=_TIME_HINT) from error


def type_of(value: str | float | bool | None) -> Type | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return Type.BOOLEAN
    if isinstance(value, str):
        return Type.TEXT
    return Type.INTEGER if isinstance(value, int) else Type.NUMBER


def a(type_: Type | None) -> str:
    if type_ is None:
        return "NULL"
    return f"an {type_.value}" if type_ is Type.INTEGER else f"a {type_.value}"


def mismatch(expression: Checked, message: str, expected: Sequence[str] = (), hint: str | None = None) -> OqlError:
    return OqlError("oql_type_mismatch", expression.span, f"{message}.", expected=expected, hint=hint)


def at(span: nodes.Span, expression: Checked) -> Checked:
    return replace(expression, span=span)


def condition_of(expression: Checked) -> Checked:
    if expression.type not in (Type.BOOLEAN, None):
        raise mismatch(expression, f"a condition is needed, and this is {a(expression.type)}", ["a condition"])
    return expression


def as_type(type_: Type | None, expressions: Sequence[Checked]) -> tuple[Checked, ...]:
    """Texts become times where `type_` is that."""
    if type_ is not Type.TIME:
        return tuple(expressions)
    return tuple(_as_time(expression) for expression in expressions)


def _as_time(expression: Checked) -> Checked:
    if isinstance(expression, Constant) and isinstance(expression.value, str):
        return Constant(expression.span, time_of(expression.value, expression.span), Type.TIME)
    return expression


def common_type(expressions: Sequence[Checked]) -> Type | None:
    """The type that all have. Raises OqlError where there is none; a text beside a time is a time."""
    common: Type | None = None
    for expression in expressions:
        type_ = expression.type
        if common is None or type_ is None or common is type_:
            common = common or type_
        elif common in NUMERIC and type_ in NUMERIC:
            common = Type.DURATION if Type.DURATION in (common, type_) else Type.NUMBER
        elif {common, type_} == {Type.TIME, Type.TEXT} and any(
            isinstance(each, Constant) for each in expressions if each.type is Type.TEXT
        ):
            common = Type.TIME
        else:
            raise mismatch(expression, f"{a(common)} is needed, and this is {a(type_)}", [a(common)])
    return common


def _comparison(node: nodes.Operation, arguments: Sequence[Checked]) -> Checked:
    for argument in arguments:
        if isinstance(argument, Constant) and argument.value is None:
            raise mismatch(argument, "nothing equals NULL", hint="Write IS NULL or IS NOT NULL.")
    if node.operator in ("=", "!=", "in", "not in"):
        _check_known(arguments)
    common = common_type(arguments)
    if node.operator not in ("=", "!=", "in", "not in") and common not in _ORDERED and common is not None:
        raise mismatch(arguments[0], f"{a(common)} has no order", ["=", "!="])
    return Apply(node.span, node.operator, as_type(common, arguments), Type.BOOLEAN)


def _check_known(arguments: Sequence[Checked]) -> None:
    """Raises OqlError where a column is compared with a text that it never has."""
    columns = [argument.column for argument in arguments if isinstance(argument, Read)]
    for column in columns:
        known = column.values or column.texts
        for argument in arguments:
            if known and isinstance(argument, Constant) and argument.type is Type.TEXT and argument.value not in known:
                quoted = [f"'{text}'" for text in known]
                message = f"{column.name} is never {argument.value!r}."
                raise OqlError("oql_type_mismatch", argument.span, message, expected=quoted, known=quoted)


def _matching(node: nodes.Operation, arguments: Sequence[Checked]) -> Checked:
    for argument in arguments:
        if argument.type is not Type.TEXT:
            raise mismatch(
                argument, f"{node.operator.upper()} compares texts, and this is {a(argument.type)}", ["a text"]
            )
    if node.operator not in ("contains", "starts with") and not isinstance(arguments[1], Constant):
        raise mismatch(arguments[1], f"{node.operator.upper()} takes a pattern in quotes", ["a text in single quotes"])
    pattern = arguments[1]
    if node.operator in ("=~", "!~") and isinstance(pattern, Constant):
        try:
            regular_expression(str(pattern.value))
        except ValueError as error:
            raise OqlError(
                "oql_syntax",
                pattern.span,
                f"the regular expression cannot be used: {error}.",
                expected=["a regular expression of RE2"],
                hint="Back references and look-around do not exist in RE2.",
            ) from error
    return Apply(node.span, node.operator, tuple(arguments), Type.BOOLEAN)


def _logic(node: nodes.Operation, arguments: Sequence[Checked]) -> Checked:
    conditions = tuple(condition_of(argument) for argument in arguments)
    if node.operator == "not" and isinstance(conditions[0], Apply) and conditions[0].name == "not":
        return at(node.span, conditions[0].arguments[0])
    return Apply(node.span, node.operator, conditions, Type.BOOLEAN)


def _is_null(node: nodes.Operation, arguments: Sequence[Checked]) -> Checked:
    return Apply(node.span, node.operator, tuple(arguments), Type.BOOLEAN)


def _negative(node: nodes.Operation, arguments: Sequence[Checked]) -> Checked:
    type_ = arguments[0].type
    if type_ is not None and type_ not in NUMERIC:
        raise mismatch(arguments[0], f"a number is needed, and this is {a(type_)}", ["a number"])
    return Apply(node.span, node.operator, tuple(arguments), type_)


def _arithmetic(node: nodes.Operation, arguments: Sequence[Checked]) -> Checked:
    left, right = arguments
    operator = node.operator
    if Type.TIME in (left.type, right.type):
        moves = left.type is Type.TIME and right.type in NUMERIC
        if operator == "-" and left.type is right.type is Type.TIME:
            type_: Type | None = Type.DURATION
        elif operator in "+-" and (moves or (operator == "+" and left.type in NUMERIC)):
            type_ = Type.TIME
        else:
            raise mismatch(right, f"{a(left.type)} {operator} {a(right.type)} has no meaning", ["a duration"])
        return Apply(node.span, operator, (left, right), type_)
    for argument in arguments:
        if argument.type is not None and argument.type not in NUMERIC:
            raise mismatch(
                argument, f"{operator} takes numbers, and this is {a(argument.type)}", ["a number", "a duration"]
            )
    durations = [argument.type is Type.DURATION for argument in arguments]
    if operator in "+-%":
        type_ = common_type(arguments)
    elif operator == "*":
        type_ = Type.DURATION if any(durations) else common_type(arguments)
    else:
        type_ = Type.DURATION if durations == [True, False] else Type.NUMBER
    return Apply(node.span, operator, (left, right), type_)


def _case(node: nodes.Operation, arguments: Sequence[Checked]) -> Checked:
    conditions = [condition_of(argument) for argument in arguments[:-1:2]]
    values = [*arguments[1:-1:2], arguments[-1]]
    type_ = common_type(values)
    values = list(as_type(type_, values))
    pairs = [part for pair in zip(conditions, values[:-1], strict=True) for part in pair]
    return Apply(node.span, "case", (*pairs, values[-1]), type_)


OPERATORS: Mapping[str, Callable[[nodes.Operation, Sequence[Checked]], Checked]] = {
    **dict.fromkeys(("and", "or", "not"), _logic),
    **dict.fromkeys(("=", "!=", "<", "<=", ">", ">=", "in", "not in", "between", "not between"), _comparison),
    **dict.fromkeys(
        (
            "like",
            "not like",
            "ilike",
            "not ilike",
            "contains",
            "not contains",
            "starts with",
            "not starts with",
            "=~",
            "!~",
        ),
        _matching,
    ),
    **dict.fromkeys(("is null", "is not null"), _is_null),
    **dict.fromkeys(("+", "-", "*", "/", "%"), _arithmetic),
    "negative": _negative,
    "case": _case,
}
