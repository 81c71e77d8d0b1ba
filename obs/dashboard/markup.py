"""Small pieces of HTML that many pages contain: times, and the cells of query results."""

import re

from markupsafe import Markup

from obs.dashboard import wording
from obs.times import format_ms, parse_iso

_ISO = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z", re.ASCII)


def moment(moment_ms: int | None, *, to_the_second: bool = False) -> Markup:
    """A moment in UTC; the page's script shows it in the viewer's zone and keeps UTC as the title."""
    if moment_ms is None:
        return Markup("")
    iso, utc = format_ms(moment_ms)[:19] + "Z", _utc(moment_ms)
    attribute = " data-precise" if to_the_second else ""
    return Markup(f'<time datetime="{iso}" title="{utc}"{attribute}>{utc}</time>')  # noqa: S704 - made of numbers


def ago(moment_ms: int | None, now_ms: int) -> Markup:
    """A moment relative to now. The page's script keeps it current by its title, which is the moment in UTC."""
    if moment_ms is None:
        return Markup("")
    words = wording.relative(moment_ms, now_ms)
    return Markup(f'<span class="ago" title="{_utc(moment_ms)}">{words}</span>')  # noqa: S704 - made of numbers


def cell(value: str | float | bool | None, column: str) -> Markup | str:
    """A value of a query result. A duration is in words, with its milliseconds as the title; null is a dash."""
    if value is None:
        return Markup('<span class="quiet" title="null">—</span>')
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return moment(parse_iso(value), to_the_second=True) if _ISO.fullmatch(value) else value
    words = f"{value:,.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else f"{value:,}"
    if column.endswith("_ms") and value >= 1000:
        return Markup('<span title="{} ms">{}</span>').format(words, wording.duration(value))
    return words


def _utc(moment_ms: int) -> str:
    """``2026-06-21 10:00:00 UTC``"""
    return f"{format_ms(moment_ms)[:19].replace('T', ' ')} UTC"
