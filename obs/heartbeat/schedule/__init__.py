"""Learns the schedule of a job from its heartbeats alone. Start at learning.py; docs/architecture.md has the terms.

The principle is minimum description length (MDL): J. Rissanen, Modeling by shortest data description, Automatica 14
(1978); P. Grünwald, The Minimum Description Length Principle, MIT Press (2007). A job is overdue once the candidates
that would still wait for it have too little weight in all. The reasons: docs/decisions/0005-how-the-learner-decides.md
"""

from obs.heartbeat.schedule.fit import VERSION, Fit, is_retry, too_often
from obs.heartbeat.schedule.history import Memory
from obs.heartbeat.schedule.learning import ZONES, deadline, learn
from obs.heartbeat.schedule.words import Description, describe

__all__ = ["VERSION", "ZONES", "Description", "Fit", "Memory", "deadline", "describe", "is_retry", "learn", "too_often"]
