"""Alerts on queries: which numbers open an incident, and which end it. Pure; all times are milliseconds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import eq, ge, gt, le, lt, ne

from obs.alerts.store.incidents import Incident
from obs.times import MINUTE_MS

OPERATORS: Mapping[str, Callable[[float, float], bool]] = {">": gt, ">=": ge, "<": lt, "<=": le, "=": eq, "!=": ne}
NO_DATA: Mapping[str, bool | None] = {"keep": None, "alert": True, "ok": False}
"""Whether the condition is met for a group without a number; None: if it was before."""


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert: `query` runs every `every_ms`, and an incident begins once its condition has been met for `for_ms`."""

    name: str
    query: str
    operator: str
    threshold: float  # with which the number of a group is compared
    for_ms: int
    every_ms: int
    no_data: str
    enabled: bool
    id: int | None = None
    pending: Mapping[str, int] = field(default_factory=dict)  # since when, of groups that do not fire yet
    last_error: str | None = None  # why the last evaluation failed
    firing: Mapping[str, Incident] = field(default_factory=dict)  # the open incidents by group, which is "" without BY

    @property
    def state(self) -> str:
        return "error" if self.last_error else "firing" if self.firing else "pending" if self.pending else "ok"


def evaluate(
    alert: Alert, numbers: Mapping[str, float | None], absent: float | None, now_ms: int
) -> tuple[dict[str, int], list[str], dict[str, int]]:
    """What follows from the numbers that the statement returns at `now_ms`, by group; `absent` is that of all others.

    Returns the groups that begin to fire, each with the time since when, those that stop, and those that are pending.
    """
    begin, end, pending = dict[str, int](), list[str](), dict[str, int]()
    for group in {**numbers, **alert.pending, **alert.firing}:
        number, is_met = numbers.get(group, absent), NO_DATA[alert.no_data]
        if number is not None:
            is_met = OPERATORS[alert.operator](number, alert.threshold)
        elif is_met is None:
            is_met = group in alert.firing or group in alert.pending
        if not is_met or (group == "" and "" not in numbers):  # the group of no groups, and now there are some
            if group in alert.firing:
                end.append(group)
        elif group not in alert.firing:
            since = alert.pending.get(group, now_ms)
            if not 0 <= now_ms - since <= alert.for_ms + 2 * alert.every_ms + MINUTE_MS:  # or the clock was set back
                since = now_ms  # else it would be firing already: there were no evaluations, so it may have been well
            if now_ms - since >= alert.for_ms:
                begin[group] = since
            else:
                pending[group] = since
    return begin, end, pending
