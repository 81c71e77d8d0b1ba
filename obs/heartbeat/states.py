"""The states of a job: their words, their order, and which of them need attention. Pure.

`obs.heartbeat.source` holds the SQL that decides which state a job is in.
"""

from enum import StrEnum


class JobState(StrEnum):
    """The state of a job at a moment, the most urgent first. The value is the word in the API, in OQL and on pages.

    A job that is paused is in no other state; otherwise the most urgent state that applies is the one shown.
    """

    FAILED = "failed"
    LOST = "lost"
    OVERDUE = "overdue"
    OVERRUNNING = "overrunning"
    LATE = "late"
    RUNNING = "running"
    OK = "ok"
    NEW = "new"
    PAUSED = "paused"


STATES = tuple(state.value for state in JobState)
"""The words, the most urgent first."""
TROUBLE = STATES[: STATES.index(JobState.LATE)]
"""The words for the states in which a job needs a person to look at it."""
