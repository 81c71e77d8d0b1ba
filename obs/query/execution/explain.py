"""EXPLAIN: what a statement means, the SQL it becomes, how SQLite goes about it, what it may read."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from obs import times
from obs.query.execution.hints import slices
from obs.query.execution.rollup import rolled
from obs.query.execution.session import Session
from obs.query.language.durations import write_duration
from obs.query.language.plan import Plan
from obs.query.sql.compile import compile_explanation, compile_plan
from obs.query.sql.reading import Reading, Rolled

COLUMNS = ("what", "text")


def explain(plan: Plan, readings: Sequence[Reading], path: Path, session: Session) -> list[tuple[str, str]]:
    """What there is to say, as rows of COLUMNS. Reads three slices of the window, each a 200th of it."""
    reading = readings[0]
    hours = rolled(plan, reading, session)
    reading = replace(reading, rolled=hours)
    compiled = compile_plan(plan, reading)
    said = [
        ("source", f"{plan.source.name}: {plan.source.row}, by {plan.source.time}"),
        ("window", str(reading.window)),
    ]
    if reading.interval_ms is not None:
        first = times.format_ms(reading.starts[0])
        said.append(
            ("buckets", f"{len(reading.starts)} of {write_duration(reading.interval_ms)}, the first at {first}")
        )
    if len(readings) > 1:
        said.append(("compared with", str(readings[1].window)))
    if hours is not None:
        said += [("rollup", text) for text in _told(hours)]
    said += [("sql", compiled.sql), ("parameters", json.dumps(compiled.parameters, ensure_ascii=False))]
    said += [("plan", row[3]) for row in session.fetch(compile_explanation(compiled))]
    estimate = _estimated_bytes(plan, reading, path, session)
    said.append(("estimated bytes", "unknown" if estimate is None else str(estimate)))
    return said


def _told(hours: Rolled) -> Iterator[str]:
    """What comes out of rollups, and what does not."""
    for grain, spans in hours.spans:
        count = sum(end - first for first, end in spans)
        first, end = (times.format_ms(number * grain.unit_ms) for number in (spans[0][0], spans[-1][1]))
        unit = write_duration(grain.unit_ms)
        yield f"{count} x {unit} by {' and '.join(sorted(grain.columns))}, between {first} and {end}"
    if hours.stretches:
        yield f"the rows of {', '.join(map(str, hours.stretches))}"


def _estimated_bytes(plan: Plan, reading: Reading, path: Path, session: Session) -> int | None:
    """What slices at the start, in the middle and at the end of the window read, times their share of it.

    With a rollup what is read, for it is little. At most the size of the file and its log; None where the system does
    not tell what is read.
    """
    before = session.bytes_scanned()
    if before is None:
        return None
    if reading.rolled is not None:
        session.fetch(compile_plan(plan, reading))
        return (session.bytes_scanned() or 0) - before
    pieces = list(slices(reading.window))
    for piece in pieces:
        session.fetch(compile_plan(plan, replace(reading, window=piece)))
    read = (session.bytes_scanned() or 0) - before
    files = [path, path.with_name(path.name + "-wal")]
    return min(
        read * reading.window.length_ms // sum(piece.length_ms for piece in pieces),
        sum(file.stat().st_size for file in files if file.exists()),
    )
