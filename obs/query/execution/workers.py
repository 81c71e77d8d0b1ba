"""Queries in processes of their own, so that what they cost falls on no heartbeat.

Putting an answer together is Python, and Python runs one thread at a time: in the process that takes heartbeats, one
heavy query after the other took two of three heartbeats away. And a process can be ended where a thread cannot.
"""

import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import cast

from obs.errors import ServiceError
from obs.query.execution.engine import Question, Reply
from obs.query.execution.limits import Limits, too_slow
from obs.sources import Source

_WORKER = "obs.query.execution.worker"
_START_SECONDS = 60
_IDLE_SECONDS = 60
_GRACE_SECONDS = 1
"""How long after its time is up a worker may still be putting the refusal together."""


class QueryWorkerError(RuntimeError):
    """A fault inside a worker, with its traceback, or the end of the worker."""


def _ended() -> QueryWorkerError:
    return QueryWorkerError("The process that ran the query has ended.")


class _Worker:
    """One process, which answers one question at a time."""

    def __init__(self, sources: Sequence[Source]) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            descriptor = theirs.fileno()
            command = [sys.executable, "-m", _WORKER, str(descriptor)]
            self._process = subprocess.Popen(command, pass_fds=[descriptor], stdin=subprocess.DEVNULL)  # noqa: S603
        self._connection = Connection(ours.detach())
        self._connection.send(tuple(sources))
        self.idle_since = time.monotonic()
        try:
            if not self._connection.poll(_START_SECONDS):
                raise QueryWorkerError(f"A process for queries did not start within {_START_SECONDS} s.")
            self._receive()  # it is ready: what starting takes counts against no query
        except QueryWorkerError:
            self.end()
            raise

    def ask(self, question: Question, seconds: float) -> Reply:
        """The answer. Raises ServiceError, QueryWorkerError, and TimeoutError when there is none in so many seconds."""
        try:
            self._connection.send(question)
            if not self._connection.poll(seconds):
                raise TimeoutError
        except BrokenPipeError as error:
            raise _ended() from error
        reply = self._receive()
        if isinstance(reply, ServiceError):
            raise reply
        if isinstance(reply, str):
            raise QueryWorkerError(reply)
        return cast("Reply", reply)

    def _receive(self) -> object:
        try:
            return self._connection.recv()
        except (EOFError, ConnectionResetError) as error:
            raise _ended() from error

    def is_alive(self) -> bool:
        """Whether the process has not ended by itself, or been ended by the system for the memory that it holds."""
        return self._process.poll() is None

    def end(self) -> None:
        """End the process, whatever it is doing."""
        self._connection.close()
        self._process.kill()
        self._process.wait()


class Workers:
    """Up to `most` processes, started when they are needed. Safe to use from any thread."""

    def __init__(self, sources: Sequence[Source], most: int) -> None:
        self._sources = sources
        self._most = most
        self._changed = threading.Condition()
        self._idle: list[_Worker] = []
        self._busy: Counter[str] = Counter()
        self._closed = False

    def prepare(self) -> None:
        """Start a process now, so that the first query need not wait for it."""
        self._give_back(_Worker(self._sources))

    def ask(self, org: str, question: Question) -> Reply:
        """The answer. Raises ServiceError.

        An organization may have all processes but one, so that the queries of another need not wait for its own.
        """
        limits = question.limits
        worker = self._take(org, limits)
        kept = None
        try:
            result = (worker or (worker := _Worker(self._sources))).ask(question, limits.max_seconds + _GRACE_SECONDS)
            kept = worker
        except TimeoutError as error:
            raise too_slow(limits, limits.max_seconds + _GRACE_SECONDS) from error
        except ServiceError:
            kept = worker
            raise
        finally:
            if worker is not None and kept is None:
                worker.end()
            self._give_back(kept, org)
        return result

    def running(self) -> int:
        """How many queries run now."""
        return self._busy.total()

    def close(self) -> None:
        """End all processes that are idle now, and those at work when they are done."""
        with self._changed:
            self._closed = True
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.end()

    def _take(self, org: str, limits: Limits) -> _Worker | None:
        """An idle worker, None for a new one. Raises ServiceError (503) when there is no turn in time."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._has_turn(org), timeout=limits.max_seconds):
                raise ServiceError("query_busy", headers={"Retry-After": "1"})
            self._busy[org] += 1
            while self._idle:
                worker = self._idle.pop()
                if worker.is_alive():
                    return worker
                worker.end()
            return None

    def _has_turn(self, org: str) -> bool:
        return self._busy[org] < max(1, self._most - 1) and self._busy.total() < self._most

    def _give_back(self, worker: _Worker | None, org: str | None = None) -> None:
        now = time.monotonic()
        with self._changed:
            if org is not None:
                self._busy[org] -= 1
                self._busy += Counter()  # forgets those that are at zero
            if worker is not None:
                worker.idle_since = now
                self._idle.append(worker)
            # The one used last stays, whatever its age.
            ended = [one for one in self._idle[:-1] if now - one.idle_since > _IDLE_SECONDS]
            if self._closed:
                ended = list(self._idle)
            self._idle = [one for one in self._idle if one not in ended]
            self._changed.notify_all()  # one that is woken may have no turn, where another has
        for one in ended:
            one.end()
