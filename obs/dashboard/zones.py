"""The time zone of whoever looks: what the page's script has said of it in a cookie."""

from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from flask import request

_COOKIE = "obs_zone"


def of_viewer() -> ZoneInfo | None:
    """The zone; None where the browser has said none that is known: it runs no scripts, or this is its first page."""
    try:
        return ZoneInfo(request.cookies[_COOKIE])
    except (KeyError, ZoneInfoNotFoundError, ValueError, OSError):
        return None
