"""Checking statements: sources and names exist, names of result columns differ, and clauses fit together."""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from zoneinfo import ZoneInfo, available_timezones

from obs.query.language import nodes
from obs.query.language.errors import OqlError
from obs.query.language.expressions import Budget, Scope
from obs.query.language.functions import FUNCTIONS, NUMERIC
from obs.query.language.nodes import Span
from obs.query.language.plan import (
    Aggregate,
    Apply,
    Around,
    Checked,
    Derived,
    Listing,
    Order,
    Output,
    Plan,
    Read,
    has_aggregate,
)
from obs.query.language.window import windowed
from obs.sources import Source, Type
from obs.times import find_zone

BUCKET = "t"
"""The name of the result column with the start of the bucket."""


def check(statement: nodes.Statement, text: str, sources: Mapping[str, Source]) -> Plan | Listing:
    if isinstance(statement, nodes.Show):
        if statement.source is None:
            rows = tuple((source.name, source.row, source.time) for source in sources.values())
            return Listing(("source", "row", "time"), rows)
        columns = _source(statement.source, sources).by_name().values()
        described = tuple((column.name, column.type.value, column.description) for column in columns)
        return Listing(("column", "type", "description"), described)
    return _check_select(statement, text, sources)


def _check_select(statement: nodes.Select, text: str, sources: Mapping[str, Source]) -> Plan:
    source = _source(statement.source, sources)
    statement, window = windowed(statement, text)
    statement = replace(statement, by=tuple(_at_position(node, statement) for node in statement.by))
    budget = Budget()
    items = _items(statement, source, budget)
    if statement.distinct and not statement.by and not any(has_aggregate(item) for _, item, _ in items):
        statement = replace(statement, by=tuple(item.expression for item in statement.items))
    named = {name: expression for name, expression, _ in items}
    where = None
    if statement.where is not None:
        no_aggregates = "WHERE selects rows. Use HAVING to select groups."
        where = Scope(source, no_aggregates, named, budget=budget).condition(statement.where)
        if has_aggregate(where):
            raise OqlError("oql_syntax", where.span, f"This is an aggregate. {no_aggregates}")
    no_aggregates = "BY cannot group by it."
    by = Scope(source, no_aggregates, named, budget=budget)
    groups = tuple(by.check(node) for node in statement.by)
    for node, group in zip(statement.by, groups, strict=True):
        if has_aggregate(group):
            raise OqlError("oql_syntax", node.span, f"This is an aggregate. {no_aggregates}")
    derived = _derived(statement, items)
    names = {**named, **derived}
    scope = Scope(source, "", {name: names[name] for name in names if name != BUCKET}, names_first=True, budget=budget)
    having = None if statement.having is None else scope.condition(statement.having)
    grouped = bool(
        statement.by or statement.every or having is not None or any(has_aggregate(item) for _, item, _ in items)
    )
    outputs = _outputs(statement, text, items, groups)
    order = _order(statement, replace(scope, names={o.name: o.expression for o in outputs} | derived), grouped=grouped)
    if grouped:
        whole = frozenset(groups)
        written = [output.expression for output in outputs] + ([having] if having is not None else [])
        for expression in written + [sorting.expression for sorting in order]:
            _check_grouped(expression, whole)
    _check_clauses(statement, outputs, grouped=grouped)
    plan = Plan(
        source=source,
        outputs=outputs,
        output_type=_output_type(statement, outputs),
        window=window,
        grouped=grouped,
        where=where,
        groups=groups,
        interval_ms=_interval(statement.every),
        having=having,
        order=order,
        top=_count(statement.top, least=1),
        limit=_count(statement.limit, least=0),
        offset=_count(statement.offset, least=0) or 0,
        fill=statement.fill,
        timezone=_timezone(statement.timezone),
        compare=statement.compare,
        around=_around(statement, sources),
        explain=statement.explain,
    )
    late = [each.expression for each in order] if plan.is_ordered_last else []
    late += [having] if plan.is_derived and having is not None else []
    known = frozenset() if plan.around else frozenset(output.expression for output in outputs)
    hidden = dict.fromkeys(part for each in late for part in _unknown(each, known))
    if hidden and plan.around:
        message = "With AROUND, HAVING and ORDER BY take columns of the result."
        raise OqlError("oql_unknown_column", next(iter(hidden)).span, message, expected=list(derived))
    return replace(plan, outputs=(*outputs, *(Output("", each, hidden=True) for each in hidden)))


def _unknown(expression: Checked, known: Set[Checked]) -> Iterator[Checked]:
    """The aggregates in an expression of HAVING or ORDER BY that are not columns of the result."""
    if isinstance(expression, Aggregate) and expression not in known:
        yield expression
    elif isinstance(expression, Apply) and expression not in known:
        for argument in expression.arguments:
            yield from _unknown(argument, known)


