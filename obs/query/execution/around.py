"""AROUND: what the aggregates were before and after each annotation."""

import math
from dataclasses import replace
from typing import Any

from obs.query.execution.limits import Limits, too_many_rows
from obs.query.execution.result import Row, write_row, writers
from obs.query.execution.session import Session
from obs.query.execution.window import Range
from obs.query.language.functions import NUMERIC
from obs.query.language.plan import Plan
from obs.query.sql.compile import compile_plan
from obs.query.sql.reading import Reading


def around(plan: Plan, reading: Reading, limits: Limits, session: Session) -> tuple[list[str], list[Row], int]:
    """The names of the columns, the rows, and how many rows were scanned. Raises ServiceError for too many rows."""
    assert plan.around is not None
    annotations, within_ms = plan.around.annotations, plan.around.within_ms
    found = session.fetch(compile_plan(annotations, reading))
    if len(found) > limits.max_rows:
        raise too_many_rows(limits, grouped=False)
    writing = writers(plan.outputs)
    numbers = [output.expression.type in NUMERIC for output in plan.outputs]
    scanned = len(found)
    rows = []
    for marker in found:
        time = marker[0]
        sides = []
        for window in (Range(time - within_ms, time), Range(time, time + within_ms)):
            ((_, *values, _, count),) = session.fetch(
                compile_plan(plan, replace(reading, window=window, rate_ms=within_ms, most_rows=None))
            )
            sides.append(write_row(values, writing))
            scanned += count
        row = write_row(marker, writers(annotations.outputs))
        for before, after, is_number in zip(*sides, numbers, strict=True):
            row += [before, after, _change_pct(before, after) if is_number else None]
        rows.append(row)
    names = [f"{output.name}_{side}" for output in plan.outputs for side in ("before", "after", "change_pct")]
    return [*(output.name for output in annotations.outputs), *names], rows, scanned


def _change_pct(before: Any, after: Any) -> float | None:
    """How much more or less in percent; None where there is nothing to compare with, or more than a number holds."""
    if before is None or after is None or before == 0:
        return None
    change: float = (after - before) / abs(before) * 100
    return change if math.isfinite(change) else None
