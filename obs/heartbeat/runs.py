"""The statuses of runs, the states of jobs, and what each kind of heartbeat does to a run. Pure.

A call with the client's own run id applies only to that run. So runs with ids can overlap, a repeated start or end is
the same event, and an end that arrives after the run was given up still reports its result.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum, StrEnum, auto

from obs.times import MINUTE_MS

FUTURE_MS = 10 * MINUTE_MS  # how far ahead the time that a client sends may be, because the clocks of hosts differ


class Status(IntEnum):
    """The value is the number in the database, and SQL takes it from here; the name in lower case is the word."""

    OPEN = 0
    SUCCESS = 1
    FAILED = 2
    LOST = 3


class Kind(IntEnum):
    START = 0
    LOG = 1
    END = 2
    PING = 3


STATUSES = tuple(status.name.lower() for status in Status)  # the words, each at the index of its number
OUTCOMES = tuple(status.name.lower() for status in Status if status is not Status.OPEN)
PROBLEMS = tuple(status.name.lower() for status in (Status.FAILED, Status.LOST))
KINDS = tuple(kind.name.lower() for kind in Kind)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A heartbeat that was parsed and checked. `time` is milliseconds since the epoch, `run_id` the client's own id."""

    kind: Kind
    time: int
    run_id: str | None = None
    status: Status | None = None
    exit_code: int | None = None
    duration_ms: int | None = None
    message: str | None = None
    output: Sequence[str] = ()  # log messages of the same run that come before `message`


@dataclass(frozen=True, slots=True)
class Run:
    """The run that a heartbeat applies to. `started` and `ended` are whether its start and its end were reported."""

    id: int
    status: Status
    started_at: int
    has_run_id: bool
    started: bool = True
    ended: bool = False


class Action(Enum):
    OPEN = auto()  # opens a new run
    REPLACE = auto()  # the open run becomes lost, and a new run opens
    RECORD = auto()  # records a run that is already closed
    CLOSE = auto()  # closes the run
    ATTACH = auto()  # the event belongs to the run and does not change its status
    STAND_ALONE = auto()  # the event belongs to no run
    REPEAT = auto()  # the event was counted before: return the first answer again


def act(run: Run | None, kind: Kind) -> Action:
    if run is None:
        return {Kind.START: Action.OPEN, Kind.LOG: Action.STAND_ALONE}.get(kind, Action.RECORD)
    if kind is Kind.START and not run.has_run_id:
        return Action.REPLACE
    if (kind is Kind.START and run.started) or (kind is Kind.END and run.ended):
        return Action.REPEAT
    return Action.CLOSE if kind is Kind.END else Action.ATTACH


def outcome(heartbeat: Heartbeat) -> Status:
    if heartbeat.status is not None:
        return heartbeat.status
    return Status.FAILED if heartbeat.exit_code else Status.SUCCESS


def duration_of_close(run: Run, heartbeat: Heartbeat) -> int | None:
    measured = max(0, heartbeat.time - run.started_at) if run.started else None
    return measured if heartbeat.duration_ms is None else heartbeat.duration_ms


class JobState(StrEnum):
    """The most urgent first: of those that apply, the first is shown. A job that is paused is in no other state."""

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
TROUBLE = STATES[: STATES.index(JobState.LATE)]  # the words for the states in which a job needs a person
