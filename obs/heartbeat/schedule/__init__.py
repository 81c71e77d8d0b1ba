"""Learning a job's schedule from its heartbeats, without being told anything about the job.

Many schedules are weighed by how briefly they describe the heartbeats seen, and silence is overdue once
those that would still be waiting hold too little weight. Start at learning.py; hypotheses.py says what a
schedule can be.
"""

from obs.heartbeat.schedule.fit import VERSION, Fit
from obs.heartbeat.schedule.learning import ZONES, deadline, learn
from obs.heartbeat.schedule.pinned import Cron, Expectation, Interval, Never, Pin, check, expect
from obs.heartbeat.schedule.runs import duration_bound, too_often
from obs.heartbeat.schedule.words import Description, describe

__all__ = [
    "VERSION",
    "ZONES",
    "Cron",
    "Description",
    "Expectation",
    "Fit",
    "Interval",
    "Never",
    "Pin",
    "check",
    "deadline",
    "describe",
    "duration_bound",
    "expect",
    "learn",
    "too_often",
]
