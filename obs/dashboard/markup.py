"""Small pieces of HTML that many pages contain: times, and the cells of query results."""

import re

from markupsafe import Markup

from obs.dashboard import wording
from obs.times import format_ms, parse_iso

_ISO = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z", re.ASCII)


def moment(moment_ms: int | None) -> Markup:
    """A moment in UTC; the page's script shows it in the viewer's zone and keeps UTC as the title."""
    return _time(moment_ms, "")


def to_the_second(moment_ms: int | None) -> Markup:
    """The same, to the second."""
    return _time(moment_ms, " data-precise")


def ago(moment_ms: int | None, now_ms: int) -> Markup:
    """A moment relative to now. The page's script keeps it current by its title, which is the moment in UTC."""
    if moment_ms is None:
        return Markup("")
    words, utc = wording.relative(moment_ms, now_ms), wording.utc(format_ms(moment_ms))
    return Markup(f'<span class="ago" title="{utc}">{words}</span>')  # noqa: S704 - made of numbers


def cell(value: str | float | bool | None, column: str) -> Markup | str:
    """A value of a query result. A duration is in words, with its milliseconds as the title; null is a dash."""
    if value is None:
        return Markup('<span class="quiet" title="null">—</span>')
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _time(parse_iso(value), " data-precise") if _ISO.fullmatch(value) else value
    words = f"{value:,.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else f"{value:,}"
    if column.endswith("_ms") and value >= 1000:
        return Markup('<span title="{} ms">{}</span>').format(words, wording.duration(value))
    return words


def _time(moment_ms: int | None, attribute: str) -> Markup:
    if moment_ms is None:
        return Markup("")
    iso = format_ms(moment_ms)[:19] + "Z"
    utc = wording.utc(iso)
    return Markup(f'<time datetime="{iso}" title="{utc}"{attribute}>{utc}</time>')  # noqa: S704 - made of numbers
