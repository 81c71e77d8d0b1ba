"""Describes a fit in words, and as a cron expression if there is an equivalent one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import groupby, pairwise

from obs.api import about
from obs.heartbeat.schedule.bases import Lattice
from obs.heartbeat.schedule.clock import local_time
from obs.heartbeat.schedule.fit import Fit
from obs.heartbeat.schedule.gates import ANY_DAY, WORKDAY, WORKDAYS, Gate
from obs.heartbeat.schedule.history import MAX_HEARTBEATS
from obs.heartbeat.schedule.hypotheses import Hypothesis, next_slot
from obs.times import DAY_MS, MINUTE_MS, SECOND_MS, duration_words, interval_words

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday", "working day", "day")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_ORDINALS = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", -1: "last"}
EVERY_MINUTE = "* * * * *"
_CRON_MINUTE_TOLERANCE_MS = 300  # a job that waits a minute after each run has a longer gap than one of cron
_MAX_TIMES_LISTED, _MAX_DAYS_LISTED = 3, 4  # more are summed up if they are evenly spaced, or consecutive
_TO_THE_MINUTE_MS = 10 * MINUTE_MS  # times are shown to the second for jobs that run more often than this
_CLOCK_ERROR_MS = 5 * SECOND_MS


@dataclass(frozen=True, slots=True)
class Description:
    """A fit in words. The metadata of the fields is for the OpenAPI document."""

    state: str = field(metadata={"enum": ("learning", "regular", "irregular"), "example": "regular"})
    summary: str = field(metadata=about("It ends with the zone if it has fixed times.", "Weekdays at 02:00, UTC"))
    evidence: str = field(metadata=about("Empty while learning.", "Learned from 44 runs (43 match)"))
    expected: str = field(metadata=about("Empty while learning.", "expected Mon 02:00, overdue at 02:07"))
    confidence: float = field(metadata=about("0 to 1", 0.97))
    cron: str | None = field(metadata=about("The equivalent cron expression, if there is one.", "0 2 * * 1-5"))
    zone: str = field(metadata=about("Of the times above and of the cron expression.", "Europe/Berlin"))

    @property
    def lacks_expression(self) -> bool:
        """Whether it has fixed times that no cron expression has."""
        return self.cron is None and self.summary.endswith(f", {self.zone}")


def describe(fit: Fit, reason: str = "") -> Description:
    """The fit in words, and why it waits longer than learned, if it does. Times are in the likeliest learned zone."""
    hypothesis = fit.hypothesis
    if hypothesis is None or fit.expected_at is None or fit.overdue_at is None:
        runs = f"{fit.seen} of {fit.needed} runs so far" if fit.seen < fit.needed else "irregular runs on the first day"
        return Description("learning", f"Learning: {runs}", "", "", 0.0, None, "UTC")
    residuals = fit.candidates[0].residuals
    zone = hypothesis.zone
    summary = schedule_words(hypothesis, residuals) + (", with exceptions each week" if fit.as_a_week_ago else "")
    if hypothesis.lattice is not None:
        summary += f", {zone}"
    reason = reason or ("it ran then in the last two weeks" if fit.as_a_week_ago else "")
    expected = _expected(fit, fit.expected_at, fit.overdue_at, zone, reason)
    if not fit.is_regular and not fit.as_a_week_ago:
        evidence = f"Best guess: {summary} ({fit.fitted} of {fit.counted} runs match)"
        return Description("irregular", "No regular schedule found", evidence, expected, fit.confidence, None, zone)
    runs = f"the last {fit.counted} runs" if fit.seen == MAX_HEARTBEATS else f"{fit.counted} runs"
    evidence = f"Learned from {runs} ({'all' if fit.fitted == fit.counted else fit.fitted} match)"
    cron = None if fit.candidates[0].skip or fit.as_a_week_ago else cron_expression(hypothesis, residuals)
    return Description("regular", summary, evidence, expected, fit.confidence, cron, zone)


def cron_expression(hypothesis: Hypothesis, residuals: Sequence[int]) -> str | None:
    """The equivalent cron expression, with five fields; None if cron cannot express the schedule."""
    lattice, days = hypothesis.lattice, _cron_days(hypothesis.gate)
    if lattice is None and abs(hypothesis.gap_ms - MINUTE_MS) <= _CRON_MINUTE_TOLERANCE_MS:
        return EVERY_MINUTE if max(map(abs, residuals), default=0) < 3 * SECOND_MS else None
    if lattice is None or days is None:
        return None
    slots = _nominal_slots(lattice, hypothesis.gate, residuals)
    if lattice.period_ms == DAY_MS:
        if len({slot % 60 for slot in slots}) > 1:
            return None
        return f"{slots[0] % 60} {_cron_numbers([slot // 60 for slot in slots], 24)} {days}"
    return f"{_cron_numbers(slots, 60)} {_cron_numbers(lattice.open, 24)} {days}"


def _expected(fit: Fit, expected_at: int, overdue_at: int, zone: str, reason: str) -> str:
    """When the next run is expected, from when on it is overdue, and why."""
    to_the_minute = (fit.interval_ms or 0) >= _TO_THE_MINUTE_MS
    smallest_ms, clock = (MINUTE_MS, "%H:%M") if to_the_minute else (SECOND_MS, "%H:%M:%S")
    expected = local_time(zone, expected_at)
    # Rounded up, so that the job is overdue at the time that is shown.
    overdue = local_time(zone, math.ceil(overdue_at / smallest_ms) * smallest_ms)
    last = local_time(zone, expected_at if fit.last_at is None else fit.last_at)
    day = _day_format(expected - last)
    overdue_format = clock if expected.date() == overdue.date() else f"{_day_format(overdue - last)} {clock}"
    text = f"expected {expected.strftime(f'{day} {clock}')}, overdue at {overdue.strftime(overdue_format)}"
    if reason or fit.waits_by_gaps:
        return f"{text} because {reason}" if reason else f"{text}, after at most twice its longest silence so far"
    wait, grace, usual = overdue_at - expected_at, fit.grace_ms or 0, fit.interval_ms or 0
    latest = max(fit.candidates[0].residuals)
    if wait > 2 * grace or wait > 2 * usual > 2 * latest:
        for other in fit.candidates[1:]:
            possible = other.hypothesis
            if next_slot(possible, fit.last_at or 0, possible.spacing_ms // 4, other.skip) > expected_at + grace:
                in_zone = "" if possible.lattice is None or possible.zone == zone else f", {possible.zone}"
                words = schedule_words(possible, other.residuals) + in_zone
                return f'{text} because the schedule may also be "{words}"'
        reason = "it was silent for as long before" if wait > usual else "other schedules are still possible"
        return f"{text} because {reason}"
    late = max((each for each in fit.candidates[0].residuals if each <= grace), default=0)  # later ones were exceptions
    return f"{text} because starts have been up to {duration_words(late)} late" if late >= SECOND_MS else text


def _day_format(ahead: timedelta) -> str:
    """The strftime format of a day: its weekday within a week, also its date later, also its year after 300 days."""
    return "%a" if ahead <= timedelta(days=6) else "%a %d %b" if ahead <= timedelta(days=300) else "%a %d %b %Y"


def schedule_words(hypothesis: Hypothesis, residuals: Sequence[int]) -> str:
    """The schedule in words, without its zone."""
    lattice, gate = hypothesis.lattice, hypothesis.gate
    if lattice is None:
        words = interval_words(hypothesis.gap_ms)
        return "Every minute" if words == "every minute" else f"Roughly {words}"
    minutes = _nominal_slots(lattice, gate, residuals)
    steps = {later - earlier for earlier, later in pairwise(minutes)}
    if lattice.period_ms == DAY_MS:
        times = [_clock(minute) for minute in minutes]
        if len(times) > _MAX_TIMES_LISTED and len(steps) == 1:
            return f"{len(times)} times a day, {times[0]}-{times[-1]}{_on_days(gate)}"
        return f"{_days(gate)} at {_listed(times)}"
    step = 60 // len(minutes)
    if len(minutes) > 1 and len(minutes) * step == 60 and steps == {step}:
        text = f"Every {step} min" if step > 1 else "Every minute"
    elif len(minutes) > _MAX_TIMES_LISTED and len(steps) == 1 and minutes[-1] + max(steps) >= 60:
        text = f"Every {max(steps)} min of each hour from :{minutes[0]:02d}"
    else:
        text = f"Hourly at {_listed([f':{minute:02d}' for minute in minutes])}"
    return f"{text}{_open_hours(lattice.open)}{_on_days(gate)}"


def _open_hours(hours: Sequence[int]) -> str:
    """The open hours of a lattice by the hour; as an exception if most hours are open and midnight is among them."""
    opens = [hour for hour in hours if (hour - 1) % 24 not in hours]
    closes = [hour for hour in hours if (hour + 1) % 24 not in hours]
    if not 0 < len(opens) <= _MAX_TIMES_LISTED:
        return f" in {len(hours)} hours of the day" if opens else ""
    if opens[0] > closes[0]:  # past midnight
        if len(opens) == 1 and len(hours) > 12:
            return f" except {_clock(60 * (closes[0] + 1))}-{_clock(60 * opens[0] - 1)}"
        closes = [*closes[1:], closes[0]]
    times = [f"{_clock(60 * first)}-{_clock(60 * last + 59)}" for first, last in zip(opens, closes, strict=True)]
    return f", {_listed(times)}"


def _days(gate: Gate) -> str:
    """The days of a gate, to be followed by the times."""
    match gate.kind:
        case "every":
            return "Every day"
        case "weekdays":
            if gate.numbers == WORKDAYS:
                return "Weekdays"
            return "Weekends" if gate.numbers == (5, 6) else _listed([f"{_DAYS[n]}s" for n in gate.numbers])
        case "monthdays":
            numbers = [_ordinal(n) for n in gate.numbers]
            days = _listed(numbers) if len(numbers) <= _MAX_DAYS_LISTED else f"{numbers[0]} to the {numbers[-1]}"
        case "nth":
            days = f"{_listed([_ORDINALS[n] for n in gate.numbers[1:]])} {_DAYS[gate.numbers[0]]}"
        case "monthstep":
            first, step = gate.numbers
            return f"Every {_ordinal(step)} day of the month from the {_ordinal(first)}"
        case "interval":
            return f"Every {gate.numbers[0]} days"
    months = _listed([_MONTHS[n - 1] for n in gate.months]) if gate.months else ""
    return f"On the {days} of {months}" if months else f"Monthly on the {days}"


def _on_days(gate: Gate) -> str:
    """The days of a gate after the times: " on weekdays", or nothing for every day."""
    if gate == Gate():
        return ""
    days = _days(gate)
    if gate.kind == "weekdays":
        return f" on {days if days.startswith(_DAYS) else days.lower()}"
    return f", {days[0].lower()}{days[1:]}"


def _clock(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"


def _ordinal(number: int) -> str:
    ending = "th" if 10 < number % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _listed(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def _nominal_slots(lattice: Lattice, gate: Gate, residuals: Sequence[int]) -> list[int]:
    """The minutes of the day (or of the hour) that the slots stand for.

    A slot is the middle of its runs. The minute it stands for is where the earliest tenth of them begins, but on the
    same day (or in the same hour) where others are closed.
    """
    earliest = min(0, sorted(residuals)[len(residuals) // 10])
    # A few seconds before a whole minute mean a clock that is fast, not the minute before.
    begins, period_ms = [slot + earliest + _CLOCK_ERROR_MS for slot in lattice.slots], lattice.period_ms
    if gate != Gate() or len(lattice.open) * period_ms < DAY_MS:
        begins = [min(max(0, begin), period_ms - 1) for begin in begins]
    return sorted({begin % period_ms // MINUTE_MS for begin in begins})


def _cron_numbers(numbers: Sequence[int], size: int) -> str:
    """Ascending numbers below `size` as a cron field: *, */5, 8-18, 1-23/2, or a list of numbers and ranges."""
    if len(numbers) == size:
        return "*"
    steps = {later - earlier for earlier, later in pairwise(numbers)}
    if len(numbers) > 2 and len(steps) == 1:
        step = steps.pop()
        if step > 1 and numbers[0] < step and numbers[-1] + step >= size:
            return f"*/{step}" if numbers[0] == 0 else f"{numbers[0]}-{size - 1}/{step}"
        return f"{numbers[0]}-{numbers[-1]}" + (f"/{step}" if step > 1 else "")
    by_range = groupby(enumerate(numbers), lambda each: each[1] - each[0])
    ranges = [[number for _, number in each] for _, each in by_range]
    return ",".join(f"{r[0]}-{r[-1]}" if len(r) > 2 else ",".join(map(str, r)) for r in ranges)


def _cron_days(gate: Gate) -> str | None:
    """The fields day of the month, month and day of the week (0 is Sunday); None if cron cannot express the gate."""
    match gate.kind:
        case "every":
            return "* * *"
        case "weekdays":
            return f"* * {_cron_numbers(sorted((day + 1) % 7 for day in gate.numbers), 7)}"
        case "monthdays":
            return f"{_cron_numbers(gate.numbers, 32)} {','.join(map(str, gate.months)) or '*'} *"
        case "monthstep":
            start, step = gate.numbers
            return f"{start}-31/{step} * *"
        case "nth" if gate.numbers[0] in (WORKDAY, ANY_DAY):
            last = {ANY_DAY: f"L {','.join(map(str, gate.months)) or '*'} *", WORKDAY: "LW * *"}
            return last[gate.numbers[0]] if gate.numbers[1:] == (-1,) else None
        case "nth":
            weekday, *which = gate.numbers
            number = (weekday + 1) % 7
            return "* * " + ",".join(f"{number}L" if n < 0 else f"{number}#{n}" for n in which)
    return None
