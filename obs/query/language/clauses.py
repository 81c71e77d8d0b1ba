"""Checking clauses: what each says, and that those that stand together mean something."""

from collections.abc import Sequence
from zoneinfo import ZoneInfo, available_timezones

from obs.query.language import nodes
from obs.query.language.errors import OqlError
from obs.query.language.plan import Output, has_aggregate
from obs.sources import Type


def check_clauses(statement: nodes.Select, outputs: Sequence[Output], *, grouped: bool) -> None:
    """Raises OqlError for clauses that mean nothing beside each other."""
    first = next((output for output in outputs if has_aggregate(output.expression)), None)
    if statement.fill is not None and statement.every is None:
        raise OqlError(
            "oql_syntax", statement.fill.span, "FILL fills buckets, and there is no EVERY.", expected=["EVERY"]
        )
    if statement.top is not None and (first is None or not statement.by):
        raise OqlError(
            "oql_syntax", statement.top.span, "TOP chooses groups: it needs BY and an aggregate.", expected=["LIMIT"]
        )
    if statement.top is not None and first is not None and first.expression.type in (Type.TEXT, Type.BOOLEAN):
        raise OqlError(
            "oql_type_mismatch", statement.top.span, "TOP needs a first aggregate that is a number or a time."
        )
    if statement.compare is not None:
        if first is None:
            raise OqlError("oql_syntax", statement.compare.span, "COMPARE WITH compares aggregates, and there is none.")
        if statement.compare.milliseconds == 0:
            raise OqlError("oql_bad_duration", statement.compare.span, "there is nothing to compare 0 ms ago.")
    if statement.around is not None:
        around = statement.around
        if first is None or statement.by or statement.every or statement.compare or statement.top or statement.having:
            raise OqlError(
                "oql_syntax", around.span, "AROUND takes aggregates, WHERE, a window, ORDER BY and LIMIT only."
            )
        if around.within.milliseconds == 0:
            raise OqlError("oql_bad_duration", around.within.span, "there is nothing within 0 ms.")
    if statement.having is not None and not grouped:
        raise OqlError(
            "oql_syntax", statement.having.span, "HAVING chooses groups, and there are none.", expected=["WHERE"]
        )


def interval_of(every: nodes.Every | None) -> int | None:
    if every is None:
        return None
    if every.interval is None:
        return 0
    if every.interval.milliseconds == 0:
        raise OqlError(
            "oql_bad_duration", every.interval.span, "a bucket is at least 1ms long.", expected=["a duration"]
        )
    return every.interval.milliseconds


def count_of(literal: nodes.Literal | None, *, least: int) -> int | None:
    if literal is None:
        return None
    assert isinstance(literal.value, int)
    if literal.value < least:
        raise OqlError("oql_type_mismatch", literal.span, f"the number must be at least {least}.")
    return literal.value


def timezone_of(literal: nodes.Literal | None) -> ZoneInfo | None:
    if literal is None:
        return None
    name = str(literal.value)
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise OqlError(
            "oql_bad_timezone",
            literal.span,
            f"there is no time zone {name}.",
            expected=["a time zone such as 'Europe/Berlin'"],
            known=_zones(),
        ) from error


def _zones() -> list[str]:
    return sorted(available_timezones())
