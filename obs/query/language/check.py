"""Checking statements: sources and names exist, names of result columns differ, and clauses fit together."""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from zoneinfo import ZoneInfo, available_timezones

from obs.query.language import habits, nodes
from obs.query.language.actions import duration_of
from obs.query.language.errors import OqlError, mismatch
from obs.query.language.expressions import Scope, fixed_ms
from obs.query.language.functions import FUNCTIONS
from obs.query.language.plan import Aggregate, Apply, Checked, Derived, Listing, Output, Plan, Read, has_aggregate
from obs.query.language.scan import scan
from obs.sources import Source, Type
from obs.times import find_zone

_DAY = re.compile(r"\btime\)?\s*(?:=|>=?|BETWEEN)\s*('\d{4}-\d\d-\d\d')", re.IGNORECASE)  # the first one


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
    if statement.window is None and statement.where is not None:  # the window may be in it
        rest, window = _without_bounds(statement.where)
        statement = replace(statement, where=rest, window=window)
    statement = replace(statement, items=tuple(_without_stars(statement.items, source)))
    columns = [item.expression for item in statement.items]
    by = [replace(each, expression=_at_position(each.expression, columns)) for each in statement.by]
    anywhere = Scope(source, text=text)
    named_groups = [each for each in by if each.alias is not None]
    items = _items([*named_groups, *statement.items], anywhere)
    has_aggregates = any(has_aggregate(item) for _, item, _ in items)
    if statement.distinct and not statement.by and not has_aggregates:
        by = [replace(each, alias=None) for each in statement.items]
    statement = replace(statement, by=tuple(by))
    named = {name: expression for name, expression, _ in items}
    rows = replace(anywhere, no_aggregates="WHERE selects rows. Use HAVING to select groups.", names=named)
    where = None if statement.where is None else rows.condition(statement.where)
    groups = tuple(map(replace(rows, no_aggregates="BY cannot group by it.").check, [each.expression for each in by]))
    outputs = _outputs(statement, items[len(named_groups) :], groups)
    grouped = bool(statement.by or statement.every or statement.having or has_aggregates)
    _check_clauses(statement, outputs)
    if statement.window is None:
        end = len(scan(text)[-1].rstrip())
        day = None if statement.timezone or source.name == "jobs" else _DAY.search(text)  # not one of a zone
        example = f"SINCE {day[1]}, and UNTIL with the day after the last one" if day else source.window
        message, hint = "The statement has no time window.", f"Add a window, such as {example}."
        place, expected = nodes.Span(end, end), ["LAST", "BETWEEN", "SINCE"]
        raise OqlError("oql_no_time_window", place, message, expected=expected, hint=hint)
    plan = Plan(
        source=source,
        outputs=outputs,
        output_type=_output_type(statement, outputs),
        window=statement.window,
        grouped=grouped,
        where=where,
        groups=groups,
        interval_ms=statement.every.milliseconds if statement.every is not None else None,
        months=statement.every.months if statement.every is not None else 0,
        top=_count(statement.top, least=1),
        limit=_count(statement.limit, least=0),
        offset=_count(statement.offset, least=0) or 0,
        fill=statement.fill,
        timezone=_timezone(statement.timezone),
        back_ms=fixed_ms(statement.compare) if statement.compare is not None else None,
        around=_annotations(statement, sources),
        within_ms=fixed_ms(statement.around.within) if statement.around is not None else 0,
        explain=statement.explain,
    )
    derived = {each.name: each.expression for each in plan.results if isinstance(each.expression, Derived)}
    selected = {output.name: output.expression for output in outputs}
    names = derived | selected if plan.around is None else selected | derived
    scope = replace(anywhere, names=names, names_first=True)
    of_groups = replace(scope, names={name: names[name] for name in names if name != nodes.BUCKET})
    having = None if statement.having is None else of_groups.condition(statement.having)
    if having is not None and not (statement.by or statement.every or has_aggregates or has_aggregate(having)):
        raise OqlError("oql_syntax", having.span, "HAVING requires BY, EVERY or an aggregate.", hint="Write WHERE.")
    shown = [nodes.Name(nodes.Span(0, 0), output.name) for output in plan.results if not output.hidden]
    plan = replace(plan, having=having, order=tuple(_order(statement, scope, shown, grouped=grouped)))
    sorted_by = [expression for expression, _ in plan.order]
    written = [*(output.expression for output in outputs), *([] if having is None else [having]), *sorted_by]
    for expression in written if grouped else ():
        advice = "Write an aggregate, such as max(x), or WHERE to choose rows." if expression is having else None
        if isinstance(expression, Apply) and not (has_aggregate(expression) or statement.by or statement.every):
            advice = advice or f"Add BY {text[slice(*expression.span)]}."
        _check_grouped(expression, frozenset(groups), advice)
    late = sorted_by if plan.is_ordered_last else []
    late += [having] if plan.is_derived and having is not None else []
    known = frozenset() if plan.around else frozenset(output.expression for output in outputs)
    hidden = dict.fromkeys(part for each in late for part in _unknown(each, known))
    if hidden and plan.around:
        message = "With AROUND, HAVING and ORDER BY take columns of the result."
        raise OqlError("oql_unknown_column", next(iter(hidden)).span, message, expected=list(derived))
    return replace(plan, outputs=(*outputs, *(Output("", each, hidden=True) for each in hidden)))


