"""Checking statements: the source exists, names are known and differ, groups are whole, clauses fit each other."""

from collections.abc import Mapping, Sequence, Set

from obs.query.language import nodes
from obs.query.language.clauses import check_clauses, count_of, interval_of, timezone_of
from obs.query.language.errors import OqlError
from obs.query.language.expressions import Budget, Scope
from obs.query.language.naming import name_of
from obs.query.language.nodes import Span
from obs.query.language.plan import (
    Aggregate,
    Apply,
    Around,
    Checked,
    Constant,
    Listing,
    Order,
    Output,
    Plan,
    Read,
    has_aggregate,
)
from obs.sources import Source

BUCKET = "t"
"""The name of the column that holds the start of the bucket."""
_NO_AGGREGATES = {
    "where": "it cannot stand in WHERE, which chooses rows; HAVING chooses groups",
    "by": "groups cannot be made by it",
}


def check(statement: nodes.Statement, text: str, sources: Mapping[str, Source]) -> Plan | Listing:
    """The plan of a statement. Raises OqlError."""
    if isinstance(statement, nodes.Show):
        return _show(statement, sources)
    source = _source(statement.source, sources)
    if statement.window is None:
        end = len(text.rstrip())
        raise OqlError(
            "oql_no_time_window",
            Span(end, end),
            "the statement has no time window.",
            expected=["LAST", "BETWEEN", "SINCE"],
            hint="Add a window, such as LAST 1h.",
        )
    where = None
    if statement.where is not None:
        where = Scope(source, _NO_AGGREGATES["where"]).condition(statement.where)
    items = _items(statement, source)
    named = {name: expression for name, expression, _ in items}
    budget = Budget()
    by = Scope(source, _NO_AGGREGATES["by"], named, budget=budget)
    groups = tuple(by.check(node) for node in statement.by)
    for node, group in zip(statement.by, groups, strict=True):
        if has_aggregate(group):
            raise OqlError("oql_syntax", node.span, f"this is an aggregate: {_NO_AGGREGATES['by']}.")
    scope = Scope(source, "", named, names_first=True, budget=budget)
    having = None if statement.having is None else scope.condition(statement.having)
    grouped = bool(
        statement.by or statement.every or having is not None or any(has_aggregate(item) for _, item, _ in items)
    )
    outputs = _outputs(statement, text, items, groups)
    order = _order(statement, scope, outputs, grouped=grouped)
    if grouped:
        whole = frozenset(groups)
        for checked in [
            *(output.expression for output in outputs),
            *([having] if having else []),
            *(o.expression for o in order),
        ]:
            _check_grouped(checked, whole)
    check_clauses(statement, outputs, grouped=grouped)
    return Plan(
        source=source,
        outputs=outputs,
        output_type=_output_type(statement, outputs),
        window=statement.window,
        grouped=grouped,
        where=where,
        groups=groups,
        interval_ms=interval_of(statement.every),
        having=having,
        order=order,
        top=count_of(statement.top, least=1),
        limit=count_of(statement.limit, least=0),
        fill=statement.fill,
        timezone=timezone_of(statement.timezone),
        compare=statement.compare,
        around=_around(statement, sources),
        explain=statement.explain,
    )


def _show(statement: nodes.Show, sources: Mapping[str, Source]) -> Listing:
    if statement.source is None:
        rows = tuple((source.name, source.row, source.time) for source in sources.values())
        return Listing(("source", "row", "time"), rows)
    source = _source(statement.source, sources)
    columns = [source.column(name) for name in source.names()]
    return Listing(
        ("column", "type", "description"),
        tuple((column.name, column.type.value, column.description) for column in columns if column is not None),
    )


def _source(name: nodes.Name, sources: Mapping[str, Source]) -> Source:
    source = sources.get(name.name)
    if source is None:
        known = list(sources)
        raise OqlError("oql_unknown_source", name.span, f"there is no source {name.name}.", expected=known, known=known)
    return source


def _items(statement: nodes.Select, source: Source) -> list[tuple[str, Checked, Span]]:
    """Name, expression and place of every column that is listed; ``*`` is all of the source's."""
    scope = Scope(source)
    items: list[tuple[str, Checked, Span]] = []
    for item in statement.items:
        if isinstance(item.expression, nodes.Star):
            columns = [source.column(name) for name in source.names()]
            items += [(c.name, Read(item.expression.span, c), item.expression.span) for c in columns if c is not None]
            continue
        checked = scope.check(item.expression)
        if item.alias is not None:
            items.append((item.alias.name, checked, item.alias.span))
        else:
            items.append((name_of(checked, item.text), checked, item.expression.span))
    return items


