"""Checking expressions: names are looked up, types are settled, calls fit their functions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from obs.query.language import nodes
from obs.query.language.errors import OqlError
from obs.query.language.functions import FUNCTIONS, TYPES, Family, Function
from obs.query.language.operators import OPERATORS, a, as_type, at, common_type, condition_of, mismatch, type_of
from obs.query.language.plan import Aggregate, Apply, Checked, Constant, Read, walk
from obs.sources import Source, Type


@dataclass(slots=True)
class Budget:
    """How much names of columns of the answer may stand for in one statement, all together, in parts of expressions.

    Without it a short statement could mean one of millions of parts.
    """

    left: int = 10_000
    sizes: dict[str, int] = field(default_factory=dict)

    def spend(self, name: nodes.Name, expression: Checked) -> None:
        """Take what a name stands for. Raises OqlError (oql_too_long)."""
        if name.name not in self.sizes:
            self.sizes[name.name] = sum(1 for _ in walk(expression))
        self.left -= self.sizes[name.name]
        if self.left < 0:
            raise OqlError(
                "oql_too_long", name.span, "with what its names stand for, written out, the statement is too long."
            )


@dataclass(frozen=True, slots=True)
class Scope:
    """Where an expression stands: its source, the names that other columns of the answer have, what may be there.

    `aggregates` says why an aggregate cannot stand there; empty where it can. `names` are looked up before the columns
    of the source where `names_first`, else after.
    """

    source: Source
    aggregates: str = ""
    names: Mapping[str, Checked] | None = None
    names_first: bool = False
    budget: Budget = field(default_factory=Budget)

    def check(self, node: nodes.Expression) -> Checked:
        """The checked expression. Raises OqlError."""
        match node:
            case nodes.Name():
                return self._name(node)
            case nodes.Literal():
                return Constant(node.span, node.value, type_of(node.value))
            case nodes.Duration():
                return Constant(node.span, node.milliseconds, Type.DURATION)
            case nodes.Star():
                raise OqlError("oql_syntax", node.span, "* stands alone, or in count(*).", expected=["a column"])
            case nodes.Call():
                return self._call(node)
            case nodes.Operation():
                return self._operation(node)

    def condition(self, node: nodes.Expression) -> Checked:
        """A checked expression that is true or false. Raises OqlError."""
        return condition_of(self.check(node))

    def _name(self, node: nodes.Name) -> Checked:
        named = (self.names or {}).get(node.name)
        if named is not None and self.names_first:
            self.budget.spend(node, named)
            return at(node.span, named)
        column = self.source.column(node.name)
        if column is not None:
            return Read(node.span, column)
        if named is not None:
            self.budget.spend(node, named)
            return at(node.span, named)
        if node.name.upper() == "NOW":
            return Apply(node.span, "now", (), Type.TIME)
        names = [*self.source.names(), *(self.names or {})]
        raise OqlError(
            "oql_unknown_column",
            node.span,
            f"{self.source.name} has no column {node.name}.",
            expected=names,
            known=names,
        )

    def _operation(self, node: nodes.Operation) -> Checked:
        arguments = tuple(self.check(operand) for operand in node.operands)
        return OPERATORS[node.operator](node, arguments)

    def _call(self, node: nodes.Call) -> Checked:
        function = FUNCTIONS.get(node.name.name.lower())
        if function is None:
            raise OqlError(
                "oql_unknown_function",
                node.name.span,
                f"there is no function {node.name.name}.",
                expected=list(FUNCTIONS),
                known=list(FUNCTIONS),
            )
        if not function.aggregate:
            return self._scalar(node, function)
        if self.aggregates:
            raise OqlError("oql_syntax", node.name.span, f"{function.name} is an aggregate: {self.aggregates}.")
        return self._aggregate(node, function)

    def _scalar(self, node: nodes.Call, function: Function) -> Checked:
        if node.distinct or node.filter is not None:
            what = "DISTINCT" if node.distinct else "FILTER"
            raise OqlError("oql_syntax", node.name.span, f"{function.name} is no aggregate and takes no {what}.")
        arguments = tuple(self.check(argument) for argument in node.arguments)
        _fit(node, function, arguments)
        if function.name in ("coalesce", "if"):
            first = 1 if function.name == "if" else 0
            type_ = common_type(arguments[first:])
            return Apply(node.span, function.name, arguments[:first] + as_type(type_, arguments[first:]), type_)
        return Apply(node.span, function.name, arguments, function.result or arguments[0].type)

    def _aggregate(self, node: nodes.Call, function: Function) -> Checked:
        rows = replace(self, aggregates="it cannot stand inside another one", names=None)
        if function.name == "rate":
            return self._rate(node, function)
        if function.name == "count" and len(node.arguments) == 1 and isinstance(node.arguments[0], nodes.Star):
            arguments: tuple[Checked, ...] = ()
            if node.distinct:
                raise OqlError("oql_syntax", node.arguments[0].span, "DISTINCT takes a column.", expected=["a column"])
        else:
            arguments = tuple(rows.check(argument) for argument in node.arguments)
            _fit(node, function, arguments)
        if node.distinct and function.name not in ("count", "sum", "avg"):
            raise OqlError("oql_syntax", node.name.span, f"{function.name} takes no DISTINCT; count, sum and avg do.")
        filter_ = None if node.filter is None else rows.condition(node.filter)
        percent = function.percent
        if function.name == "percentile":
            percent = _number_between(arguments[1], 0, 100)
            arguments = arguments[:1]
        type_ = function.result or arguments[0].type
        if (function.name in ("avg", "stddev") and type_ is Type.INTEGER) or (
            percent is not None and type_ is Type.INTEGER
        ):
            type_ = Type.NUMBER
        return Aggregate(node.span, function.name, arguments, type_, node.distinct, filter_, percent)

    def _rate(self, node: nodes.Call, function: Function) -> Checked:
        if node.distinct or node.filter is not None:
            raise OqlError("oql_syntax", node.name.span, "write FILTER or DISTINCT in the aggregate inside rate.")
        arguments = tuple(self.check(argument) for argument in node.arguments)
        _fit(node, function, arguments)
        counted, per = arguments
        if not isinstance(counted, Aggregate) or counted.per_ms is not None:
            raise mismatch(counted, "rate takes an aggregate first", ["an aggregate"])
        if not isinstance(per, Constant) or not isinstance(per.value, int) or per.value < 1:
            raise mismatch(per, "rate takes a duration of at least 1ms", ["a duration"])
        return Aggregate(node.span, "rate", (counted,), Type.NUMBER, per_ms=per.value)


def _fit(node: nodes.Call, function: Function, arguments: Sequence[Checked]) -> None:
    """Raises OqlError where a call does not fit its function."""
    wanted = function.parameters
    fewest = len(wanted) - function.optional
    if len(arguments) < fewest or (len(arguments) > len(wanted) and not function.repeats):
        count = (
            "at least 1"
            if function.repeats
            else str(len(wanted))
            if not function.optional
            else f"{fewest} or {len(wanted)}"
        )
        raise OqlError(
            "oql_type_mismatch",
            node.name.span,
            f"{function.name} takes {count} argument{'' if count.endswith('1') else 's'}, and has {len(arguments)}.",
            expected=[family.value for family in wanted],
        )
    for index, argument in enumerate(arguments):
        family = wanted[min(index, len(wanted) - 1)]
        if argument.type is not None and argument.type not in TYPES[family]:
            raise mismatch(
                argument, f"{function.name} takes {family.value} here, not {a(argument.type)}", [family.value]
            )
        if family in (Family.DIGITS, Family.PERCENT) and not isinstance(argument, Constant):
            raise mismatch(argument, f"{function.name} takes {family.value} that is written out here", [family.value])


def _number_between(constant: Checked, least: float, most: float) -> float:
    assert isinstance(constant, Constant)
    if not isinstance(constant.value, int | float) or not least <= constant.value <= most:
        raise mismatch(constant, f"a number from {least:g} to {most:g} is needed", [Family.PERCENT.value])
    return constant.value
