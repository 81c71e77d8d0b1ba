"""Checking expressions: names are looked up, types are determined, and calls and operators get fitting arguments."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from obs import times
from obs.query.language import habits, nodes
from obs.query.language.actions import duration_of
from obs.query.language.errors import OqlError, mismatch
from obs.query.language.functions import FUNCTIONS, NUMERIC, Family, Function, Result, json_path, regular_expression
from obs.query.language.nodes import Literal
from obs.query.language.plan import Aggregate, Apply, Checked, Derived, Read, as_key, has_aggregate, walk
from obs.sources import Source, Type

_UNQUOTED = re.compile(r"-?\d[\d.]*\s*[a-z]*")
_WORD = re.compile(r"\w+(?:[-./@:]+[^\W\d]\w*|[-.@]+\w+)*")
_MOST_NODES = 10_000  # that all aliases of a statement may stand for: an alias of aliases could stand for millions
_LITERAL_TYPES = {type(None): None, bool: Type.BOOLEAN, str: Type.TEXT, int: Type.INTEGER, float: Type.NUMBER}


@dataclass(frozen=True, slots=True)
class Scope:
    """The source and the `names` of result columns that an expression can refer to: these first with `names_first`."""

    source: Source
    no_aggregates: str = ""  # why aggregates are not allowed; empty where they are
    names: Mapping[str, Checked] | None = None
    names_first: bool = False
    left: Iterator[int] = field(default_factory=lambda: iter(range(_MOST_NODES)))  # is used up by these nodes
    text: str = ""  # the statement

    def check(self, node: nodes.Expression) -> Checked:
        """Raises OqlError."""
        match node:
            case nodes.Name():
                return self._name(node)
            case nodes.Literal():
                return replace(node, type=_LITERAL_TYPES[type(node.value)])
            case nodes.Duration():
                return Literal(node.span, fixed_ms(node), Type.DURATION)
            case nodes.Star():
                message, hint = "* has to be alone, or in count(*).", "Write a column: sum(duration_ms)."
                raise OqlError("oql_syntax", node.span, message, expected=["a column"], hint=hint)
            case nodes.Call():
                return self._call(node)
            case nodes.Operation():
                return _OPERATORS[node.operator](node, self._checked(node.operands))

    def _checked(self, arguments: Sequence[nodes.Expression]) -> tuple[Checked, ...]:
        checked = tuple(map(self.check, arguments))
        habits.check_unquoted(checked, self.source.by_name())
        return checked

    def condition(self, node: nodes.Expression) -> Checked:
        """Raises OqlError."""
        return _condition(self.check(node))

    def _name(self, node: nodes.Name) -> Checked:
        named = (self.names or {}).get(node.name)
        column = self.source.by_name().get(node.name)
        if named is not None and (self.names_first or column is None):
            if self.no_aggregates and (has_aggregate(named) or isinstance(named, Derived)):
                raise OqlError("oql_syntax", node.span, f"This is an aggregate. {self.no_aggregates}")
            for _ in walk(named):
                if next(self.left, None) is None:
                    message = "The statement is too long once its aliases are replaced."
                    raise OqlError("oql_too_long", node.span, message)
            return replace(named, span=node.span)
        if column is not None:
            return Read(node.span, column)
        if node.name.upper() == "NOW":
            return Apply(node.span, "now", (), Type.TIME)
        names = [*dict.fromkeys((*self.source.by_name(), *(self.names or {})))]
        message = f"{self.source.name} has no column {node.name}."
        hint = None if node.name.lower() in names else habits.instead_of(node.name, self.source.by_name())
        word = _WORD.match(self.text, node.span.start)
        whole = word[0] if word else node.name
        if node.is_quoted:
            hint = f"Double quotes are for names. Use single quotes for text: '{node.name}'."
        if not hint and whole == node.name and (text := node.name.lower().removeprefix("is_")) not in names:
            hint = habits.condition(text, self.source.columns)
        columns = f"SHOW COLUMNS FROM {self.source.name} lists the columns."
        advice = f"{columns} Text is written in single quotes: '{whole}'."
        raise OqlError("oql_unknown_column", node.span, message, expected=names, known=names, hint=hint, advice=advice)

    def _call(self, node: nodes.Call) -> Checked:
        name = node.name.name.lower()
        function = FUNCTIONS.get(name)
        if function is None and name == "now" and not node.arguments:
            return Apply(node.span, "now", (), Type.TIME)
        if function is None:
            names, message = list(FUNCTIONS), f"There is no function {node.name.name}."
            hint = habits.percentile(name) or habits.FUNCTIONS.get(name)
            raise OqlError("oql_unknown_function", node.name.span, message, expected=names, known=names, hint=hint)
        if not function.aggregate or Family.AGGREGATE in function.parameters:
            return self._scalar(node, function)
        if self.no_aggregates:
            hint = "Write IN ('a', 'b'), or OR between two conditions." if name == "any" else None
            raise OqlError("oql_syntax", node.name.span, f"{name} is an aggregate. {self.no_aggregates}", hint=hint)
        return self._aggregate(node, function)

    def _scalar(self, node: nodes.Call, function: Function) -> Checked:
        if node.distinct or node.filter is not None:
            what = "DISTINCT" if node.distinct else "FILTER"
            raise OqlError("oql_syntax", node.name.span, f"{function.name} takes no {what}: an aggregate of rows does.")
        arguments = self._checked(node.arguments)
        if arguments and _LENGTHS & {*function.parameters}:
            arguments = (arguments[0], *(_as_type(Type.DURATION, each) for each in arguments[1:]))
        families = _check_arguments(node, function, arguments)
        type_ = _result_type(function, arguments)
        if function.result is Result.COMMON:
            values = [each for each, family in zip(arguments, families, strict=True) if family is Family.ANY]
            type_ = _common_type(values)
            arguments = tuple(_as_type(type_, each) for each in arguments)
        return Apply(node.span, function.name, arguments, type_)

    def _aggregate(self, node: nodes.Call, function: Function) -> Checked:
        alone = "An aggregate cannot be inside another one: ask for it in a statement of its own."
        rows = replace(self, no_aggregates=alone, names_first=False)
        if function.counts and len(node.arguments) == 1 and isinstance(node.arguments[0], nodes.Star):
            arguments: tuple[Checked, ...] = ()
            if node.distinct:
                raise OqlError("oql_syntax", node.arguments[0].span, "DISTINCT takes a column.", expected=["a column"])
        else:
            arguments = rows._checked(node.arguments)
            if any(isinstance(each, Apply) and each.type is Type.BOOLEAN for each in arguments):
                message = f"{function.name} takes a value, not a condition."
                hint = "Write count(*) FILTER (WHERE condition). For a share, write 100.0 * that / count(*)."
                raise mismatch(arguments[0].span, message, ["a column"], hint)
            _check_arguments(node, function, arguments)
        if function.counts and not node.distinct:
            habits.check_counted(arguments)
        if function.counts:  # keys are counted without the join for their values
            arguments = tuple(map(as_key, arguments))
        if node.distinct and "{distinct}" not in str(function.sql):
            possible = ", ".join(each.name for each in FUNCTIONS.values() if "{distinct}" in str(each.sql))
            raise OqlError("oql_syntax", node.name.span, f"{function.name} takes no DISTINCT. These do: {possible}.")
        filter_ = None if node.filter is None else rows.condition(node.filter)
        percent = function.percent
        if Family.PERCENT in function.parameters:
            *first, last = arguments
            assert isinstance(last, Literal)
            if not isinstance(last.value, int | float) or not 0 <= last.value <= 100:
                raise mismatch(last.span, "The number has to be from 0 to 100.", [Family.PERCENT.text])
            if 0 < last.value < 1:
                hint = f"Did you mean {last.value * 100:g}?"
                raise mismatch(last.span, "A percentage below 1 is too small.", [Family.PERCENT.text], hint)
            percent, arguments = last.value, tuple(first)
        type_ = _result_type(function, arguments)
        return Aggregate(node.span, function.name, arguments, type_, node.distinct, filter_, percent)


def fixed_ms(length: nodes.Duration) -> int:
    """Raises OqlError (oql_bad_duration) for months."""
    if length.months:
        message, hint = "A month has no fixed length.", "Write days: 30d. EVERY and the time window take months."
        raise OqlError("oql_bad_duration", length.span, message, expected=["a duration"], hint=hint)
    return length.milliseconds


def time_of(text: str, span: nodes.Span) -> int:
    """Milliseconds since the epoch. Raises OqlError (oql_bad_time)."""
    try:
        return times.parse_iso(text)
    except ValueError as error:
        hint = "Write a time as '2026-06-21T10:00:00Z'."
        if not re.match(r"\d+[-./]", text):
            hint += " For a time of day, write hour(time) >= 9; for one before now, NOW - 1d."
        raise OqlError("oql_bad_time", span, str(error), expected=["a time"], hint=hint) from error


_FORMS: Mapping[Family, type] = {  # what an argument has to be, where an expression of the same type will not do
    **dict.fromkeys((Family.DIGITS, Family.PERCENT, Family.LENGTH, Family.WIDTH, Family.REGEX, Family.PATH), Literal),
    Family.AGGREGATE: Aggregate,
}
_LENGTHS = {Family.LENGTH, Family.WIDTH}
_PATTERNS: Mapping[Family, tuple[Callable[[str], object], str, str]] = {
    Family.REGEX: (regular_expression, "regular expression", "'.*' is any text. RE2 has no look-around."),
    Family.PATH: (json_path, "path", "Write '$.name', '$.list[0]' or '$.\"a name\"'."),
}
"""For each kind of pattern: what reads it, what an error calls it, and a hint."""


def _check_arguments(node: nodes.Call, function: Function, arguments: Sequence[Checked]) -> list[Family]:
    """The family of each argument. Raises OqlError if their number or a type is wrong."""
    parameters = function.parameters
    fewest, most = len(parameters) - function.optional, len(parameters)
    if len(arguments) < fewest or (len(arguments) > most and not function.repeats):
        count = f"at least {fewest}" if function.repeats else str(most) if fewest == most else f"{fewest} or {most}"
        message = f"{function.name} takes {count} argument{'' if count.endswith('1') else 's'}, not {len(arguments)}."
        expected = [family.text for family in parameters]
        hint = habits.ARGUMENTS.get(function.name) if arguments or function.counts else None
        raise mismatch(node.name.span, message, expected, hint)
    families = [parameters[min(index, most - 1)] for index in range(len(arguments))]
    for argument, family in zip(arguments, families, strict=True):
        has_type = argument.type is None or argument.type in family.types
        if not has_type or not isinstance(argument, _FORMS.get(family, object)):
            found = "an expression" if has_type else _named(argument.type)
            hint = habits.ARGUMENTS.get(function.name) if family in _FORMS else None
            message = f"{function.name} takes {family.text} here, not {found}."
            raise mismatch(argument.span, message, [family.text], hint)
        if family in _LENGTHS and isinstance(argument, Literal) and float(argument.value or 0) <= 0:
            raise mismatch(argument.span, "It has to be above 0.", [family.text])
        if family in _PATTERNS:
            _check_pattern(argument, family)
    return families


def _check_pattern(pattern: Checked, family: Family) -> None:
    read, name, hint = _PATTERNS[family]
    try:
        read(str(pattern.value) if isinstance(pattern, Literal) else "")
    except ValueError as error:
        message = f"The {name} is not valid: {error}."
        raise OqlError("oql_syntax", pattern.span, message, expected=[family.text], hint=hint) from error


def _result_type(function: Function, arguments: Sequence[Checked]) -> Type | None:
    if isinstance(function.result, Type):
        return function.result
    type_ = arguments[0].type
    return Type.NUMBER if function.result is Result.MEAN and type_ is Type.INTEGER else type_


def _named(type_: Type | None) -> str:
    return "NULL" if type_ is None else f"{'an' if type_ is Type.INTEGER else 'a'} {type_.value}"


def _condition(expression: Checked) -> Checked:
    if expression.type not in (Type.BOOLEAN, None):
        hint = "Write a comparison, such as exit_code != 0, or exit_code IN (1, 2) for several values."
        raise mismatch(expression.span, f"Expected a condition, not {_named(expression.type)}.", ["a condition"], hint)
    return expression


def _as_type(type_: Type | None, expression: Checked) -> Checked:
    """The expression, with a literal text read as a time or a duration if `type_` is that."""
    if isinstance(expression, Literal) and isinstance(text := expression.value, str):
        if type_ is Type.TIME:
            return Literal(expression.span, time_of(text, expression.span), type_)
        if type_ is Type.DURATION:
            return Literal(expression.span, fixed_ms(duration_of(text, expression.span)), type_)
    return expression


_LITERALS = {  # how to write a value of a type that does not go together with others
    Type.BOOLEAN: "Write TRUE or FALSE.",
    Type.TIME: "Write a time in single quotes, such as '2026-06-21', or NOW - 1d.",
    Type.TEXT: "Write a text in single quotes.",
}


def _common_type(expressions: Sequence[Checked]) -> Type | None:
    """The type that all expressions have, or are converted to. Raises OqlError if there is none."""
    common: Type | None = None
    for expression in expressions:
        type_ = expression.type
        if common is None or type_ is None or common is type_:
            common = common or type_
        elif common in NUMERIC and type_ in NUMERIC:
            common = Type.DURATION if Type.DURATION in (common, type_) else Type.NUMBER
        elif {common, type_} in ({Type.TIME, Type.TEXT}, {Type.DURATION, Type.TEXT}) and any(
            isinstance(each, Literal) for each in expressions if each.type is Type.TEXT
        ):
            common = type_ if common is Type.TEXT else common
        else:
            hint = None if isinstance(expression, Read) or common is None else _LITERALS.get(common)
            for each in expressions:
                text = str(each.value) if isinstance(each, Literal) and each.type is Type.TEXT else ""
                unquoted = f"Remove the quotes: {text}." if _UNQUOTED.fullmatch(text) else None
                if advice := unquoted or habits.NUMBERS.get(text.lower()):
                    expression, type_, common = each, Type.TEXT, type_ if common is Type.TEXT else common
                    hint = advice
            raise mismatch(expression.span, f"Expected {_named(common)}, not {_named(type_)}.", [_named(common)], hint)
    return common


def _comparison(node: nodes.Operation, arguments: tuple[Checked, ...]) -> Checked:
    for argument in arguments:
        if isinstance(argument, Literal) and argument.value is None:
            raise mismatch(argument.span, "No value equals NULL.", hint="Write IS NULL or IS NOT NULL.")
    first, *others = arguments
    for other in others[:1] if node.operator == "between" else others:
        habits.check_possible(first, other, node.operator)
        habits.check_possible(other, first, node.operator)
    if node.operator in habits.EQUALITY:
        habits.check_known(arguments)
    common = _common_type(arguments)
    arguments = tuple(_as_type(common, each) for each in arguments)
    if node.operator == "between":
        habits.check_range(*arguments)
    if any(map(habits.has_unit, arguments)):
        for plain in filter(habits.has_no_unit, arguments):
            hint = "Compare a duration with it, such as duration_ms > 90s, or leave out the unit."
            hint = "Write a unit after each number, such as 90s or 5m." if isinstance(plain, Literal) else hint
            raise mismatch(plain.span, "This has no unit of time.", hint=hint)
    if node.operator not in habits.EQUALITY and common is not None and common not in Family.ORDERED.types:
        raise mismatch(arguments[0].span, f"Values of type {common.value} have no order.", ["=", "!="])
    return Apply(node.span, node.operator, arguments, Type.BOOLEAN)


def _matching(node: nodes.Operation, arguments: tuple[Checked, ...]) -> Checked:
    operator = node.operator.upper()
    for each in arguments:
        if each.type is not Type.TEXT:
            hint = "Write date(time) LIKE '2026-06%', or SINCE '2026-06-01'." if each.type is Type.TIME else None
            raise mismatch(each.span, f"{operator} compares texts. This is {_named(each.type)}.", ["a text"], hint)
    pattern, *escape = arguments[1:]
    if escape and isinstance(escape[0], Literal) and len(str(escape[0].value)) > 1:
        raise mismatch(escape[0].span, "ESCAPE takes one character.", ["a text in single quotes"])
    if node.operator not in ("contains", "starts with") and not isinstance(pattern, Literal):
        raise mismatch(pattern.span, f"{operator} takes a pattern in single quotes.", ["a text in single quotes"])
    if node.operator in ("=~", "!~"):
        _check_pattern(pattern, Family.REGEX)
    if isinstance(pattern, Literal):
        habits.check_wildcards(node.operator, pattern)
        if not any(isinstance(each, Literal) and each.value for each in escape):
            habits.check_pattern(node.operator, arguments[0], pattern)
    return Apply(node.span, node.operator, arguments, Type.BOOLEAN)


def _logic(node: nodes.Operation, arguments: tuple[Checked, ...]) -> Checked:
    if text := next((argument for argument in arguments if argument.type is Type.TEXT), None):
        hint = "Write job IN ('a', 'b') for several values, or concat(a, b) for one text."
        is_after = any(isinstance(each, Apply) and _OPERATORS.get(each.name) is _matching for each in arguments)
        if is_after and isinstance(text, Literal):
            hint = "Write the column again: job LIKE 'a%' OR job LIKE 'b%'."
        if len(arguments) > 1 and all(isinstance(each, Read) for each in arguments):
            hint = "Write a comma between columns of BY, and comparisons after WHERE."
        if node.operator == "not" and isinstance(text, Read):
            hint = f"Write {text.column.name} IS NULL."
        raise mismatch(text.span, "AND, OR, NOT and || take conditions.", ["a condition"], hint)
    if node.operator != "not":
        habits.check_terms(node.operator, arguments)
    return Apply(node.span, node.operator, tuple(map(_condition, arguments)), Type.BOOLEAN)


def _check_numbers(operator: str, arguments: tuple[Checked, ...]) -> tuple[Checked, ...]:
    for argument in arguments:
        if argument.type is not None and argument.type not in NUMERIC:
            message = f"{operator} takes numbers. This is {_named(argument.type)}."
            hints = {"-": "A text with a hyphen needs single quotes: 'host-03'.", "+": "Write concat(x, '/', y)."}
            if isinstance(argument, Apply) and argument.name == "date":
                hints["-"] = "Subtract from the time: date(NOW - 7d)."
            hint = hints.get(operator) if argument.type is Type.TEXT and len(arguments) > 1 else None
            raise mismatch(argument.span, message, ["a number", "a duration"], hint)
    return arguments


def _beside(other: Checked, expression: Checked) -> Checked:
    """A literal text beside a time or a duration is one of these, too."""
    is_time = isinstance(expression, Literal) and re.match(r"\d{4}-", str(expression.value))
    type_ = Type.TIME if is_time else Type.DURATION
    return _as_type(type_ if other.type in (Type.TIME, Type.DURATION) else None, expression)


def _arithmetic(node: nodes.Operation, arguments: tuple[Checked, ...]) -> Checked:
    operator, (first, second) = node.operator, arguments
    arguments = left, right = _beside(second, first), _beside(first, second)
    if Type.TIME in (left.type, right.type):
        for each in arguments if operator in "+-" else ():
            if isinstance(each, Literal) and each.type in (Type.INTEGER, Type.NUMBER):
                message, hint = f"{each.value} has no unit of time.", "Write a duration, such as 7d or 90s."
                raise mismatch(each.span, message, ["a duration"], hint)
        shifted = left.type is Type.TIME and right.type in NUMERIC
        if operator == "-" and left.type is right.type is Type.TIME:
            type_: Type | None = Type.DURATION
        elif operator in "+-" and (shifted or (operator == "+" and left.type in NUMERIC)):
            type_ = Type.TIME
        else:
            message = f"{_named(left.type)} {operator} {_named(right.type)} has no meaning."
            raise mismatch(right.span, message[0].upper() + message[1:], ["a duration"])
        return Apply(node.span, operator, arguments, type_)
    _check_numbers(operator, arguments)
    if (operator, right.type) == ("/", Type.DURATION) and isinstance(left, Aggregate) and left.name == "count":
        raise mismatch(node.span, "This is a number for each millisecond.", hint="Write rate(count(*), 1d).")
    quotient = Type.DURATION if left.type is Type.DURATION is not right.type else Type.NUMBER
    return Apply(node.span, operator, arguments, quotient if operator == "/" else _common_type(arguments))


def _case(node: nodes.Operation, arguments: tuple[Checked, ...]) -> Checked:
    conditions = list(map(_condition, arguments[:-1:2]))
    values = [*arguments[1:-1:2], arguments[-1]]
    type_ = _common_type(values)
    *values, otherwise = [_as_type(type_, value) for value in values]
    branches = [part for branch in zip(conditions, values, strict=True) for part in branch]
    return Apply(node.span, "case", (*branches, otherwise), type_)


_OPERATORS: Mapping[str, Callable[[nodes.Operation, tuple[Checked, ...]], Checked]] = {
    **dict.fromkeys(("and", "or", "not"), _logic),
    **dict.fromkeys((*habits.EQUALITY, "<", "<=", ">", ">=", "between"), _comparison),
    **dict.fromkeys(("like", "ilike", "contains", "starts with", "=~", "!~"), _matching),
    **dict.fromkeys(("is null", "is not null"), lambda node, of: Apply(node.span, node.operator, of, Type.BOOLEAN)),
    **dict.fromkeys(("+", "-", "*", "/", "%"), _arithmetic),
    "negative": lambda node, of: Apply(node.span, node.operator, _check_numbers("-", of), of[0].type),
    "case": _case,
}
