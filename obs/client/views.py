"""What a person reads and writes with the client: jobs, results of statements, annotations."""

from __future__ import annotations

import json
import shutil
import signal
import sys
from collections.abc import Iterable, Sequence
from typing import Any
from unicodedata import combining, east_asian_width
from urllib.parse import quote

from .outbox import now, printable
from .server import ServerError, configured


def jobs(options: Any) -> None:
    fields = ("status", "last_outcome", "last_heartbeat_at", "expected_at")
    server, cursor, rows = configured(), "", []
    path = f"jobs?limit=1000{'&status=trouble' if options.trouble else ''}"
    while cursor is not None:
        page = server.request("GET", path + cursor, "jobs")
        rows += [(job["name"], *(str(job[field] or "")[:16] for field in fields)) for job in page["jobs"]]
        cursor = page["next_cursor"] and f"&cursor={quote(page['next_cursor'])}"
    show(table(("JOB", "STATE", "LAST RESULT", "LAST (UTC)", "EXPECTED (UTC)"), rows))


def query(options: Any) -> None:
    """Run a statement and show the result: a timeseries as a chart."""
    accept = {"Accept": "text/csv"} if options.csv else {"Accept": "application/json"} if options.json else {}
    sent = {"query": options.statement, "params": dict(options.param)}
    answer = configured().request("POST", "dsl", "rows", sent, **accept)
    draw = _chart if not accept and answer["output_type"] == "timeseries" else table
    show(answer if accept else draw(answer["columns"], answer["rows"]))


def as_value(text: str) -> Any:
    """The value of a parameter: numbers, true, false and null as in JSON; all else is text, and so is ``"123"``."""
    try:
        value = json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return text
    return text if isinstance(value, (list, dict)) else value


def annotate(options: Any) -> None:
    """Create an annotation; or end the last one of that name that has no end, if there is one in the last 7 days."""
    server, time, title = configured(), now(), {"title": options.title} if options.title else {}
    if options.end:
        path = f"annotations?limit=1000&start=-7d&name_prefix={quote(options.name, safe='')}"
        for one in server.request("GET", path, "annotations")["annotations"]:
            if one["name"] == options.name and not (one["end_time"] or one["by_service"]):
                changes = {"end_time": max(time, one["start_time"]), **title}
                server.request("PUT", f"annotations/{one['id']}", "id", changes)
                return
    if not title:
        raise ServerError(f"{options.name} has no open annotation of the last 7 days, so a TITLE is needed")
    server.request("POST", "annotations", "id", {"name": options.name, "start_time": time, **title})


def show(text: str) -> None:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly where nobody reads on, as after `| head`
    lines = map(printable if sys.stdout.isatty() else str, text.replace("\r\n", "\n").rstrip("\n").split("\n"))
    sys.stdout.buffer.write("\n".join([*lines, ""]).encode(sys.stdout.encoding, "replace"))


def _text(cell: Any) -> str:
    return printable(cell) if isinstance(cell, str) else json.dumps(cell)


def _width(text: str) -> int:  # on a terminal
    return sum(0 if combining(one) else 2 if east_asian_width(one) in "WF" else 1 for one in text)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    cells = [[_text(cell) for cell in row] for row in (columns, *rows)]
    widths = [max(map(_width, column)) for column in zip(*cells)]
    padded = ([cell + " " * (width - _width(cell)) for cell, width in zip(row, widths)] for row in cells)
    return "\n".join("  ".join(row).rstrip() for row in padded)


def _chart(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A line of blocks for each number of each group, from the lowest value, but at most 0, to the highest."""
    numbers = [one for one in range(1, len(columns)) if {type(row[one]) for row in rows} <= {int, float, type(None)}]
    times = sorted({row[0] for row in rows})
    lines: dict[str, dict[str, Any]] = {}
    for row in rows:
        group = [_text(cell) for place, cell in enumerate(row) if place and place not in numbers]
        for place in numbers:
            lines.setdefault(" ".join([*group, columns[place]]), {})[row[0]] = row[place]
    if not lines or sum(map(len, lines.values())) < len(rows) * len(numbers):
        return table(columns, rows)  # there are no numbers, or there are groups that are numbers
    step = -(-len(times) // max(20, shutil.get_terminal_size().columns - max(map(_width, lines)) - 24))
    drawn = []
    for name, values in lines.items():
        known = [value for value in values.values() if value is not None]
        low, high = min([0, *known]), max([0, *known])  # bars begin at 0
        parts = ([values.get(time) for time in times[start : start + step]] for start in range(0, len(times), step))
        tops = (max((value for value in part if value is not None), default=None) for part in parts)
        blocks = (" " if top is None else "▁▂▃▄▅▆▇█"[round((top - low) / ((high - low) or 1) * 7)] for top in tops)
        drawn.append((name, "".join(blocks), min(known, default=None), max(known, default=None)))
    merged = f", the highest of each {step}" if step > 1 else ""
    return table(("", f"{times[0][:16]} to {times[-1][:16]} (UTC){merged}", "LOW", "HIGH"), drawn)
