"""The interface of a heartbeat protocol: the paths that it takes, and its own form of requests and responses.

A protocol is one file beside this one and an entry in `obs.ingest.endpoint.PROTOCOLS`. `HeartbeatEndpoint` does
the rest for all of them: it checks the method, records the heartbeats durably, and wakes the learner.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from obs.errors import ServiceError
from obs.heartbeat.pins import Pin
from obs.heartbeat.store.record import JobHeartbeat, Recorded
from obs.tenancy.auth import Caller, Tenancy

SCOPE = "heartbeat:write"  # that a key needs to send heartbeats


class PingUuid(str):
    """The UUID in the ping URL of a job, which stands for the name of the job until the heartbeat is recorded."""

    __slots__ = ()


class Submission(NamedTuple):
    """What a request contains, and who sends it."""

    caller: Caller
    heartbeats: Sequence[JobHeartbeat]  # recorded in this order and in one transaction: all or none; there may be none
    pins: Mapping[str, Pin] = {}  # the schedules that jobs declare themselves, by the names of the jobs


class Route(NamedTuple):
    """What is at a path. `read` authenticates and reads a request. It raises ServiceError for one that it rejects."""

    endpoint: str  # its name in the metrics
    methods: tuple[str, ...]  # those allowed beside OPTIONS; without any, all are, and OPTIONS is read as well
    read: Callable[[Tenancy, Mapping[str, Any]], Submission]  # gets the WSGI environment


class Response(NamedTuple):
    """A response; the endpoint adds Content-Length."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HeartbeatProtocol(Protocol):
    def route(self, path: str) -> Route | None:
        """The route of a request, None where `path` is not one of this protocol. `path` is PATH_INFO as in WSGI."""

    def respond(self, submission: Submission, recorded: Sequence[Recorded]) -> Response:
        """The response after the heartbeats of `submission` are on disk; `recorded` has one entry for each."""

    def refuse(self, error: ServiceError) -> Response:
        """The response to a request that was not recorded, in the format that the clients understand."""
