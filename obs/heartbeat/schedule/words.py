"""What was learned, as a person would say it."""

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from obs.heartbeat.schedule.clock import DAY, HOUR, local_time
from obs.heartbeat.schedule.cronline import cron_line, nominal_slots
from obs.heartbeat.schedule.fit import Fit
from obs.heartbeat.schedule.gates import WORKDAYS, Gate
from obs.heartbeat.schedule.hypotheses import Hypothesis

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_ORDINALS = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", -1: "last"}
_BY_THE_MINUTE = 600.0  # seconds between runs; shorter ones are told to the second
_REGULAR_SHARE = 0.6
_REGULAR_LATENESS = 2.0  # usual intervals

State = Literal["learning", "regular", "irregular"]


@dataclass(frozen=True, slots=True)
class Description:
    """A fit in words.

    state       learning, regular, or irregular: nothing fits
    summary     the schedule: "Weekdays at 02:00, Europe/Berlin"
    evidence    "43 of 44 runs fit"; empty while learning
    expected    "expected Mon 02:00, overdue at 02:07 because starts have been up to 4 min late"; empty while learning
    confidence  0 to 1
    cron        the cron line it amounts to, None where there is none
    zone        the zone that the times above and the cron line are in
    """

    state: State
    summary: str
    evidence: str
    expected: str
    confidence: float
    cron: str | None
    zone: str


def describe(fit: Fit) -> Description:
    """The fit in words. Times are in the zone that was learned, UTC where the zone makes no difference."""
    hypothesis = fit.hypothesis
    if hypothesis is None or fit.expected_at is None or fit.deadline_at is None:
        return Description("learning", f"learning, {fit.seen} of {fit.needed} runs seen", "", "", 0.0, None, "UTC")
    residuals = fit.standings[0].residuals
    zone = hypothesis.zone
    evidence = f"{fit.fitted} of {fit.seen} runs fit"
    expected = _expected(fit, fit.expected_at, fit.deadline_at, zone)
    if not is_regular(fit):
        return Description("irregular", "no regular schedule", evidence, expected, fit.confidence, None, zone)
    summary = _schedule(hypothesis, residuals)
    if hypothesis.lattice is not None:
        summary += f", {zone}"
    cron = cron_line(hypothesis, residuals)
    return Description("regular", summary, evidence, expected, fit.confidence, cron, zone)


def is_regular(fit: Fit) -> bool:
    """Whether most runs fit and may not be late by more than twice the usual interval."""
    if fit.lateness is None or not fit.usual_interval:
        return False
    return fit.fitted >= _REGULAR_SHARE * fit.seen and fit.lateness <= _REGULAR_LATENESS * fit.usual_interval


def span(seconds: float) -> str:
    """Seconds as a person says them, to the two units that matter: 4 min 12 s, 3 h, 2 d 5 h."""
    smallest = HOUR if seconds >= DAY else 60 if seconds >= HOUR else 1
    whole = round(seconds / smallest) * smallest
    parts: list[tuple[int, str]] = []
    for size, name in ((DAY, "d"), (HOUR, "h"), (60, "min"), (1, "s")):
        count, whole = divmod(whole, size)
        if count or parts:
            parts.append((count, name))
    return " ".join(f"{count} {name}" for count, name in parts[:2] if count) or "0 s"


def _expected(fit: Fit, expected_at: float, deadline_at: float, zone: str) -> str:
    usual = fit.usual_interval or 0.0
    smallest, clock = (60, "%H:%M") if usual >= _BY_THE_MINUTE else (1, "%H:%M:%S")
    expected = local_time(zone, expected_at)
    # rounded up: at the minute that is named, the job is overdue
    overdue = local_time(zone, math.ceil(deadline_at / smallest) * smallest)
    last = local_time(zone, fit.last or expected_at)
    day = _day_format(expected - last)
    until = clock if expected.date() == overdue.date() else f"{_day_format(overdue - last)} {clock}"
    when = overdue.strftime(until)
    text = f"expected {expected.strftime(f'{day} {clock}')}, overdue at {when}"
    if deadline_at - expected_at > 2 * (fit.lateness or 0.0):
        return f"{text} because it may be due only then"
    latest = max(fit.standings[0].residuals)
    return f"{text} because starts have been up to {span(latest)} late" if latest >= 1 else text


def _day_format(ahead: timedelta) -> str:
    """How to name a day so that it is told from others: by weekday within the week, by year beyond one."""
    if ahead <= timedelta(days=6):
        return "%a"
    return "%a %d %b" if ahead <= timedelta(days=300) else "%a %d %b %Y"


def _schedule(hypothesis: Hypothesis, residuals: tuple[float, ...]) -> str:
    lattice = hypothesis.lattice
    if lattice is None:
        return f"{span(hypothesis.period)} after the run before"
    minutes = nominal_slots(hypothesis, residuals)
    if lattice.period == DAY:
        times = _listed([f"{minute // 60:02d}:{minute % 60:02d}" for minute in minutes])
        return f"{_days(hypothesis.gate)} at {times}"
    step = 60 // len(minutes)
    even = len(minutes) * step == 60 and all(minute % step == minutes[0] for minute in minutes)
    if len(minutes) == 1:
        text = f"Every hour at :{minutes[0]:02d}"
    elif even:
        text = f"Every {step} min" if step > 1 else "Every minute"
    else:
        text = f"Every hour at {_listed([f':{minute:02d}' for minute in minutes])}"
    if not lattice.all_hours:
        opens = next(hour for hour in lattice.open if (hour - 1) % 24 not in lattice.open)
        closes = next(hour for hour in lattice.open if (hour + 1) % 24 not in lattice.open)
        text += f" from {opens:02d}:00 to {closes:02d}:59"
    return text if hypothesis.gate.kind == "every" else f"{text}, {_uncapitalised(_days(hypothesis.gate))}"


def _uncapitalised(text: str) -> str:
    return text if text.startswith(_DAYS) else text[0].lower() + text[1:]


def _days(gate: Gate) -> str:
    match gate.kind:
        case "every":
            return "Every day"
        case "weekdays":
            if gate.numbers == WORKDAYS:
                return "Weekdays"
            return "Weekends" if gate.numbers == (5, 6) else _listed([f"{_DAYS[n]}s" for n in gate.numbers])
        case "monthdays":
            months = f" of {_listed([_MONTHS[n - 1] for n in gate.months])}" if gate.months else " of the month"
            return f"Day {_listed([str(n) for n in gate.numbers])}{months}"
        case "monthstep":
            return f"Every {gate.numbers[1]} days of the month from day {gate.numbers[0]}"
        case "last":
            return "The last day of the month"
        case "nth":
            which = _listed([_ORDINALS[n] for n in gate.numbers[1:]])
            return f"The {which} {_DAYS[gate.numbers[0]]} of the month"
        case "interval":
            return f"Every {gate.numbers[0]} days"


def _listed(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
