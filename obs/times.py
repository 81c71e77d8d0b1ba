"""Parsing and formatting of times: milliseconds since the epoch inside the service, ISO 8601 text outside."""

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
WEEK_MS = 7 * DAY_MS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - isoformat then writes no offset
MAX_MS = (datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
"""The last millisecond of the year 9999, the latest time that the service accepts."""
_ISO = re.compile(
    r"\d{4}-?\d{2}-?\d{2}"
    r"(?:[T ]\d{2}(?::?\d{2}(?::?\d{2}(?:[.,]\d{1,9})?)?)?(?:Z|[+-](?:[01]\d|2[0-3])(?::?\d{2})?)?)?",
    re.ASCII | re.IGNORECASE,
)
# In a query string, an unescaped "+" is decoded to a space: 2026-06-21T10:00:00 02:00
_LOST_PLUS = re.compile(r"(T\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?) (\d{2}:\d{2})", re.ASCII)
_UNITS = {WEEK_MS: "weeks", DAY_MS: "days", HOUR_MS: "h", MINUTE_MS: "min", SECOND_MS: "s"}
_WHOLE = {MINUTE_MS: "every minute", HOUR_MS: "hourly", DAY_MS: "daily", WEEK_MS: "weekly"}
_UNIT_MS = {"ms": 1, "s": SECOND_MS, "m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS, "w": WEEK_MS}
_RELATIVE = re.compile(r"([+-])(\d{1,9})(ms|s|m|h|d|w)", re.ASCII)


def parse_iso(sent: object) -> int:
    """Parse an ISO 8601 time, which is UTC unless it has an offset, into milliseconds since the epoch.

    Raises ValueError, with a message for the user, for anything else and for years before 1970 or after 9999.
    """
    text = _LOST_PLUS.sub(r"\1+\2", sent.strip()) if isinstance(sent, str) else ""
    if not _ISO.fullmatch(text):
        raise ValueError("Not an ISO 8601 time such as 2026-06-21T10:00:00Z.")
    try:
        moment = datetime.fromisoformat(text.upper().replace(",", "."))
        since_epoch = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    except (ValueError, OverflowError) as error:
        raise ValueError(f"No such time: {error}.") from error
    milliseconds = since_epoch // timedelta(milliseconds=1)
    if not 0 <= milliseconds <= MAX_MS:
        raise ValueError("The year must be from 1970 to 9999.")
    return milliseconds


def parse_time(text: str, now_ms: int) -> int:
    """Parse a time that is absolute (ISO 8601) or relative to now: ``now``, ``-24h``, ``+5m``. Raises ValueError."""
    text = text.strip()
    if text.lower() == "now":
        return now_ms
    if (relative := _RELATIVE.fullmatch(text)) is None:
        return parse_iso(text)
    sign, amount, unit = relative.groups()
    moment = now_ms + (1 if sign == "+" else -1) * int(amount) * _UNIT_MS[unit]
    if not 0 <= moment <= MAX_MS:
        raise ValueError("The year must be from 1970 to 9999.")
    return moment


def write_duration(length_ms: int) -> str:
    """The shortest text for a length of time, in units of at most a day: ``90s`` for 90,000, ``0s`` for 0."""
    name = next(name for name in ("d", "h", "m", "s", "ms") if (length_ms or SECOND_MS) % _UNIT_MS[name] == 0)
    return f"{length_ms // _UNIT_MS[name]}{name}"


def format_ms(milliseconds: int) -> str:
    """ISO 8601 in UTC with milliseconds and ``Z``: ``2026-06-21T10:00:00.000Z``."""
    return f"{(_NAIVE_EPOCH + timedelta(milliseconds=milliseconds)).isoformat(timespec='milliseconds')}Z"


def find_zone(name: str) -> ZoneInfo | None:
    try:
        return None if name in ("localtime", "posixrules") else ZoneInfo(name)  # these differ from machine to machine
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def offset_ms(moment_ms: int, zone: ZoneInfo) -> int:
    """How far the clocks of `zone` are ahead of UTC at a moment. Raises OverflowError outside the years 1 to 9999."""
    offset = (_EPOCH + timedelta(milliseconds=moment_ms)).astimezone(zone).utcoffset()
    assert offset is not None
    return offset // timedelta(milliseconds=1)


def format_optional_ms(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else format_ms(milliseconds)


def duration_words(length_ms: int) -> str:
    """A duration in at most two units: 4 min 12 s, 3 h, 2 d 5 h. A part below the second is rounded."""
    smallest = HOUR_MS if length_ms >= DAY_MS else MINUTE_MS if length_ms >= HOUR_MS else SECOND_MS
    rest = round(length_ms / smallest) * smallest
    parts = list[str]()
    for unit_ms, name in ((DAY_MS, "d"), (HOUR_MS, "h"), (MINUTE_MS, "min"), (SECOND_MS, "s")):
        count, rest = divmod(rest, unit_ms)
        parts += [f"{count} {name}"] if count else []
    return " ".join(parts) or "0 s"


def interval_words(length_ms: int) -> str:
    """A usual time between runs: ``daily``, ``every 5 min``; a second unit that is only noise is left out."""
    for unit_ms, words in _WHOLE.items():
        if abs(length_ms - unit_ms) <= unit_ms * 0.02:
            return words
    for unit_ms, name in _UNITS.items():
        count = round(length_ms / unit_ms)
        if count >= 2 and abs(length_ms - count * unit_ms) <= 0.02 * length_ms:
            return f"every {count} {name}"
    return f"every {duration_words(length_ms)}"