def _unknown(expression: Checked, known: Set[Checked]) -> Iterator[Checked]:
    """The aggregates, and rates, in an expression of HAVING or ORDER BY that are not columns of the result."""
    if isinstance(expression, Aggregate | Apply) and expression in known:
        return
    if isinstance(expression, Aggregate) or (isinstance(expression, Apply) and expression.name == "rate"):
        yield expression
    elif isinstance(expression, Apply):
        for argument in expression.arguments:
            yield from _unknown(argument, known)


def _at_position(node: nodes.Expression, columns: Sequence[nodes.Expression]) -> nodes.Expression:
    """The expression of BY or ORDER BY; for a number, the column at that place. Raises OqlError."""
    if isinstance(node, nodes.Duration):
        hint = "BY and ORDER BY take columns. For buckets of time, write EVERY 1h."
        raise mismatch(node.span, "This is a duration, not a column.", hint=hint)
    if not isinstance(node, nodes.Literal) or isinstance(node.value, bool | None):
        return node
    if isinstance(node.value, str):
        raise mismatch(node.span, "This is a text, not a column.", hint=f"Remove the quotes: {node.value}.")
    if not isinstance(node.value, int) or not 1 <= node.value <= len(columns):
        message = f"There is no column {node.value}: SELECT has {len(columns)}."
        raise OqlError("oql_unknown_column", node.span, message, hint="Write the name of the column.")
    return columns[node.value - 1]


def _source(name: nodes.Name, sources: Mapping[str, Source]) -> Source:
    if name.name not in sources:
        message, hint, names = f"There is no source {name.name}.", habits.SOURCES.get(name.name.lower()), list(sources)
        advice = "SHOW SOURCES lists the sources."
        raise OqlError("oql_unknown_source", name.span, message, expected=names, known=names, hint=hint, advice=advice)
    return sources[name.name]


def _without_stars(items: Sequence[nodes.Item], source: Source) -> Iterator[nodes.Item]:
    for item in items:
        if isinstance(item.expression, nodes.Star):
            shown = (column.name for column in source.by_name().values() if not column.costly)
            yield from (nodes.Item(nodes.Name(item.expression.span, name), None, name) for name in shown)
        else:
            yield item


def _items(written: Sequence[nodes.Item], scope: Scope) -> list[tuple[str, Checked, nodes.Span]]:
    """Name, expression and span of every item of SELECT, which can refer to those before it."""
    named: dict[str, Checked] = {}
    scope = replace(scope, names=named)
    items: list[tuple[str, Checked, nodes.Span]] = []
    for item in written:
        checked, alias = scope.check(item.expression), item.alias
        if alias is None:  # one with a name may be a label
            habits.check_unquoted([checked], scope.source.by_name())
        if alias is None and isinstance(item.expression, nodes.Name) and item.expression.name in named:
            alias = item.expression  # what has a name keeps it
        if alias is not None:
            named[alias.name] = checked
            items.append((alias.name, checked, alias.span))
        else:
            items.append((_name_of(checked, item.text), checked, item.expression.span))
    return items


