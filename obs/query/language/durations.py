"""Durations as text: ``90s``, ``5 minutes``."""

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
"""The longest duration: 100 years."""

_WRITTEN = (
    ("w", times.WEEK_MS),
    ("d", times.DAY_MS),
    ("h", times.HOUR_MS),
    ("m", times.MINUTE_MS),
    ("s", times.SECOND_MS),
)


def parse_duration(amount: str, unit: str) -> int:
    """A number (ASCII digits) of units, in milliseconds. Raises ValueError with a message for the user."""
    length = UNITS_MS.get(unit.lower())
    if length is None:
        raise ValueError(f"{unit} is not a unit of time")
    if not amount.isascii() or not amount.isdigit():
        raise ValueError(f"{amount} is not a whole number")
    if len(amount) > 15 or int(amount) * length > LONGEST_MS:
        raise ValueError("A duration can be at most 100 years")
    return int(amount) * length


def write_duration(milliseconds: int) -> str:
    """Milliseconds as the shortest duration: ``90s`` for 90,000, ``2h`` for 7,200,000."""
    for unit, length in _WRITTEN:
        if milliseconds % length == 0 and milliseconds >= length:
            if unit == "w":
                continue  # 14d is easier to read than 2w
            return f"{milliseconds // length}{unit}"
    return f"{milliseconds}ms"
