"""Gates: the days on which a schedule runs, and what it costs to state them.

Days are day numbers (see clock.py). The cost of a gate is -log2 of its prior probability: how often real schedules have
a gate of its kind, divided evenly among the gates of that kind.
"""

from calendar import monthrange
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from itertools import count
from math import comb, gcd, inf, log2
from typing import Literal

Kind = Literal["every", "weekdays", "monthdays", "monthstep", "nth", "interval"]

WORKDAYS = (0, 1, 2, 3, 4)
WORKDAY, ANY_DAY = 7, 8  # beside the weekdays, days of the kind `nth`: any one of WORKDAYS, and any day
WEEKLY = ("every", "weekdays")  # kinds that are the same in each week
_WEEKDAYS_OF = {WORKDAY: WORKDAYS, ANY_DAY: range(7)}
EVERY_BITS, WORKDAYS_BITS = -log2(0.7), -log2(0.12)  # other gates cost more
# The working week, also as it looks on clocks far from the job's zone: from Sunday, or to Saturday.
_FIVE_DAYS = {WORKDAYS: WORKDAYS_BITS, (0, 1, 2, 3, 6): -log2(0.015), (1, 2, 3, 4, 5): -log2(0.015)}
_QUARTERLY_BITS, _SOME_MONTHS_BITS = 3.5 + log2(3), 4.0
_NTH_BITS = 7.0 + log2(7)
# The first working day is not to count as long as the 1st explains the history: it may be two days later.
_DAYS_BITS = {(ANY_DAY, -1): 7.0, (WORKDAY, -1): 11.0, (WORKDAY, 1): 19.0}
# A step of n days costs 2 log2 n more. Cron's */n begins with the 1st; a later start is rare, and looks like weekly.
_STEP_BITS, _LATER_START_BITS = -log2(0.02), 5.0
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_MAX_MONTHLY_DAYS = 60 * 366  # 256 heartbeats over a longer time are not those of a monthly job


def weekday(day: int) -> int:
    """0 for Monday to 6 for Sunday."""
    return (day + 3) % 7


def to_date(day: int) -> date:
    """The date of a day number, at most the last date that can be represented."""
    return date.fromordinal(min(day + _EPOCH_ORDINAL, date.max.toordinal()))