def _outputs(
    statement: nodes.Select, items: Sequence[tuple[str, Checked, nodes.Span]], groups: Sequence[Checked]
) -> tuple[Output, ...]:
    """The groups that SELECT does not list or BY names, then its items. Raises OqlError (oql_duplicate_column)."""
    listed, written = {expression for _, expression, _ in items}, {(name, expression) for name, expression, _ in items}
    places = {group: place for place, group in reversed(list(enumerate(groups)))}
    unlisted = [
        (item.alias.name if item.alias else _name_of(group, item.text), group, (item.alias or item.expression).span)
        for item, group in zip(statement.by, groups, strict=True)
        if (item.alias and (item.alias.name, group) not in written) or (not item.alias and group not in listed)
    ]
    taken = {nodes.BUCKET} if statement.every else set()
    outputs = []
    for name, expression, span in [*unlisted, *items]:
        is_compared = statement.compare is not None and has_aggregate(expression)
        for each in [name, *([f"{name}_previous"] if is_compared else [])]:
            if each in taken:
                message = f"Two columns would have the name {each}."
                raise OqlError("oql_duplicate_column", span, message, hint="Rename one of them with AS.")
            taken.add(each)
        outputs.append(Output(name, expression, places.get(expression)))
    return tuple(outputs)


def _order(
    statement: nodes.Select, scope: Scope, columns: Sequence[nodes.Name], *, grouped: bool
) -> Iterator[tuple[Checked, bool]]:
    for expression, descending in statement.order:
        checked = scope.check(replace(_at_position(expression, columns), span=expression.span))
        if not grouped and has_aggregate(checked):
            message = "An aggregate in ORDER BY requires one in SELECT, or BY."
            raise OqlError("oql_not_grouped", expression.span, message)
        yield checked, descending


def _check_grouped(expression: Checked, groups: Set[Checked], advice: str | None = None) -> None:
    """Raises OqlError for a column that is neither in an aggregate nor in BY."""
    if expression in groups:
        return
    if isinstance(expression, Read):
        name = expression.column.name
        message = f"{name} is neither inside an aggregate nor in BY."
        of_time = "Write max(time) for the latest. For a row with its time, write ORDER BY x DESC LIMIT 1, without BY."
        of_time += " With EVERY, the first column is t, where the bucket starts."
        hint = advice or (of_time if name == "time" else f"Add BY {name}, or write last({name}).")
        if expression.span.end - expression.span.start == len("*"):
            hint = "Write the columns of BY, and aggregates, instead of *."
        raise OqlError("oql_not_grouped", expression.span, message, expected=["an aggregate"], hint=hint)
    for argument in expression.arguments if isinstance(expression, Apply) else ():
        _check_grouped(argument, groups, advice)


def _annotations(statement: nodes.Select, sources: Mapping[str, Source]) -> Plan | None:
    if (around := statement.around) is None:
        return None
    columns = [nodes.Name(around.span, name) for name in ("time", "name", "title")]
    items = tuple(nodes.Item(column, None, column.name) for column in columns)
    source = nodes.Name(around.span, "annotations")
    where = nodes.Operation(around.prefix.span, "starts with", (columns[1], around.prefix))
    limit = None if statement.order or statement.having or statement.offset else statement.limit
    return _check_select(nodes.Select(items, source, where, window=statement.window, limit=limit), "", sources)


def _output_type(statement: nodes.Select, outputs: Sequence[Output]) -> str:
    if statement.every is not None:
        return "timeseries"
    aggregates = sum(has_aggregate(output.expression) for output in outputs)
    if aggregates != 1 or len(outputs) != 1 + len(statement.by) or statement.around or statement.compare:
        return "table"
    if statement.by:
        return "bar" if len(statement.by) == 1 else "table"
    may_be_dropped = statement.having or statement.offset or (statement.limit and statement.limit.value == 0)
    return "table" if may_be_dropped else "single_value"