def _derived(statement: nodes.Select, items: Sequence[tuple[str, Checked, Span]]) -> dict[str, Checked]:
    derived: dict[str, Type | None] = {BUCKET: Type.TIME} if statement.every else {}
    if statement.around is not None:
        derived |= {"time": Type.TIME, "name": Type.TEXT, "title": Type.TEXT}
    suffixes = ("previous",) if statement.compare else ("before", "after") if statement.around else ()
    for name, expression, _ in items:
        if suffixes and has_aggregate(expression):
            derived |= {f"{name}_{suffix}": expression.type for suffix in suffixes}
            derived |= {f"{name}_change_pct": Type.NUMBER} if expression.type in NUMERIC else {}
    return {name: Derived(Span(0, 0), name, type_) for name, type_ in derived.items()}


def _at_position(
    node: nodes.Expression, statement: nodes.Select, names: Sequence[str] | None = None
) -> nodes.Expression:
    """BY and ORDER BY by number: the column, by its name where `names` are given. Raises OqlError."""
    if not isinstance(node, nodes.Literal) or isinstance(node.value, bool | None):
        return node
    count = len(statement.items if names is None else names)
    if isinstance(node.value, str):
        hint = f"Remove the quotes: {node.value}."
        raise OqlError("oql_type_mismatch", node.span, "This is a text, not a column.", hint=hint)
    if not isinstance(node.value, int) or not 1 <= node.value <= count:
        message = f"There is no column {node.value}: there are {count}."
        raise OqlError("oql_unknown_column", node.span, message, hint="Write the name of the column.")
    if names is not None:
        return nodes.Name(node.span, names[node.value - 1])
    return statement.items[node.value - 1].expression


def _source(name: nodes.Name, sources: Mapping[str, Source]) -> Source:
    source = sources.get(name.name)
    if source is None:
        known = list(sources)
        raise OqlError("oql_unknown_source", name.span, f"There is no source {name.name}.", expected=known, known=known)
    return source


def _items(statement: nodes.Select, source: Source, budget: Budget) -> list[tuple[str, Checked, Span]]:
    """Name, expression and span of every item of SELECT."""
    named: dict[str, Checked] = {}
    scope = Scope(source, names=named, budget=budget)
    items: list[tuple[str, Checked, Span]] = []
    for item in statement.items:
        if isinstance(item.expression, nodes.Star):
            span = item.expression.span
            items += [(name, Read(span, column), span) for name, column in source.by_name().items()]
            continue
        checked = scope.check(item.expression)
        if item.alias is not None:
            named[item.alias.name] = checked
            items.append((item.alias.name, checked, item.alias.span))
        else:
            items.append((_name_of(checked, item.text), checked, item.expression.span))
    return items


def _outputs(
    statement: nodes.Select, text: str, items: Sequence[tuple[str, Checked, Span]], groups: Sequence[Checked]
) -> tuple[Output, ...]:
    """The groups that SELECT does not list, then its items. Raises OqlError (oql_duplicate_column)."""
    listed = {expression for _, expression, _ in items}
    places = {group: place for place, group in reversed(list(enumerate(groups)))}
    unlisted = [
        (_name_of(group, " ".join(text[slice(*node.span)].split())), group, node.span)
        for node, group in zip(statement.by, groups, strict=True)
        if group not in listed
    ]
    taken = {BUCKET} if statement.every else set()
    outputs = []
    for name, expression, span in [*unlisted, *items]:
        if name in taken:
            message = f"Two columns would have the name {name}."
            raise OqlError("oql_duplicate_column", span, message, hint="Rename one of them with AS.")
        taken.add(name)
        if statement.compare is not None and has_aggregate(expression):
            taken.add(f"{name}_previous")
        outputs.append(Output(name, expression, places.get(expression)))
    return tuple(outputs)


def _order(statement: nodes.Select, scope: Scope, *, grouped: bool) -> tuple[Order, ...]:
    order = []
    for sorting in statement.order:
        checked = scope.check(_at_position(sorting.expression, statement, tuple(scope.names or ())))
        if not grouped and has_aggregate(checked):
            span = sorting.expression.span
            raise OqlError("oql_not_grouped", span, "An aggregate in ORDER BY requires one in SELECT, or BY.")
        order.append(Order(checked, sorting.descending))
    return tuple(order)


def _check_grouped(expression: Checked, groups: Set[Checked]) -> None:
    """Raises OqlError for a column that is neither in an aggregate nor in BY."""
    match expression:
        case _ if expression in groups:
            return
        case Read():
            name = expression.column.name
            message = f"{name} is neither inside an aggregate nor in BY."
            hint = f"Add BY {name}, or write any({name})."
            raise OqlError("oql_not_grouped", expression.span, message, expected=["an aggregate"], hint=hint)
        case Apply():
            for argument in expression.arguments:
                _check_grouped(argument, groups)


