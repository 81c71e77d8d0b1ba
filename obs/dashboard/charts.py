"""The charts as Vega-Lite specifications. Pure, in milliseconds; colours and text styles come from the page."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from obs.annotations.rules import Annotation
from obs.dashboard import wording
from obs.heartbeat.runs import STATUSES
from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

MOST_BARS = 50
_PREVIOUS = "_previous"
Spec = dict[str, Any]
_UNITS = ((DAY_MS, "days"), (HOUR_MS, "hours"), (MINUTE_MS, "minutes"), (SECOND_MS, "seconds"), (1, "milliseconds"))
_SIGNS = {
    "success": ("circle", "●"),
    "failed": ("cross", "✚"),
    "lost": ("diamond", "◆"),
    "open": ("triangle-right", "▶"),
}
_OTHER_SIGN = ("square", "■")
LEGEND = {status: _SIGNS.get(status, _OTHER_SIGN)[1] for status in STATUSES}

_TICKS = {"year": "%Y", "month": "%b", "week": "%d %b", "date": "%d %b", "day": "%d %b", "hours": "%H:%M"}
_TIME = {
    "field": "t",
    "type": "temporal",
    "title": None,
    "scale": {"nice": False},
    "axis": {"format": {**_TICKS, "minutes": "%H:%M", "seconds": "%H:%M:%S"}, "labelOverlap": True, "grid": False},
}
_WHEN = {"field": "t", "type": "temporal", "format": "%a %d %b %Y %H:%M", "title": "Time"}
_ABOUT_ANNOTATION = [_WHEN, {"field": "name", "title": "Annotation"}, {"field": "title", "title": "Title"}]


class Point(NamedTuple):
    """Runs with one status that are so close together that they are drawn as one point."""

    time: int
    status: str
    duration_ms: float | None
    runs: int


def durations(points: Sequence[Point], annotations: Sequence[Annotation], start: int, end: int) -> Spec:
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
            "color": _by_status([f"--{status}" for status in STATUSES]),
            "shape": _by_status([_SIGNS.get(status, _OTHER_SIGN)[0] for status in STATUSES]),
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
    return _chart([span, *_overlay(annotations, start, end), runs], "Run duration over time")


def _by_status(values: list[str]) -> Spec:
    return {"field": "result", "scale": {"domain": STATUSES, "range": values}, "legend": None}


def series(columns: Sequence[str], rows: Sequence[Sequence[Any]], annotations: Sequence[Annotation]) -> list[Spec]:
    """A chart for each number of a timeseries, with its values in the previous window, and a line for each group."""
    numbers = [place for place in range(1, len(columns)) if is_number(rows, place)]
    groups = [place for place in range(1, len(columns)) if place not in numbers]
    names = [columns[place] for place in numbers]
    return [
        _lines(columns, rows, [n for n in numbers if columns[n] in (name, f"{name}{_PREVIOUS}")], groups, annotations)
        for name in names
        if name.removesuffix(_PREVIOUS) == name or name.removesuffix(_PREVIOUS) not in names
    ]


def _lines(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    numbers: Sequence[int],
    groups: Sequence[int],
    annotations: Sequence[Annotation],
) -> Spec:
    name, several = columns[numbers[0]], len(numbers) > 1 or bool(groups)
    unit_ms, title = _axis(name, rows, numbers)
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
    return _chart([*_overlay(annotations, None, None), lines], f"{name} over time")


def bar(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Spec:
    unit_ms, title = _axis(columns[1], rows, [1])
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


def _overlay(annotations: Sequence[Annotation], start: int | None, end: int | None) -> list[Spec]:
    bands = [
        {
            **_described(one),
            "t": one.start_time if start is None else max(one.start_time, start),
            "to": one.end_time if end is None else min(one.end_time, end),
        }
        for one in annotations
        if one.end_time is not None
    ]
    points = [_described(one) for one in annotations if one.end_time is None]
    time, tooltip = {"x": _TIME}, {"tooltip": _ABOUT_ANNOTATION}
    layers = (
        (bands, {"type": "rect", "opacity": 0.18}, {**time, **tooltip, "x2": {"field": "to"}}),
        (points, {"type": "rule", "strokeWidth": 2, "strokeDash": [5, 3]}, {**time, "tooltip": None}),
        # A thin line is hard to point at: an invisible wide one has the tooltip.
        (points, {"type": "rule", "strokeWidth": 14, "opacity": 0.01}, {**time, **tooltip}),
    )
    return [
        {"data": {"values": values}, "mark": {"color": "--accent", **mark}, "encoding": encoding}
        for values, mark, encoding in layers
        if values
    ]


def _described(annotation: Annotation) -> Spec:
    return {"t": annotation.start_time, "name": annotation.name, "title": annotation.title}


def _axis(name: str, rows: Sequence[Sequence[Any]], places: Sequence[int]) -> tuple[int, str]:
    if not name.endswith("_ms"):
        return 1, name
    unit_ms, unit = _unit(max((row[place] or 0 for row in rows for place in places), default=0))
    return unit_ms, f"{name.removesuffix('_ms')}, {unit}"


def _unit(longest_ms: float) -> tuple[int, str]:
    return next(((unit_ms, name) for unit_ms, name in _UNITS if longest_ms >= 1.5 * unit_ms), (1, "milliseconds"))


def is_number(rows: Sequence[Sequence[Any]], place: int) -> bool:
    cells = [row[place] for row in rows if row[place] is not None]
    return all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in cells)


def strip(annotations: Sequence[Annotation]) -> Spec:
    values = [{**_described(one), "to": one.end_time or one.start_time} for one in annotations]
    encoding = {"x": _TIME, "y": {"field": "name", "type": "nominal", "title": None}, "tooltip": _ABOUT_ANNOTATION}
    bars = {"mark": {"type": "bar", "opacity": 0.4, "height": 12}, "encoding": {**encoding, "x2": {"field": "to"}}}
    ticks = {"mark": {"type": "tick", "thickness": 3, "size": 14}, "encoding": encoding}
    return {**_chart([bars, ticks], "Annotations over time"), "data": {"values": values}, "height": {"step": 22}}