def _check_clauses(statement: nodes.Select, outputs: Sequence[Output]) -> None:
    """Raises OqlError for a clause that requires others."""
    first = next((output.expression for output in outputs if has_aggregate(output.expression)), None)
    is_alone = not (statement.by or statement.every or statement.compare or statement.top)
    alone = "AROUND requires an aggregate, and cannot be combined with BY, EVERY, TOP or COMPARE WITH."
    rules: tuple[tuple[nodes.Node | None, object, str, list[str]], ...] = (
        (statement.fill, statement.every is not None, "FILL requires EVERY.", ["EVERY"]),
        (statement.top, first and statement.by, "TOP requires BY and an aggregate. LIMIT chooses rows.", ["LIMIT"]),
        (statement.compare, first, "COMPARE WITH requires an aggregate.", []),
        (statement.around, first and is_alone, alone, []),
    )
    for clause, is_allowed, message, expected in rules:
        if clause is not None and not is_allowed:
            raise OqlError("oql_syntax", clause.span, message, expected=expected)
    if statement.top is not None and first is not None and first.type in (Type.TEXT, Type.BOOLEAN):
        raise mismatch(statement.top.span, "TOP requires that the first aggregate is a number or a time.")


def _count(literal: nodes.Literal | None, *, least: int) -> int | None:
    if literal is None:
        return None
    assert isinstance(literal.value, int)
    if literal.value < least:
        raise mismatch(literal.span, f"The number has to be at least {least}.")
    return literal.value


def _timezone(literal: nodes.Literal | None) -> ZoneInfo | None:
    if literal is None:
        return None
    if (zone := find_zone(str(literal.value))) is None:
        message, example = f"There is no time zone {literal.value}.", "a time zone such as 'Europe/Berlin'"
        known = sorted(name for name in available_timezones() if "/" in name)  # MST is similar to PST, and no advice
        advice = f"Write {example}."
        raise OqlError("oql_bad_timezone", literal.span, message, expected=[example], known=known, advice=advice)
    return zone


def _name_of(expression: Checked, text: str) -> str:
    """The name of a result column without AS, whose expression was written as `text`."""
    match expression:
        case Read():
            return expression.column.name
        case Apply(name="rate"):
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


def _without_bounds(condition: nodes.Expression) -> tuple[nodes.Expression | None, nodes.Window | None]:
    """Split WHERE from the conditions on the time in it that are the window, if they are joined with AND."""
    conditions: tuple[nodes.Expression, ...] = (condition,)
    if isinstance(condition, nodes.Operation) and condition.operator == "and":
        conditions = condition.operands
    rest: list[nodes.Expression] = []
    bounds: dict[str, nodes.Moment] = {}
    for each in conditions:
        found = _bounds(each)
        is_new = found and not found.keys() & bounds
        bounds |= found if is_new else {}
        if not is_new or (isinstance(each, nodes.Operation) and len(found) < len(each.operands) - 1):
            rest.append(each)  # also BETWEEN with a value that is no bound of the window
    if "since" not in bounds:
        return condition, None
    last = conditions[-1].span
    where = nodes.Operation(last, "and", tuple(rest)) if len(rest) > 1 else rest[0] if rest else None
    return where, nodes.Window(last, bounds["since"], bounds.get("until"))


def _bounds(condition: nodes.Expression) -> dict[str, nodes.Moment]:
    """Where a condition says that the window starts (`since`) or ends (`until`), if it does."""
    match condition:
        case nodes.Operation(operator="between", operands=(nodes.Name(name="time"), low, high)):
            bounds = [(">=", low), ("<=", high)]
        case nodes.Operation(operator=operator, operands=(nodes.Name(name="time"), value)) if operator in _BOUNDS:
            bounds = [(operator, value)]
        case nodes.Operation(operator=operator, operands=(value, nodes.Name(name="time"))) if operator in _BOUNDS:
            bounds = [({"<": ">", "<=": ">=", ">": "<", ">=": "<="}[operator], value)]
        case _:
            return {}
    moments = [(*_BOUNDS[operator], _as_moment(value)) for operator, value in bounds]
    return {side: replace(moment, after_ms=after) for side, after, moment in moments if moment is not None}


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
        case nodes.Operation(operator="-", operands=(base, nodes.Duration() | nodes.Literal(value=str()) as before)):
            length = duration_of(str(before.value), before.span) if isinstance(before, nodes.Literal) else before
            moment = _as_moment(base)
            return moment and replace(moment, span=expression.span, before=length)
    return None
