"""The states of a run, and what each heartbeat does to them. Pure.

========  ======================================  ===========================================================
call      no open run                             a run is open
========  ======================================  ===========================================================
start     opens a run                             the earlier one is lost and a new one opens
log       stands on the job's timeline            belongs to the run
end       a run is recorded, already closed       closes the run
ping      a run is recorded, successful           a sign of life of the run, no new run
========  ======================================  ===========================================================

A call with the client's own run id speaks of that run and no other: runs with ids go on side by side, a repeated
start or end is the same event, and an end that comes after the run was given up still says how it went.
"""

from dataclasses import dataclass
from enum import Enum, IntEnum, auto


class Status(IntEnum):
    """The state of a run, as it is stored."""

    OPEN = 0
    SUCCESS = 1
    FAILED = 2
    LOST = 3


class Kind(IntEnum):
    """The kind of a heartbeat, as it is stored."""

    START = 0
    LOG = 1
    END = 2
    PING = 3


STATUSES = tuple(status.name.lower() for status in Status)
KINDS = tuple(kind.name.lower() for kind in Kind)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """One call, read and checked. `time` is in milliseconds since the epoch; `run_id` is the client's own id."""

    kind: Kind
    time: int
    run_id: str | None = None
    status: Status | None = None
    exit_code: int | None = None
    duration_ms: int | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """The run that a heartbeat speaks of. `started` and `ended` tell whether its start and its end were reported."""

    id: int
    status: Status
    started_at: int
    has_run_id: bool
    started: bool = True
    ended: bool = False


class Action(Enum):
    """What a heartbeat does."""

    OPEN = auto()  # a new run begins
    REPLACE = auto()  # the open run is lost, a new run begins
    RECORD = auto()  # a run is recorded, already closed
    CLOSE = auto()  # the run gets its outcome
    ATTACH = auto()  # the event belongs to the run and does not change its state
    STAND_ALONE = auto()  # the event belongs to no run
    REPEAT = auto()  # the event was counted before: the first answer again


def act(run: Run | None, kind: Kind) -> Action:
    """What a heartbeat of `kind` does that speaks of `run` (None: there is no such run)."""
    if run is None:
        return _WITHOUT_RUN[kind]
    match kind:
        case Kind.START if not run.has_run_id:
            return Action.REPLACE
        case Kind.START:
            return Action.REPEAT if run.started else Action.ATTACH
        case Kind.END:
            return Action.REPEAT if run.ended else Action.CLOSE
        case _:
            return Action.ATTACH


_WITHOUT_RUN = {
    Kind.START: Action.OPEN,
    Kind.LOG: Action.STAND_ALONE,
    Kind.END: Action.RECORD,
    Kind.PING: Action.RECORD,
}


def outcome(heartbeat: Heartbeat) -> Status:
    """How a run went, as its end or ping says: an explicit status wins, else an exit code other than 0 is a failure."""
    if heartbeat.status is not None:
        return heartbeat.status
    return Status.FAILED if heartbeat.exit_code else Status.SUCCESS


def duration_of_close(run: Run, heartbeat: Heartbeat) -> int | None:
    """Milliseconds that a run took: as sent, else from its start to its end; None where no start was reported."""
    if heartbeat.duration_ms is not None:
        return heartbeat.duration_ms
    return max(0, heartbeat.time - run.started_at) if run.started else None


def end_of_close(run: Run, heartbeat: Heartbeat) -> int:
    """The moment at which a run ended: as its end says, though never before its start (clocks of hosts differ)."""
    return max(heartbeat.time, run.started_at)
