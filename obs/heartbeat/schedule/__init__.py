"""Learns the schedule of a job from its heartbeats alone. Start reading at learning.py.

Terms, each with one meaning throughout:

memory              the heartbeats that the learner remembers: the latest 256, and a few older ones (history.py)
hypothesis          a candidate schedule: a basis, a gate and a time zone (hypotheses.py)
basis               the pattern within a day: fixed times (a lattice), or a gap after the previous run (bases.py)
gate                the days on which the schedule runs (gates.py)
slot                a time at which a hypothesis expects a run
residual            the time from a slot to its run; negative when the run was early
cost                a number of bits: that of a hypothesis, and that of the history under it (cost.py)
description length  the sum of the two; the hypothesis with the shortest one describes the history best
weight              how plausible a hypothesis is: proportional to 2^-(description length)
candidate           a hypothesis whose weight is not negligible (fit.py)
grace period        how long after its slot a run may still start (grace.py)

The principle is minimum description length (MDL): J. Rissanen, Modeling by shortest data description, Automatica 14
(1978); P. Grünwald, The Minimum Description Length Principle, MIT Press (2007). A job is overdue once the candidates
that would still wait for it have too little weight in all. The reasons: docs/decisions/0005-how-the-learner-decides.md
"""

from obs.heartbeat.schedule.fit import VERSION, Fit
from obs.heartbeat.schedule.history import Memory
from obs.heartbeat.schedule.learning import ZONES, deadline, is_retry, learn, too_often
from obs.heartbeat.schedule.words import Description, describe

__all__ = ["VERSION", "ZONES", "Description", "Fit", "Memory", "deadline", "describe", "is_retry", "learn", "too_often"]
