"""The cron line that a hypothesis amounts to, where there is one."""

from collections.abc import Sequence
from itertools import pairwise

from obs.heartbeat.schedule.clock import DAY, HOUR
from obs.heartbeat.schedule.gates import Gate
from obs.heartbeat.schedule.hypotheses import Hypothesis

_LEAST_EARLY = 30.0  # a slot is the middle of its runs; the minute it stands for is where the early ones begin


def nominal_slots(hypothesis: Hypothesis, residuals: Sequence[float]) -> list[int]:
    """The minutes of the day (or of the hour) that the slots stand for: where their earliest runs begin."""
    lattice = hypothesis.lattice
    if lattice is None:
        return []
    ordered = sorted(residuals)
    earliest = min(0.0, ordered[len(ordered) // 10])
    # seconds ahead of a whole minute are a clock that is fast, not the minute before
    return sorted({int((slot + earliest + 5) // 60) % (lattice.period // 60) for slot in lattice.slots})


def cron_line(hypothesis: Hypothesis, residuals: Sequence[float]) -> str | None:
    """Five cron fields; None for a gap, for days no line names, and for times of different minutes."""
    lattice = hypothesis.lattice
    days = _day_fields(hypothesis.gate)
    if lattice is None or days is None:
        return None
    slots = nominal_slots(hypothesis, residuals)
    if lattice.period == DAY:
        minutes = {slot % 60 for slot in slots}
        if len(minutes) > 1:
            return None
        return f"{minutes.pop()} {_numbers([slot // 60 for slot in slots], 24)} {days}"
    return f"{_numbers(slots, HOUR // 60)} {_numbers(lattice.open, 24)} {days}"


def _numbers(numbers: Sequence[int], size: int) -> str:
    """Ascending numbers as a cron field: *, */5, 8-18, 1-23/2 or a list."""
    if len(numbers) == size:
        return "*"
    steps = {later - earlier for earlier, later in pairwise(numbers)}
    if len(numbers) > 2 and len(steps) == 1:
        step = steps.pop()
        if step > 1 and numbers[0] < step and numbers[-1] + step >= size:
            return f"*/{step}" if numbers[0] == 0 else f"{numbers[0]}-{size - 1}/{step}"
        return f"{numbers[0]}-{numbers[-1]}" + (f"/{step}" if step > 1 else "")
    return ",".join(map(str, numbers))


def _day_fields(gate: Gate) -> str | None:
    """Day of the month, month and weekday; cron's weekdays begin with Sunday as 0."""
    months = ",".join(map(str, gate.months)) or "*"
    match gate.kind:
        case "every":
            return "* * *"
        case "weekdays":
            return f"* * {_numbers(sorted((day + 1) % 7 for day in gate.numbers), 7)}"
        case "monthdays":
            return f"{','.join(map(str, gate.numbers))} {months} *"
        case "monthstep":
            start, step = gate.numbers
            return f"{start}-31/{step} * *"
        case "last":
            return "L * *"
        case "nth":
            weekday, *which = gate.numbers
            number = (weekday + 1) % 7
            return "* * " + ",".join(f"{number}L" if n < 0 else f"{number}#{n}" for n in which)
        case "interval":
            return None
