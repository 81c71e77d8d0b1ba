"""What was learned about a job: all that is stored, shown, and carried on from one heartbeat to the next."""

import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import add
from typing import Any

from obs.heartbeat.schedule.bases import Lattice
from obs.heartbeat.schedule.clock import offsets
from obs.heartbeat.schedule.gates import Gate
from obs.heartbeat.schedule.grace import MOST_SLACK_MS, upper_bound
from obs.heartbeat.schedule.history import Memory, is_irregular, without_bursts
from obs.heartbeat.schedule.hypotheses import Hypothesis, next_slot
from obs.times import MINUTE_MS

VERSION = 21  # of the method and of the stored form: a job with a fit of another version is learned again
NEW_JOB = 12  # with fewer heartbeats, each one may change which hypotheses are plausible
FITTING = 0.7  # of the heartbeats match a schedule that fits, or more
_WITH_MANUAL_RUNS = 0.55  # or so many, if it seldom misses a slot
_WATCHED_SLOTS, _DOUBLE_SLOTS, _EVEN = 5, 3, 0.2


@dataclass(frozen=True, slots=True)
class Candidate:
    """A hypothesis that still has weight."""

    hypothesis: Hypothesis
    bits: float  # its description length; its weight is proportional to 2^-bits
    skip: int  # how many missed slots in a row are usual under it
    residuals: tuple[int, ...]  # of the last 80 runs, in milliseconds

    @property
    def late_and_early(self) -> tuple[int, int]:
        """How long after and how long before a slot a heartbeat may come and still be the run of that slot."""
        bound = upper_bound(self.residuals, self.hypothesis.spacing_ms)
        return bound, max(MINUTE_MS, bound, -3 * min(self.residuals))


@dataclass(frozen=True, slots=True)
class Fit:
    """What a job's heartbeats show about its schedule. Times are milliseconds since the epoch."""

    seen: int  # how many recent heartbeats of the current schedule were used, at most 256
    needed: int  # how many heartbeats the first answer takes
    first_at: int | None = None  # the first heartbeat that was used; None if there is none
    last_at: int | None = None  # the last one
    changed_at: int | None = None  # the first heartbeat since the schedule changed, if it is known to have changed
    candidates: tuple[Candidate, ...] = ()  # the hypotheses that have weight, the best first; empty while learning
    counted: int = 0  # how many of the heartbeats could match: not those of days of manual runs
    fitted: int = 0  # how many of the heartbeats match the best candidate: they are the run of a slot, on time
    interval_ms: int | None = None  # the usual one between heartbeats; as the next three, None while learning
    expected_at: int | None = None  # the next slot of the best candidate
    overdue_at: int | None = None  # the time from which silence means overdue
    grace_ms: int | None = None  # how long after its slot a run may still start, under the best candidate
    as_a_week_ago: bool = False  # whether it ran at the same times in the last two weeks, not at those of a candidate
    confidence: float = 0.0  # 0 to 1: the weight of the candidates that agree on the next slot, times the share fitted
    updates: int = 0  # how many heartbeats were added since all hypotheses were last weighed
    unchanged_for: int = 0  # how many heartbeats were added since a change of schedule was last looked for

    @property
    def is_regular(self) -> bool:
        """Whether most heartbeats match the best candidate, with a grace period of at most two usual intervals."""
        return not self._fits_few and (self.grace_ms or 0) <= 2 * (self.interval_ms or 0) + MOST_SLACK_MS

    @property
    def _fits_few(self) -> bool:
        misses_often = not self.candidates or self.candidates[0].skip > 0
        return self.fitted < (FITTING if misses_often else _WITH_MANUAL_RUNS) * self.counted

    @property
    def waits_by_gaps(self) -> bool:
        """Whether so few heartbeats match that only the longest silence so far says when the job is overdue."""
        return (self.seen >= NEW_JOB or self.changed_at is not None) and self._fits_few

    @property
    def hypothesis(self) -> Hypothesis | None:
        """The schedule that describes the history best; None while learning."""
        return self.candidates[0].hypothesis if self.candidates else None

    def encode(self) -> bytes:
        """The fit as compressed JSON."""
        text = json.dumps(self, default=lambda o: {n: getattr(o, n) for n in o.__slots__}, separators=(",", ":"))
        return zlib.compress(text.encode(), level=1)

    @staticmethod
    def decode(encoded: bytes | None) -> "Fit | None":
        """The fit that `encode` of this VERSION wrote, None for None. Raises zlib.error, ValueError or KeyError."""
        if encoded is None:
            return None
        stored = json.loads(zlib.decompress(encoded))
        return Fit(**{**stored, "candidates": tuple(map(_candidate, stored["candidates"]))})


NOT_LEARNED = Fit(0, 0)  # where nothing was learned


def _candidate(stored: dict[str, Any]) -> Candidate:
    fields = stored["hypothesis"]
    lattice, gate = fields["lattice"], fields["gate"]
    if lattice is not None:
        lattice = Lattice(**{**lattice, "slots": tuple(lattice["slots"]), "open": tuple(lattice["open"])})
    gate = Gate(gate["kind"], tuple(gate["numbers"]), tuple(gate["months"]))
    hypothesis = Hypothesis(**{**fields, "lattice": lattice, "gate": gate})
    return Candidate(**{**stored, "hypothesis": hypothesis, "residuals": tuple(stored["residuals"])})


def too_often(times: Iterable[int], fit: Fit) -> bool:
    """Whether three or more of the last five slots of the schedule, a regular one, have two or more heartbeats.

    Manual runs do not count, which come on some days or at uneven intervals. `fit` was learned before: from these
    heartbeats, the new pace would be learned. For a gap, two are in one slot if they are less than half of it apart.
    """
    hypothesis = fit.hypothesis
    seen, _ = without_bursts(*Memory().add(times).history(fit.changed_at))
    if hypothesis is None or len(seen) < 2 or not fit.is_regular:
        return False
    if hypothesis.lattice is None:
        slots = [*accumulate((later - one >= hypothesis.gap_ms / 2 for one, later in pairwise(seen)), initial=0)]
    else:
        slots, _ = hypothesis.lattice.assign(list(map(add, seen, offsets(hypothesis.zone, seen))))
    watched = {*sorted({*slots})[-_WATCHED_SLOTS:]}
    more = {at: slot for at, (before, slot) in zip(seen[1:], pairwise(slots), strict=True) if before == slot in watched}
    return len({*more.values()}) >= _DOUBLE_SLOTS and not is_irregular([*more], _EVEN)


def is_retry(fit: Fit | None, before: int | None, time: int) -> bool:
    """Whether a heartbeat after a failed run comes too early for the slot after the one that `before` filled."""
    if fit is None or fit.hypothesis is None or before is None:
        return False
    _, early = fit.candidates[0].late_and_early
    return time + early < next_slot(fit.hypothesis, before, early, 0)
