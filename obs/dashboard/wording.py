"""States, results, durations, moments, sizes and cells as words or HTML. Pure; all times are milliseconds."""

import re
from contextlib import suppress

from markupsafe import Markup

from obs.times import HOUR_MS, MINUTE_MS, SECOND_MS, duration_words, format_ms, parse_iso

_ISO = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z", re.ASCII)


def count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def results(counts: dict[str, int], missed: int = 0) -> str:
    words = [f"{count} {'succeeded' if status == 'success' else status}" for status, count in counts.items()]
    return ", ".join(words + ([f"{missed} missed"] if missed else []))


def duration(length_ms: float) -> str:
    """At most two units: ``340 ms``, ``4.2 s``, ``4 min 12 s``, ``3 h``, ``2 d 4 h``."""
    if length_ms < SECOND_MS:
        return f"{round(length_ms)} ms"
    if length_ms < 10 * SECOND_MS:
        return f"{length_ms / SECOND_MS:.1f}".removesuffix(".0") + " s"
    return duration_words(round(length_ms))


def moment(moment_ms: int | None, *, to_the_second: bool = False) -> Markup:
    """A moment in UTC; the page's script shows it in the viewer's zone and keeps UTC as the title."""
    if moment_ms is None:
        return Markup("")
    iso, utc = format_ms(moment_ms)[:19] + "Z", _utc(moment_ms)
    attribute = " data-precise" if to_the_second else ""
    return Markup(f'<time datetime="{iso}" title="{utc}"{attribute}>{utc}</time>')  # noqa: S704 - made of numbers


def ago(moment_ms: int, now_ms: int) -> Markup:
    """How long ago, or in how long: ``3 min ago``, ``in 5 h``. The page's script keeps it current by its title."""
    away_ms, words = abs(now_ms - moment_ms), "just now"
    if away_ms >= 5 * SECOND_MS:
        smallest_ms = next(unit_ms for unit_ms in (HOUR_MS, MINUTE_MS, SECOND_MS) if away_ms >= unit_ms)
        text = duration_words(away_ms // smallest_ms * smallest_ms)
        words = f"{text} ago" if moment_ms < now_ms else f"in {text}"
    return Markup(f'<span class="ago" title="{_utc(moment_ms)}">{words}</span>')  # noqa: S704 - made of numbers


def cell(value: str | float | bool | None, column: str) -> Markup | str:
    if value is None:
        return Markup('<span class="quiet" title="null">—</span>')
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        with suppress(ValueError):  # what clients send may only look like a time, and a computed one be before 1970
            return moment(parse_iso(value), to_the_second=True) if _ISO.fullmatch(value) else value
        return value
    words = f"{value:,.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else f"{value:,}"
    if column.endswith(("_ms", "_ms_before", "_ms_after", "_ms_previous")) and value >= 1000:
        return Markup('<span title="{} ms">{}</span>').format(words, duration(value))
    return words


def _utc(moment_ms: int) -> str:
    return f"{format_ms(moment_ms)[:19].replace('T', ' ')} UTC"