def _around(statement: nodes.Select, sources: Mapping[str, Source]) -> Around | None:
    around = statement.around
    if around is None:
        return None
    columns = [nodes.Name(around.span, name) for name in ("time", "name", "title")]
    annotations = nodes.Select(
        items=tuple(nodes.Item(column, None, column.name) for column in columns),
        source=nodes.Name(around.span, "annotations"),
        where=nodes.Operation(around.prefix.span, "starts with", (columns[1], around.prefix)),
        window=statement.window,
        limit=None if statement.order or statement.having or statement.offset else statement.limit,
    )
    return Around(_check_select(annotations, "", sources), around.within.milliseconds)


def _output_type(statement: nodes.Select, outputs: Sequence[Output]) -> str:
    if statement.every is not None:
        return "timeseries"
    if statement.around is not None or statement.compare is not None:
        return "table"
    if sum(has_aggregate(output.expression) for output in outputs) == 1:
        keeps_its_row = (
            statement.having is None
            and statement.offset is None
            and (statement.limit is None or statement.limit.value != 0)
        )
        if not statement.by and len(outputs) == 1 and keeps_its_row:
            return "single_value"
        if len(statement.by) == 1 and len(outputs) == 2:
            return "bar"
    return "table"


def _check_clauses(statement: nodes.Select, outputs: Sequence[Output], *, grouped: bool) -> None:
    first = next((output for output in outputs if has_aggregate(output.expression)), None)
    if statement.fill is not None and statement.every is None:
        raise OqlError("oql_syntax", statement.fill.span, "FILL requires EVERY.", expected=["EVERY"])
    if statement.top is not None:
        if first is None or not statement.by:
            raise OqlError("oql_syntax", statement.top.span, "TOP requires BY and an aggregate.", expected=["LIMIT"])
        if first.expression.type in (Type.TEXT, Type.BOOLEAN):
            message = "TOP requires that the first aggregate is a number or a time."
            raise OqlError("oql_type_mismatch", statement.top.span, message)
    if statement.compare is not None:
        if first is None:
            raise OqlError("oql_syntax", statement.compare.span, "COMPARE WITH requires an aggregate.")
        if statement.compare.milliseconds == 0:
            raise OqlError("oql_bad_duration", statement.compare.span, "COMPARE WITH requires at least 1ms.")
    if statement.around is not None:
        around = statement.around
        if first is None or statement.by or statement.every or statement.compare or statement.top:
            message = "AROUND requires an aggregate, and cannot be combined with BY, EVERY, TOP or COMPARE WITH."
            raise OqlError("oql_syntax", around.span, message)
        if around.within.milliseconds == 0:
            raise OqlError("oql_bad_duration", around.within.span, "WITHIN requires at least 1ms.")
    if statement.having is not None and not grouped:
        message = "HAVING requires BY, EVERY or an aggregate."
        raise OqlError("oql_syntax", statement.having.span, message, expected=["WHERE"])


def _interval(every: nodes.Every | None) -> int | None:
    if every is None:
        return None
    if every.interval is None:
        return 0
    if every.interval.milliseconds == 0:
        raise OqlError("oql_bad_duration", every.interval.span, "EVERY requires at least 1ms.", expected=["a duration"])
    return every.interval.milliseconds


def _count(literal: nodes.Literal | None, *, least: int) -> int | None:
    if literal is None:
        return None
    assert isinstance(literal.value, int)
    if literal.value < least:
        raise OqlError("oql_type_mismatch", literal.span, f"The number has to be at least {least}.")
    return literal.value


def _timezone(literal: nodes.Literal | None) -> ZoneInfo | None:
    if literal is None:
        return None
    zone = find_zone(str(literal.value))
    if zone is None:
        message, expected = f"There is no time zone {literal.value}.", ["a time zone such as 'Europe/Berlin'"]
        known = sorted(available_timezones())
        raise OqlError("oql_bad_timezone", literal.span, message, expected=expected, known=known)
    return zone


def _name_of(expression: Checked, text: str) -> str:
    """The name of a result column without AS, whose expression was written as `text`."""
    match expression:
        case Read():
            return expression.column.name
        case Aggregate(per_ms=int()):
            inner = text.partition("(")[2].rpartition(",")[0]
            return f"{expression.name}_{_name_of(expression.arguments[0], inner)}"
        case Aggregate(name="percentile"):
            parts = [f"p{expression.percent:g}".replace(".", "_")]
        case Aggregate():
            parts = [expression.name, *(["distinct"] if expression.distinct else [])]
        case Apply() if expression.name in FUNCTIONS:
            parts = [expression.name]
        case _:
            return text
    if expression.arguments:
        first = expression.arguments[0]
        inside = text.partition("(")[2].partition(")")[0]
        parts.append(first.column.name if isinstance(first, Read) else re.sub(r"\W+", "_", inside).strip("_"))
    return "_".join(parts)
