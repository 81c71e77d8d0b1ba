"""Durations as OQL writes them: ``90s``, ``5 minutes``."""

from obs import times

UNITS_MS = {
    "ms": 1,
    "s": times.SECOND_MS,
    "m": times.MINUTE_MS,
    "h": times.HOUR_MS,
    "d": times.DAY_MS,
    "w": times.WEEK_MS,
    "millisecond": 1,
    "milliseconds": 1,
    "sec": times.SECOND_MS,
    "second": times.SECOND_MS,
    "seconds": times.SECOND_MS,
    "min": times.MINUTE_MS,
    "minute": times.MINUTE_MS,
    "minutes": times.MINUTE_MS,
    "hour": times.HOUR_MS,
    "hours": times.HOUR_MS,
    "day": times.DAY_MS,
    "days": times.DAY_MS,
    "week": times.WEEK_MS,
    "weeks": times.WEEK_MS,
}
"""The length of each unit in milliseconds."""

LONGEST_MS = 36_525 * times.DAY_MS
"""A hundred years."""

_WRITTEN = (
    ("w", times.WEEK_MS),
    ("d", times.DAY_MS),
    ("h", times.HOUR_MS),
    ("m", times.MINUTE_MS),
    ("s", times.SECOND_MS),
)


def parse_duration(amount: str, unit: str) -> int:
    """Milliseconds of `amount` (ASCII digits) of `unit`. Raises ValueError, with a message for people."""
    length = UNITS_MS.get(unit.lower())
    if length is None:
        raise ValueError(f"{unit} is no unit of time")
    if not amount.isascii() or not amount.isdigit():
        raise ValueError(f"{amount} is not a whole number")
    if len(amount) > 15 or int(amount) * length > LONGEST_MS:
        raise ValueError("a duration is at most 100 years")
    return int(amount) * length


def write_duration(milliseconds: int) -> str:
    """The shortest way to write a duration: ``90s`` for 90,000, ``2h`` for 7,200,000."""
    for unit, length in _WRITTEN:
        if milliseconds % length == 0 and milliseconds >= length:
            if unit == "w":
                continue  # 14d reads easier than 2w
            return f"{milliseconds // length}{unit}"
    return f"{milliseconds}ms"
