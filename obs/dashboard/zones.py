"""Times in the viewer's time zone: the zone itself, and times as people type and pick them. Milliseconds elsewhere."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from flask import request

from obs import times

_COOKIE = "obs_zone"
_EXAMPLE = "Enter a date and time, e.g. 2026-06-21 10:00."


def viewer_zone() -> ZoneInfo | None:
    """The zone that the browser reported in a cookie; None when it reported none: no scripts, or the first page."""
    return find(request.cookies.get(_COOKIE, ""))


def find(name: str) -> ZoneInfo | None:
    """The zone of that name, or None."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def parse(text: str, zone: ZoneInfo, now_ms: int) -> int:
    """Milliseconds since the epoch of a time that a person typed or picked.

    A time without an offset is in `zone`. When clocks go back, an hour exists twice: the first one is meant. When they
    go forward, a time in the skipped hour is read with the offset from before the change: 02:30 becomes 03:30.
    Times with an offset, and times relative to now (``now``, ``-2h``, ``+30m``), are accepted too.
    Raises ValueError with a message for people.
    """
    text = text.strip()
    try:
        typed = datetime.fromisoformat(text)
    except ValueError:
        try:
            return times.parse_time(text, now_ms)
        except ValueError as error:
            raise ValueError(_EXAMPLE) from error
    try:
        moment = (typed if typed.tzinfo else typed.replace(tzinfo=zone)).astimezone(UTC)
    except OverflowError as error:
        raise ValueError(_EXAMPLE) from error
    return times.parse_iso(moment.isoformat())


def as_input(moment_ms: int | None, zone: ZoneInfo) -> str:
    """A moment as the value of ``<input type="datetime-local">``: without an offset, and without seconds that are 0."""
    if moment_ms is None:
        return ""
    try:
        local = datetime.fromtimestamp(moment_ms // 1000, zone).replace(tzinfo=None)
    except (ValueError, OverflowError):  # a moment of the year 9999 that is in the year 10000 there
        return times.format_ms(moment_ms)
    return local.isoformat(timespec="seconds" if local.second else "minutes")
