"""AROUND: the aggregates of a statement before and after each annotation."""

import math
from dataclasses import replace
from typing import Any

from obs.query.execution.limits import Limits, too_many_rows
from obs.query.execution.result import Row, write_row, writers
from obs.query.execution.session import Session
from obs.query.language.functions import NUMERIC
from obs.query.language.plan import Plan
from obs.query.sql.scan import Range, Scan
from obs.query.sql.select import select

_SIDES = ("before", "after", "change_pct")


def around(plan: Plan, scan: Scan, limits: Limits, session: Session) -> tuple[list[str], list[Row], int]:
    """The names of the columns, one row for each annotation in the window, and the number of rows scanned.

    Each row has the columns of the annotation, then each aggregate before it, after it, and its change in percent.
    Raises ServiceError (422) for too many rows.
    """
    assert plan.around is not None
    annotations, within_ms = plan.around.annotations, plan.around.within_ms
    found = session.fetch(select(annotations, scan))
    if len(found) > limits.max_rows:
        raise too_many_rows(limits, grouped=False)
    annotation_writers, value_writers = writers(annotations.outputs), writers(plan.outputs)
    is_number = [output.expression.type in NUMERIC for output in plan.outputs]
    scanned = len(found)
    rows = []
    for annotation in found:
        time = annotation[0]
        sides = []
        for window in (Range(time - within_ms, time), Range(time, time + within_ms)):
            statement = select(plan, replace(scan, window=window, rate_ms=within_ms, max_rows=None))
            ((_, *values, _, count),) = session.fetch(statement)
            sides.append(write_row(values, value_writers))
            scanned += count
        row = write_row(annotation, annotation_writers)
        for before, after, numeric in zip(*sides, is_number, strict=True):
            row += [before, after, _change_pct(before, after) if numeric else None]
        rows.append(row)
    names = [output.name for output in annotations.outputs]
    names += [f"{output.name}_{side}" for output in plan.outputs for side in _SIDES]
    return names, rows, scanned


def _change_pct(before: Any, after: Any) -> float | None:
    """The change in percent of the value before; None where that is null or 0, or the result is not finite."""
    if before is None or after is None or before == 0:
        return None
    change: float = (after - before) / abs(before) * 100
    return change if math.isfinite(change) else None
