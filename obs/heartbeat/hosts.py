"""The hosts that report one job: those that keep a schedule each have a stream of heartbeats of their own. Pure."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from obs.heartbeat.schedule import Description, Fit, Memory, describe
from obs.heartbeat.schedule.fit import NOT_LEARNED
from obs.heartbeat.schedule.history import is_irregular, usual_interval
from obs.times import HOUR_MS, MAX_MS, MINUTE_MS, WEEK_MS

_MOST, _NEARLY_ALL = 16, 0.8  # hosts that are told apart; the share of the runs that are theirs
_LEAST, _LEAST_RARELY = 4, 2  # intervals, and runs of others within; the latter of a host that reports once a week
_LEAST_EVEN, _EVEN, _TURNS = 12, 0.6, 8  # where this share of intervals are equal; unless so many would take turns
_LEAST_MS, _MOST_NEEDED = 2 * HOUR_MS, 20  # for so long, but no more than so many intervals
_ORDINARY, _NOT_YET_DUE = 1.5, 0.9  # usual intervals
_OVERLAP_MS = 15 * MINUTE_MS  # for so long a host may still report after the one that replaces it has begun to


class Stream(NamedTuple):
    """The heartbeats of a host with a schedule of its own. One without heartbeats has ended."""

    host: str
    memory: Memory = Memory()
    fit: Fit = NOT_LEARNED
    expected_at: int | None = None
    overdue_at: int | None = None

    @property
    def last_heartbeat_at(self) -> int:
        return self.memory.times[-1]

    @property
    def learned(self) -> Description:
        return describe(self.fit)


def streams(
    runs: Sequence[tuple[int, str]], known: list[Stream], learn: Callable[..., Fit], now_ms: int
) -> list[Stream]:
    """The streams of a job after its latest `runs`, as (time, host). `known` are those after the runs before.

    If nearly all runs are of hosts that report regularly, also between those of others, they do not share a schedule.
    A host that is silent at `now_ms` is not added: somebody may have said that it is not to be waited for.
    """
    times, everything = defaultdict[str, list[int]](list), sorted(time for time, _ in runs)
    for time, host in sorted(runs):
        times[host].append(time)
    found = {one.host: one for one in known}
    own, nearly_all = list[str](), _NEARLY_ALL * len(runs)
    possible = len(runs) if len(found) < _MOST else 0  # runs of hosts with a schedule, and of those not checked yet
    # Those with few runs come first: to find that they have no schedule takes no learning.
    for host in sorted(times.keys() - found.keys(), key=lambda host: (len(times[host]), times[host])):
        if possible <= (0 if found else nearly_all):
            break
        if _has_own_schedule(times[host], everything, learn, now_ms):
            own.append(host)
        else:
            possible -= len(times[host])
    if found or possible > nearly_all:
        own.sort(key=times.__getitem__)
        found |= {host: Stream(host) for host in own[: _MOST - len(found)]}
    for host, one in found.items():
        memory = one.memory.add(times[host])
        fit = learn(memory.times, one.fit)
        found[host] = Stream(host, memory, fit, fit.expected_at, fit.overdue_at)
    new = [seen for host, seen in times.items() if host not in found]
    began = max((one.memory.times[0] for one in found.values()), default=0)
    for one in tuple(found.values()):
        ended_at = one.last_heartbeat_at - _OVERLAP_MS
        later = sorted(time for seen in new for time in seen if time > one.last_heartbeat_at)
        if (one.overdue_at or MAX_MS) < max(everything, default=0) and began > ended_at:
            found[one.host] = Stream(one.host)  # a new host has replaced it
        elif later and all(seen[0] > ended_at for seen in new):  # they are expected as it is, for now
            fit = learn((*one.memory.times, *later), one.fit)
            found[one.host] = one._replace(expected_at=fit.expected_at, overdue_at=fit.overdue_at)
    return list(found.values())


def _has_own_schedule(seen: Sequence[int], everything: Sequence[int], learn: Callable[..., Fit], now_ms: int) -> bool:
    """Whether a host reports regularly, and most of what others have reported since lies within its usual intervals."""
    if len(seen) <= _LEAST_RARELY or is_irregular(seen):
        return False
    usual, common = usual_interval(seen), usual_interval(everything)
    least = _LEAST_RARELY if usual >= WEEK_MS else min(_MOST_NEEDED, max(_LEAST, _LEAST_MS // max(usual, 1)))
    if sum(abs(later - time - common) < common / 2 for time, later in pairwise(everything)) > _EVEN * len(everything):
        least = max(least, _LEAST_EVEN if usual < _TURNS * common else _LEAST)
    usual_ones = [(start, end) for start, end in pairwise(seen) if end - start <= _ORDINARY * usual]
    within = sum(bisect_left(everything, end) - bisect_left(everything, start) - 1 for start, end in usual_ones)
    enough = max(_LEAST_RARELY, (len(everything) - bisect_left(everything, seen[0]) - len(seen)) / 2)  # half of others
    is_silent = now_ms - seen[-1] > usual or everything[-1] - seen[-1] > _NOT_YET_DUE * usual
    if len(seen) <= least or within < enough or is_silent:
        return False
    fit = learn(seen, None)
    placed = fit.hypothesis.lattice.placed if fit.hypothesis and fit.hypothesis.lattice else 1
    is_regular = describe(fit).state == "regular" and fit.counted > least and fit.fitted > 2 * placed
    return is_regular and not fit.candidates[0].skip  # what misses runs often may be one of several that share them
