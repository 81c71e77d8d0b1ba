"""Jobs that do each week what they did the week before, whatever that is. No hypothesis describes all of them."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import add

from obs.heartbeat.schedule.clock import offset_at, offsets, wall_to_epoch
from obs.heartbeat.schedule.fit import Candidate
from obs.heartbeat.schedule.gates import WEEKLY
from obs.heartbeat.schedule.grace import RECENT, upper_bound, with_slack
from obs.heartbeat.schedule.history import MOVED_MS, RETRIED_MS, Interval, usual_interval
from obs.times import WEEK_MS

_COMPARED_MS = 5 * WEEK_MS
_OTHERS = 0.025  # the share of heartbeats that come in one of two weeks only


def as_a_week_ago(
    candidates: Sequence[Candidate], known: Sequence[int], overdue: int, later: Sequence[Interval]
) -> tuple[int, int] | None:
    """For a job that runs at the same times each week, whatever these are: the next slot, and until when it is awaited.

    None if the weeks differ there, or in more than a few heartbeats; also if the best of the `candidates` describes
    them, and the job is `overdue` soon after this slot. docs/decisions/0005 has the rules. It takes two weeks of
    `known` heartbeats, and after the last one no unknown time that is long; `later` has these.
    """
    if known[-1] - known[0] < 2 * WEEK_MS or any(end - start > RETRIED_MS for start, end in later):
        return None
    known = known[bisect_left(known, known[-1] - _COMPARED_MS) :]
    best = candidates[0].hypothesis
    usual, walls = usual_interval(known), list[int](map(add, known, offsets(best.zone, known)))
    near, first, last = min(usual // 4, MOVED_MS), walls[0] + WEEK_MS, walls[-1] - WEEK_MS

    def nearest(wall: int) -> int:
        at = min(max(1, bisect_left(walls, wall)), len(walls) - 1)
        return walls[at] if walls[at] - wall < wall - walls[at - 1] else walls[at - 1]

    def late_by(wall: int, week: int) -> int:
        """How late a heartbeat is compared to that of another week; WEEK_MS if that one is nearer to another one."""
        other = nearest(wall + week)
        return wall + week - other if nearest(other - week) == wall else WEEK_MS

    before = nearest(last)
    at = min(bisect_right(walls, before), len(walls) - 1)
    following, zones = walls[at], {candidate.hypothesis.zone for candidate in candidates}
    slot = max(wall_to_epoch(zone, known[at] + offset_at(zone, known[at]) + WEEK_MS) for zone in zones)
    week, differing = walls[bisect_right(walls, last) :], 0
    if best.lattice is not None:
        slots = best.lattice.size * (len(best.gate.numbers) or 7)
        matching = sum(abs(residual) <= near for residual in best.lattice.assign(week)[1])
        differing = max(slots, len(week)) - matching
    if (differing <= 2 * _OTHERS * len(week) and abs(slot - overdue) <= usual // 4) or best.gate.kind not in WEEKLY:
        return None
    late = {wall: late_by(wall, -WEEK_MS) for wall in walls if wall > first + near}
    missed = {wall + WEEK_MS: late_by(wall, WEEK_MS) for wall in walls if wall < last - near}
    others = {wall for wall, by in (*late.items(), *missed.items()) if abs(by) > near}
    same = late.keys() - others
    differs_here = not {walls[-1], following} <= same or any(before < wall < following for wall in others)
    if differs_here or len(others) > _OTHERS * len(walls):
        return None
    return slot, slot + with_slack(upper_bound(tuple([late[wall] for wall in sorted(same)][-RECENT:])))