def _outputs(
    statement: nodes.Select, text: str, items: Sequence[tuple[str, Checked, Span]], groups: Sequence[Checked]
) -> tuple[Output, ...]:
    """The columns of the answer: groups that are not listed, then what is listed. Raises OqlError for equal names."""
    listed = {expression for _, expression, _ in items}
    places = {group: place for place, group in reversed(list(enumerate(groups)))}
    unlisted = [
        (name_of(group, " ".join(text[slice(*node.span)].split())), group, node.span)
        for node, group in zip(statement.by, groups, strict=True)
        if group not in listed
    ]
    taken = {BUCKET} if statement.every else set()
    outputs = []
    for name, expression, span in [*unlisted, *items]:
        if name in taken:
            raise OqlError(
                "oql_duplicate_column",
                span,
                f"two columns would have the name {name}.",
                hint="Give one of them another name with AS.",
            )
        taken.add(name)
        if statement.compare is not None and has_aggregate(expression):
            taken.add(f"{name}_previous")
        outputs.append(Output(name, expression, places.get(expression)))
    return tuple(outputs)


def _order(statement: nodes.Select, scope: Scope, outputs: Sequence[Output], *, grouped: bool) -> tuple[Order, ...]:
    order = []
    names = {output.name: output.expression for output in outputs}
    by_name = Scope(scope.source, "", names, names_first=True, budget=scope.budget)
    places = {output.expression: place for place, output in reversed(list(enumerate(outputs)))}
    for sorting in statement.order:
        node = sorting.expression
        if statement.every and isinstance(node, nodes.Name) and node.name == BUCKET:
            order.append(Order(Constant(node.span, None, None), sorting.descending, -1))
            continue
        checked = by_name.check(node)
        if not grouped and has_aggregate(checked):
            raise OqlError("oql_not_grouped", node.span, "an aggregate in ORDER BY needs one in SELECT, or BY.")
        place = places.get(checked)
        if statement.every and place is None:
            raise OqlError(
                "oql_unknown_column",
                node.span,
                "with EVERY, ORDER BY takes columns of the answer.",
                expected=[BUCKET, *names],
                hint="Add it to SELECT.",
            )
        order.append(Order(checked, sorting.descending, place))
    return tuple(order)


def _check_grouped(expression: Checked, groups: Set[Checked]) -> None:
    """Raises OqlError for a column that is neither in an aggregate nor in BY."""
    match expression:
        case _ if expression in groups:
            return
        case Read():
            raise OqlError(
                "oql_not_grouped",
                expression.span,
                f"{expression.column.name} is neither in an aggregate nor in BY.",
                expected=["an aggregate"],
                hint=f"Add BY {expression.column.name}, or write any({expression.column.name}).",
            )
        case Apply():
            for argument in expression.arguments:
                _check_grouped(argument, groups)


def _around(statement: nodes.Select, sources: Mapping[str, Source]) -> Around | None:
    """The annotations that AROUND names: a plan of their times, names and titles."""
    around = statement.around
    if around is None:
        return None
    assert statement.window is not None
    source = _source(nodes.Name(around.span, "annotations"), sources)
    scope = Scope(source)
    shown = [nodes.Name(around.span, name) for name in ("time", "name", "title")]
    begins = nodes.Operation(around.prefix.span, "starts with", (shown[1], around.prefix))
    annotations = Plan(
        source=source,
        outputs=tuple(Output(name.name, scope.check(name)) for name in shown),
        output_type="table",
        window=statement.window,
        grouped=False,
        where=scope.condition(begins),
        limit=count_of(statement.limit, least=0),
    )
    return Around(annotations, around.within.milliseconds)


def _output_type(statement: nodes.Select, outputs: Sequence[Output]) -> str:
    if statement.every is not None:
        return "timeseries"
    if statement.around is not None or statement.compare is not None:
        return "table"
    aggregates = [
        output for output in outputs if isinstance(output.expression, Aggregate) or has_aggregate(output.expression)
    ]
    if len(aggregates) == 1:
        if not statement.by and len(outputs) == 1:
            return "single_value"
        if len(statement.by) == 1 and len(outputs) == 2:
            return "bar"
    return "table"
