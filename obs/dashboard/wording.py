"""Durations, intervals and moments as a person says them. Pure; all numbers are milliseconds."""

import re
from itertools import pairwise

from obs.times import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, WEEK_MS

_UNITS = ((DAY_MS, "d"), (HOUR_MS, "h"), (MINUTE_MS, "min"), (SECOND_MS, "s"))
_MANY_TIMES = re.compile(r"(.*) at (\d\d:\d\d), (?:\d\d:\d\d, )+\d\d:\d\d and (\d\d:\d\d)", re.ASCII)
_WHOLE = {MINUTE_MS: "every minute", HOUR_MS: "every hour", DAY_MS: "every day", WEEK_MS: "every week"}


def duration(length_ms: float) -> str:
    """At most two units: ``340 ms``, ``4.2 s``, ``4 min 12 s``, ``3 h``, ``2 d 4 h``."""
    if length_ms < SECOND_MS:
        return f"{round(length_ms)} ms"
    if length_ms < 10 * SECOND_MS:
        return f"{length_ms / SECOND_MS:.1f}".removesuffix(".0") + " s"
    for (unit_ms, name), (part_ms, part_name) in pairwise(_UNITS):
        whole = round(length_ms / part_ms) * part_ms
        if whole >= unit_ms:
            count, rest_ms = divmod(whole, unit_ms)
            rest = f" {rest_ms // part_ms} {part_name}" if rest_ms else ""
            return f"{count} {name}{rest}"
    return f"{round(length_ms / SECOND_MS)} s"


def interval(length_ms: int) -> str:
    """A usual time between runs: ``every day``, ``every 5 min``; the second unit is left out where it is noise."""
    for unit_ms, words in _WHOLE.items():
        if abs(length_ms - unit_ms) <= unit_ms * 0.02:
            return words
    for unit_ms, name in ((WEEK_MS, "weeks"), *_UNITS):
        count = round(length_ms / unit_ms)
        if count >= 2 and abs(length_ms - count * unit_ms) <= 0.02 * length_ms:
            return f"every {count} {'days' if name == 'd' else name}"
    return f"every {duration(length_ms)}"


def brief(summary: str) -> str:
    """What was learned, with many times of day told by their number: ``Every day 12 times, 00:20 to 22:20``."""
    found = _MANY_TIMES.fullmatch(summary)
    if found is None:
        return summary
    return f"{found[1]} {summary.count(':')} times, {found[2]} to {found[3]}"


def relative(moment_ms: int, now_ms: int) -> str:
    """How long ago, or in how long: ``just now``, ``3 min ago``, ``in 5 h``."""
    away_ms = abs(now_ms - moment_ms)
    if away_ms < 5 * SECOND_MS:
        return "just now"
    for unit_ms, name in _UNITS:
        if away_ms >= unit_ms:
            text = f"{away_ms // unit_ms} {name}"
            break
    return f"{text} ago" if moment_ms < now_ms else f"in {text}"


def utc_words(iso: str) -> str:
    """A moment as the API writes it in words, to the second: ``2026-06-21 10:00:00 UTC``."""
    return f"{iso[:10]} {iso[11:19]} UTC"


def size(count_bytes: int) -> str:
    """Bytes as ``812 B``, ``3.4 MB``; 1 KB is 1,024 bytes."""
    amount, unit = float(count_bytes), "B"
    for larger in ("KB", "MB", "GB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.0f} {unit}" if amount >= 10 or unit == "B" else f"{amount:.1f} {unit}"
