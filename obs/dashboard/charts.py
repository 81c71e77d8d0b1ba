"""The charts as Vega-Lite specifications. Pure; colours and text styles come from the page.

Times are milliseconds since the epoch, durations are milliseconds.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from obs.dashboard import wording
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

MOST_BARS = 50
_PREVIOUS = "_previous"
Spec = dict[str, Any]
_UNITS = ((DAY_MS, "days"), (HOUR_MS, "hours"), (MINUTE_MS, "minutes"), (SECOND_MS, "seconds"), (1, "milliseconds"))
_STATUSES = ("success", "open", "failed", "lost")
_TICKS = {"year": "%Y", "month": "%b", "week": "%d %b", "date": "%d %b", "day": "%d %b", "hours": "%H:%M"}
_TIME = {
    "field": "t",
    "type": "temporal",
    "title": None,
    "scale": {"nice": False},
    "axis": {"format": {**_TICKS, "minutes": "%H:%M", "seconds": "%H:%M:%S"}, "labelOverlap": True, "grid": False},
}
_WHEN = {"field": "t", "type": "temporal", "format": "%a %d %b %Y %H:%M", "title": "Time"}


class Mark(NamedTuple):
    """An annotation on a chart; a band has an end."""

    name: str
    title: str
    start_time: int
    end_time: int | None


class Point(NamedTuple):
    """Runs with one status that are so close together that they are drawn as one point."""

    time: int
    status: str
    duration_ms: float | None
    runs: int


def durations(points: Sequence[Point], marks: Iterable[Mark], start: int, end: int) -> Spec:
    """Run durations over time; colour and shape show the status."""
    unit_ms, unit = _unit(max((point.duration_ms or 0 for point in points), default=0))
    values = [
        {
            "t": point.time,
            "y": (point.duration_ms or 0) / unit_ms,
            "result": point.status,
            "duration": "not reported" if point.duration_ms is None else wording.duration(point.duration_ms),
            "runs": point.runs,
        }
        for point in points
    ]
    runs = {
        "data": {"values": values},
        "mark": {"type": "point", "filled": True, "size": 60, "opacity": 0.9},
        "encoding": {
            "x": _TIME,
            "y": {"field": "y", "type": "quantitative", "title": unit, "scale": {"zero": True}},
            "color": {
                "field": "result",
                "scale": {"domain": _STATUSES, "range": [f"--{name}" for name in ("ok", "running", "failed", "lost")]},
                "legend": None,
            },
            "shape": {
                "field": "result",
                "scale": {"domain": _STATUSES, "range": ["circle", "triangle-right", "cross", "diamond"]},
                "legend": None,
            },
            "tooltip": [
                {**_WHEN, "title": "Started"},
                {"field": "result", "title": "Result"},
                {"field": "duration", "title": "Duration"},
                {"field": "runs", "title": "Runs"},
            ],
        },
    }
    # The expression interpreter cannot handle a scale with an explicit domain: two invisible rules span it instead.
    span = {
        "data": {"values": [{"t": start}, {"t": end}]},
        "mark": {"type": "rule", "opacity": 0},
        "encoding": {"x": _TIME},
    }
    return _chart([span, *_overlay(marks, start, end), runs], "Run duration over time")


def series(columns: Sequence[str], rows: Sequence[Sequence[Any]], marks: Sequence[Mark]) -> list[Spec]:
    """Lines over the buckets of a timeseries: one chart per number, one line per group.

    A number and its value in the previous window (``<name>_previous``) are lines of one chart.
    """
    numbers = [place for place in range(1, len(columns)) if is_number(rows, place)]
    groups = [place for place in range(1, len(columns)) if place not in numbers]
    names = [columns[place] for place in numbers]
    return [
        _lines(
            columns,
            rows,
            [place for place in numbers if columns[place] in (name, f"{name}{_PREVIOUS}")],
            groups,
            marks,
        )
        for name in names
        if name.removesuffix(_PREVIOUS) == name or name.removesuffix(_PREVIOUS) not in names
    ]


def _lines(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    numbers: Sequence[int],
    groups: Sequence[int],
    marks: Sequence[Mark],
) -> Spec:
    name, several = columns[numbers[0]], len(numbers) > 1 or bool(groups)
    unit_ms, title = 1, name
    if name.endswith("_ms"):
        longest_ms = max((row[place] for row in rows for place in numbers if row[place] is not None), default=0)
        unit_ms, unit = _unit(longest_ms)
        title = f"{name.removesuffix('_ms')}, {unit}"
    values = [
        {
            "t": row[0],
            "y": None if row[place] is None else row[place] / unit_ms,
            "line": " · ".join([str(row[group]) for group in groups] + ([columns[place]] if len(numbers) > 1 else [])),
        }
        for row in rows
        for place in numbers
    ]
    encoding: Spec = {
        "x": _TIME,
        "y": {"field": "y", "type": "quantitative", "title": title},
        "tooltip": [
            _WHEN,
            {"field": "y", "type": "quantitative", "title": title, "format": ",.4~g"},
            *([{"field": "line", "title": "Line"}] if several else []),
        ],
    }
    if several:
        encoding["color"] = {"field": "line", "type": "nominal", "title": None, "legend": {"orient": "bottom"}}
    lines = {"data": {"values": values}, "mark": {"type": "line", "point": len(rows) < 200}, "encoding": encoding}
    return _chart([*_overlay(marks, None, None), lines], f"{name} over time")


def bar(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Spec:
    """A bar for each of the first MOST_BARS rows: a name and a number."""
    unit_ms, title = 1, columns[1]
    if title.endswith("_ms"):
        unit_ms, unit = _unit(max((row[1] or 0 for row in rows), default=0))
        title = f"{title.removesuffix('_ms')}, {unit}"
    values = [
        {"name": "none" if row[0] is None else str(row[0]), "y": None if row[1] is None else row[1] / unit_ms}
        for row in rows[:MOST_BARS]
    ]
    encoding = {
        "y": {"field": "name", "type": "nominal", "title": columns[0], "sort": None},
        "x": {"field": "y", "type": "quantitative", "title": title},
        "tooltip": [{"field": "name", "title": columns[0]}, {"field": "y", "title": title, "format": ",.4~g"}],
    }
    spec = _chart([{"data": {"values": values}, "mark": "bar", "encoding": encoding}], "The result by group")
    return {**spec, "height": {"step": 24}}


def _chart(layers: list[Spec], description: str) -> Spec:
    return {"width": "container", "height": 260, "description": description, "layer": layers}


def _overlay(marks: Iterable[Mark], start: int | None, end: int | None) -> list[Spec]:
    """Bands and lines for annotations; a band is cut off at the start and end of the chart."""
    shown = list(marks)
    bands = [
        {
            "t": mark.start_time if start is None else max(mark.start_time, start),
            "to": mark.end_time if end is None else min(mark.end_time, end),
            "name": mark.name,
            "title": mark.title,
        }
        for mark in shown
        if mark.end_time is not None
    ]
    points = [{"t": mark.start_time, "name": mark.name, "title": mark.title} for mark in shown if mark.end_time is None]
    tooltip = [_WHEN, {"field": "name", "title": "Annotation"}, {"field": "title", "title": "Title"}]
    layers: list[Spec] = []
    if bands:
        layers.append(
            {
                "data": {"values": bands},
                "mark": {"type": "rect", "color": "--accent", "opacity": 0.18},
                "encoding": {"x": _TIME, "x2": {"field": "to"}, "tooltip": tooltip},
            }
        )
    if points:
        # A thin line is hard to point at: an invisible wide one has the tooltip.
        lines: tuple[tuple[Spec, Spec], ...] = (
            ({"strokeWidth": 2, "strokeDash": [5, 3]}, {}),
            ({"strokeWidth": 14, "opacity": 0.01}, {"tooltip": tooltip}),
        )
        layers += [
            {
                "data": {"values": points},
                "mark": {"type": "rule", "color": "--accent", **style},
                "encoding": {"x": _TIME, **extra},
            }
            for style, extra in lines
        ]
    return layers


def _unit(longest_ms: float) -> tuple[int, str]:
    return next(((unit_ms, name) for unit_ms, name in _UNITS if longest_ms >= 1.5 * unit_ms), (1, "milliseconds"))


def is_number(rows: Sequence[Sequence[Any]], place: int) -> bool:
    """Whether the column at `place` contains only numbers and nulls."""
    cells = [row[place] for row in rows if row[place] is not None]
    return all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in cells)


def strip(marks: Sequence[Mark]) -> Spec:
    """Annotations over time: one row per name, bands as bars, points as ticks."""
    values = [
        {"t": mark.start_time, "to": mark.end_time or mark.start_time, "name": mark.name, "title": mark.title}
        for mark in marks
    ]
    y = {"field": "name", "type": "nominal", "title": None}
    tooltip = [_WHEN, {"field": "name", "title": "Annotation"}, {"field": "title", "title": "Title"}]
    bars = {
        "mark": {"type": "bar", "opacity": 0.4, "height": 12},
        "encoding": {"x": _TIME, "x2": {"field": "to"}, "y": y, "tooltip": tooltip},
    }
    ticks = {
        "mark": {"type": "tick", "thickness": 3, "size": 14},
        "encoding": {"x": _TIME, "y": y, "tooltip": tooltip},
    }
    return {**_chart([bars, ticks], "Annotations over time"), "data": {"values": values}, "height": {"step": 22}}