@dataclass(frozen=True, slots=True)
class Gate:
    """The days on which a schedule runs. The meaning of `numbers` depends on the kind:

    every      none; every day
    weekdays   the weekdays, 0 is Monday
    monthdays  the days of the month, only in `months`, if any
    monthstep  the first day and the step: every n-th day of the month, starting over each month
    nth        a weekday, WORKDAY or ANY_DAY, then which of these days in the month (1 to 5, -1 is the last)
    interval   the step in days, then the day number modulo the step
    """

    kind: Kind = "every"
    numbers: tuple[int, ...] = ()
    months: tuple[int, ...] = ()

    def ranks(self, days: Sequence[int]) -> list[int | None]:
        """The position of each ascending day in the sequence of the gate's days; None for a day it is closed."""
        if self.kind == "every":
            return list(days)
        if self.kind == "weekdays":
            place, size = {number: position for position, number in enumerate(self.numbers)}, len(self.numbers)
            return [None if (at := place.get((day + 3) % 7)) is None else (day + 3) // 7 * size + at for day in days]
        if self.kind == "interval":
            step, phase = self.numbers
            return [(day - phase) // step if (day - phase) % step == 0 else None for day in days]
        first, last = to_date(days[0]), to_date(days[-1])
        months = (first.year * 12 + first.month - 1, last.year * 12 + last.month - 1)
        return list(map(_order(self.kind, self.numbers, self.months, *months).get, days))

    def following(self, day: int) -> int:
        """The first of the gate's days after this one."""
        if self.kind in ("every", "weekdays", "interval"):
            return next(after for after in count(day + 1) if self.ranks([after])[0] is not None)
        today = to_date(day)
        month = today.year * 12 + today.month - 1
        # The next February 29 may be eight years away (1896 to 1904).
        months = (_month_days(self.kind, self.numbers, self.months, month + ahead) for ahead in range(12 * 8 + 1))
        return next((one for days in months for one in days if one > day), day + 8 * 366)


@lru_cache(maxsize=8192)
def _month_days(kind: Kind, numbers: tuple[int, ...], months: tuple[int, ...], month: int) -> tuple[int, ...]:
    """The day numbers of a gate with these fields in a month, which is counted as year * 12 + month - 1."""
    year, number = month // 12, month % 12 + 1
    if year > 9999 or (months and number not in months):
        return ()
    first = date(year, number, 1).toordinal() - _EPOCH_ORDINAL
    length = monthrange(year, number)[1]
    if kind == "monthdays":
        return tuple(first + n - 1 for n in numbers if n <= length)
    if kind == "monthstep":
        start, step = numbers
        return tuple(range(first + start - 1, first + length, step))
    wanted, *which = numbers
    same = [day for day in range(first, first + length) if weekday(day) in _WEEKDAYS_OF.get(wanted, (wanted,))]
    return tuple(sorted({same[n - 1] if n > 0 else same[-1] for n in which if n <= len(same)}))


@lru_cache(maxsize=256)
def _order(kind: Kind, numbers: tuple[int, ...], months: tuple[int, ...], first: int, last: int) -> dict[int, int]:
    """The position of each day of a gate with these fields, from the month `first` to the month `last`."""
    days = [day for month in range(first, last + 1) for day in _month_days(kind, numbers, months, month)]
    return {day: place for place, day in enumerate(days)}


@lru_cache(maxsize=256)
def candidates(days: tuple[int, ...], span: int) -> dict[Gate, float]:
    """The gates that are open on all of these ascending days, of a history of `span` days, with their cost in bits."""
    gates = [(Gate(), EVERY_BITS)]
    weekdays = tuple(sorted({weekday(day) for day in days}))
    gates += [(Gate("weekdays", five), bits) for five, bits in _FIVE_DAYS.items() if set(weekdays) <= set(five)]
    if len(weekdays) < 7 and weekdays not in _FIVE_DAYS:
        # A single weekday is a weekly job, which is common; other sets are rare.
        bits = -log2(0.06 / 7) if len(weekdays) == 1 else -log2(0.04 / 6) + log2(comb(7, len(weekdays)))
        gates.append((Gate("weekdays", weekdays), bits))
    if len(days) < 2:
        return dict(gates)
    step = gcd(*(day - days[0] for day in days[1:]))
    if step > 1 and step != 7:
        gates.append((Gate("interval", (step, days[0] % step)), _STEP_BITS + 2 * log2(step)))
    if span < _MAX_MONTHLY_DAYS:
        gates += _monthly([to_date(day) for day in days], weekdays)
        some = _DAYS_BITS.items() if len(days) <= span // 28 + 2 else ()  # if it runs about once a month
        gates += [(gate, bits) for numbers, bits in some if None not in (gate := Gate("nth", numbers)).ranks(days)]
    return dict(gates)


def _monthly(dates: list[date], weekdays: tuple[int, ...]) -> list[tuple[Gate, float]]:
    gates: list[tuple[Gate, float]] = []
    monthdays = tuple(sorted({d.day for d in dates}))
    months = tuple(sorted({d.month for d in dates}))
    count, bits = len(monthdays), inf  # one to four days of the month, or up to 30 consecutive ones
    if count <= 4:
        bits = -log2(0.05) + 1.5 * (count - 1) + log2(comb(31, count))
    elif count <= 30 and monthdays[-1] - monthdays[0] == count - 1 and len(months) > 1:
        bits = -log2(0.01) + 2 * log2(31)
    if bits < inf:
        gates.append((Gate("monthdays", monthdays), bits))
        every = tuple(sorted({month % 12 + 1 for month in range(months[0] - 1, months[0] + 11, 3)}))
        if len(months) > 1 and set(months) <= set(every) and len(months) < 12:
            gates.append((Gate("monthdays", monthdays, every), bits + _QUARTERLY_BITS))
            if all(d.day == monthrange(d.year, d.month)[1] for d in dates):
                gates.append((Gate("nth", (ANY_DAY, -1), every), _DAYS_BITS[ANY_DAY, -1] + _QUARTERLY_BITS))
        if len(months) <= 4 and months != every and dates[-1].year > dates[0].year:
            gates.append((Gate("monthdays", monthdays, months), bits + _SOME_MONTHS_BITS + log2(comb(12, len(months)))))
    common = gcd(*(day - monthdays[0] for day in monthdays))
    first, steps = dates[0].day - 1, [step for step in range(2, 16) if common % step == 0]
    gates += [
        (Gate("monthstep", (first % n + 1, n)), _STEP_BITS + 2 * log2(n) + (first % n > 0) * _LATER_START_BITS)
        for n in steps
    ]
    if len(weekdays) == 1:
        which = Counter((d.day - 1) // 7 + 1 for d in dates)
        if len(which) <= 2:
            gates.append((Gate("nth", (weekdays[0], *sorted(which))), _NTH_BITS + log2(comb(5, len(which)))))
        if all(d.day + 7 > monthrange(d.year, d.month)[1] for d in dates):
            gates.append((Gate("nth", (weekdays[0], -1)), _NTH_BITS + 1))
    return gates
