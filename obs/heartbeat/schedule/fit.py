"""What was learned of a job: everything that is stored, shown, and carried from one heartbeat to the next."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from obs.heartbeat.schedule.bases import Lattice
from obs.heartbeat.schedule.gates import Gate
from obs.heartbeat.schedule.hypotheses import Hypothesis

VERSION = 2  # of the method; a fit of another version is learned anew


@dataclass(frozen=True, slots=True)
class Standing:
    """A hypothesis that still holds weight.

    bits       what the history costs under it; its weight is 2^-bits
    skip       how many silent slots in a row are usual under it
    residuals  of the last 80 runs, in seconds
    """

    hypothesis: Hypothesis
    bits: float
    skip: int
    residuals: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Fit:
    """What a job's heartbeats say of its schedule. Moments are epoch seconds, spans are seconds.

    seen, needed      heartbeats of the present schedule (256 at most), and how many it takes to say anything
    first, last       the first of them and the latest; None where there is none
    standings         the hypotheses that hold weight, the best first; empty while learning
    fitted            how many of those seen are the run of a slot, on time
    usual_interval    the usual span between heartbeats
    expected_at       the next slot
    deadline_at       silence from here on is overdue
    lateness          how long after its slot a run may still come
    confidence        0 to 1: the weight of what agrees on the next slot, times how well it fits
    updates           heartbeats taken in since all hypotheses were last weighed
    unchanged_for     heartbeats taken in since a change of schedule was last looked for
    """

    seen: int
    needed: int
    first: float | None = None
    last: float | None = None
    standings: tuple[Standing, ...] = ()
    fitted: int = 0
    usual_interval: float | None = None
    expected_at: float | None = None
    deadline_at: float | None = None
    lateness: float | None = None
    confidence: float = 0.0
    updates: int = 0
    unchanged_for: int = 0
    version: int = VERSION

    @property
    def hypothesis(self) -> Hypothesis | None:
        """The schedule that describes the history best; None while learning."""
        return self.standings[0].hypothesis if self.standings else None

    def to_json(self) -> str:
        """The fit as JSON text. Residuals, which many hypotheses share, are written once."""
        known: dict[tuple[float, ...], int] = {}
        standings = []
        for standing in self.standings:
            at = known.setdefault(standing.residuals, len(known))
            standings.append([asdict(standing.hypothesis), standing.bits, standing.skip, at])
        fields = {name: getattr(self, name) for name in _PLAIN}
        return json.dumps({**fields, "standings": standings, "residuals": list(known)}, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> "Fit | None":
        """The fit that `to_json` wrote; None where another version of the method wrote it: learn it anew.

        Raises ValueError or KeyError where the text is not such a fit.
        """
        stored = json.loads(text)
        if stored["version"] != VERSION:
            return None
        residuals = [tuple(values) for values in stored["residuals"]]
        standings = tuple(
            Standing(_hypothesis(said), bits, skip, residuals[at]) for said, bits, skip, at in stored["standings"]
        )
        return Fit(**{name: stored[name] for name in _PLAIN}, standings=standings)


_PLAIN = tuple(name for name in Fit.__dataclass_fields__ if name != "standings")


def _hypothesis(said: dict[str, Any]) -> Hypothesis:
    lattice, gate = said["lattice"], said["gate"]
    return Hypothesis(
        zone=said["zone"],
        lattice=lattice
        and Lattice(
            lattice["period"],
            tuple(lattice["slots"]),
            tuple(lattice["open"]),
            lattice["bits"],
            lattice["placed"],
        ),
        gate=Gate(gate["kind"], tuple(gate["numbers"]), tuple(gate["months"])),
        period=said["period"],
        prior_bits=said["prior_bits"],
    )
