"""Small pieces of HTML that many pages hold: times, and the shapes of states."""

import re

from markupsafe import Markup

from obs.dashboard import wording
from obs.times import format_ms, parse_iso

_SHAPES = {
    "failed": "M2 2l8 8M10 2l-8 8",
    "lost": "M6 1.5a4.5 4.5 0 1 1-.1 0M3 9l6-6",
    "overdue": "M6 1.2 11.2 10.6H.8zM6 4.8v2.6",
    "overrunning": "M1.5 1.5 6 6l-4.5 4.5M6.5 1.5 11 6l-4.5 4.5",
    "late": "M6 1.2a4.8 4.8 0 1 1-.1 0M6 3.4V6l2 1.6",
    "running": "M3 1.8 10.4 6 3 10.2z",
    "ok": "M1.6 6.4 4.6 9.6 10.4 2.8",
    "new": "M6 1.6v8.8M1.6 6h8.8",
    "paused": "M3.8 2v8M8.2 2v8",
}
_SHAPES |= {"success": _SHAPES["ok"], "open": _SHAPES["running"]}
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z", re.ASCII)
_DRAWN = {
    state: Markup(f'<svg class="shape" viewBox="0 0 12 12" aria-hidden="true"><path d="{path}"/></svg>')  # noqa: S704
    for state, path in _SHAPES.items()
}


def shape(state: str) -> Markup:
    """The drawing that stands beside the word of a state."""
    return _DRAWN[state]


def moment(moment_ms: int | None) -> Markup:
    """A moment; the page's script says it in the viewer's zone, and UTC is the title."""
    return _time(moment_ms, "", None)


def to_the_second(moment_ms: int | None) -> Markup:
    """The same with its seconds."""
    return _time(moment_ms, " data-precise", None)


def ago(moment_ms: int | None, now_ms: int) -> Markup:
    """A moment as seen from now; the page's script keeps it current, and UTC is the title."""
    return _time(moment_ms, " data-relative", now_ms)


def cell(value: str | float | bool | None, column: str) -> Markup | str:
    """A value of an answer; durations tell on hover what they are in words, times are said in the viewer's zone."""
    if value is None:
        return Markup('<span class="quiet">null</span>')
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _time(parse_iso(value), " data-precise", None) if _ISO.fullmatch(value) else value
    words = f"{value:,.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else f"{value:,}"
    if column.endswith("_ms") and value >= 1000:
        return Markup('<span title="{}">{}</span>').format(wording.duration(value), words)
    return words


def _time(moment_ms: int | None, attribute: str, now_ms: int | None) -> Markup:
    if moment_ms is None:
        return Markup("")
    iso = format_ms(moment_ms)
    utc = wording.utc_words(iso)
    words = utc if now_ms is None else wording.relative(moment_ms, now_ms)
    return Markup(f'<time datetime="{iso}" title="{utc}"{attribute}>{words}</time>')  # noqa: S704 - made of numbers
