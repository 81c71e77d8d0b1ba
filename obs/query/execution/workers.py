"""Runs queries in separate processes, so that their cost does not delay heartbeats.

Python runs one thread of a process at a time. In the process that receives heartbeats, continuous heavy queries took
two thirds of the heartbeat throughput. And a process can be killed, which a thread cannot.

Such a process runs `main`. It reads pickled requests from a socket, and exits when the service closes the other end.
"""

import gc
import logging
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from typing import cast

from obs.errors import ServiceError, T
from obs.query.execution.run import Engine, QueryRequest, QueryResponse
from obs.query.execution.session import Limits, Reader, too_much_memory, too_slow
from obs.sources import Source
from obs.storage.databases import Org

NICENESS = 10  # heartbeats come first where both need the processor
MEMORY_BYTES = 1 << 30  # of a worker: a query that needs more fails alone, and takes no memory from heartbeats
_START_SECONDS = 60
_IDLE_SECONDS = 60  # how long a worker stays without a request; the one used last stays longer
_GRACE_SECONDS = 0.2  # how long after its limit a worker may report that the query was stopped; then it is killed
_MAX_WAITING = 8  # queries of an organization that may wait for a turn; each takes a thread that serves requests
_OPEN_SECONDS = 1.0  # how long a file stays open for the next query
_ATTEMPTS = 2
_LENT_SECONDS = 5.0  # a process that takes longer for other work is killed
_OUT_OF_MEMORY = (
    "If the machine is out of memory, its kernel log says so: lower QUERY_WORKERS, narrow the window, or group by "
    "something with fewer values."
)


class QueryWorkerError(RuntimeError):
    """An unexpected error inside a worker, with its traceback."""


class _WorkerDiedError(Exception):
    """The system kills processes when the machine is out of memory."""


class _Worker:
    """One process. It runs one query at a time."""

    def __init__(self, sources: Sequence[Source]) -> None:
        try:
            self._connection, theirs = Pipe()
            with theirs:
                descriptor = theirs.fileno()
                command = [sys.executable, "-c", f"from {__name__} import main; main()", str(descriptor)]
                self._process = subprocess.Popen(command, pass_fds=[descriptor], stdin=subprocess.DEVNULL)  # noqa: S603
            self.idle_since = time.monotonic()
            self._exchange(tuple(sources), _START_SECONDS)  # does not count against the time limit of a query
        except OSError as error:  # no memory, no more processes or descriptors, or no answer in time
            raise _WorkerDiedError from error

    def run(self, request: QueryRequest | Callable[[], object], seconds: float) -> object:
        """The response to a request or work. Raises ServiceError, QueryWorkerError, _WorkerDiedError, TimeoutError."""
        response = self._exchange(request, seconds)
        if isinstance(response, QueryWorkerError) or getattr(response, "extra", {}).get("limit") == "memory":
            self.kill()  # it may not return the memory that it took
        if isinstance(response, Exception):
            raise response
        return response

    def _exchange(self, message: object, seconds: float) -> object:
        """The reply to a message. Without one, the process is killed."""
        try:
            self._connection.send(message)
            if self._connection.poll(seconds):
                return self._connection.recv()
            raise TimeoutError
        except BaseException as error:
            self.kill()
            if isinstance(error, EOFError | OSError) and not isinstance(error, TimeoutError):
                raise _WorkerDiedError from error
            raise

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._connection.close()
        self._process.kill()
        self._process.wait()


class Workers:
    """Up to `max_workers` processes, started when needed; with 0, queries run in this process. Thread-safe."""

    def __init__(self, sources: Sequence[Source], max_workers: int) -> None:
        self.engine = Engine(sources)
        self._sources, self._max_workers = sources, max_workers
        self._changed = threading.Condition()
        self._idle: list[_Worker] = []
        self.busy: Counter[Org] = Counter()
        self.waiting: Counter[Org] = Counter()
        self._turns: dict[Org, float] = {}  # when the last turn began of each organization that has or awaits one
        self._closed = False

    def prepare(self) -> None:
        """Start a process before the first query needs one."""
        if self._max_workers:
            with suppress(_WorkerDiedError):  # the first query starts another one
                self._put_back(_Worker(self._sources))

    def run(self, org: Org, request: QueryRequest) -> QueryResponse:
        """Raises ServiceError (400, 422, 503) and QueryWorkerError.

        One organization can use all processes but one, and organizations take turns, so that its queries do not block
        those of another. When the process dies, another one runs the query in the time that is left.
        """
        if not self._max_workers:
            return self.engine.run(request)
        limits = request.limits
        seconds = limits.max_seconds + _GRACE_SECONDS
        worker = self._take(org, limits)
        try:
            for _ in range(_ATTEMPTS):
                with suppress(_WorkerDiedError):
                    worker = worker if worker is not None and worker.is_alive() else _Worker(self._sources)
                    started = time.monotonic()
                    try:
                        return cast("QueryResponse", worker.run(request, seconds))
                    finally:
                        seconds -= time.monotonic() - started
            raise ServiceError("query_process_died", hint=_OUT_OF_MEMORY, headers={"Retry-After": "5"})
        except TimeoutError as error:
            raise too_slow(limits, limits.max_seconds + _GRACE_SECONDS) from error
        finally:
            self._put_back(worker, org)

    def lend(self, works: Sequence[Callable[[], T]]) -> list[T]:
        """The results of other work, each in a process that no query needs, without what was not done."""
        with ThreadPoolExecutor(len(works)) as threads:
            return [one for one in threads.map(self._lend, works) if one is not None]

    def _lend(self, work: Callable[[], T]) -> T | None:
        with self._changed:
            worker = self._idle.pop() if self._idle and not self.waiting else None
            may_start = not (self.waiting or self._closed) and self.busy.total() + 1 < self._max_workers
        try:
            worker = _Worker(self._sources) if worker is None and may_start else worker
            return None if worker is None else cast("T", worker.run(work, _LENT_SECONDS))
        except (ServiceError, QueryWorkerError, _WorkerDiedError, TimeoutError) as error:
            logging.getLogger(__name__).warning("A process has ended, or did not start, for other work: %r", error)
            return None
        finally:
            self._put_back(worker)

    def close(self) -> None:
        """End the idle processes now, and each of the others when its query is done."""
        self._closed = True
        self._put_back(None)

    def _take(self, org: Org, limits: Limits) -> _Worker | None:
        """An idle worker, or None to start one. Raises ServiceError (503) if the organization gets no turn in time."""
        with self._changed:
            self.waiting[org] += 1
            try:
                # Any query that runs now ends within the limit, and then it is the turn of who waited the longest.
                is_full = self.waiting[org] > _MAX_WAITING
                if is_full or not self._changed.wait_for(lambda: self._has_turn(org), timeout=2 * limits.max_seconds):
                    raise ServiceError("query_busy", headers={"Retry-After": "1"})
                self.busy[org] += 1
                self._turns[org] = time.monotonic()
            finally:
                self.waiting[org] -= 1
                self.waiting += Counter()  # removes organizations without a query
                self._changed.notify_all()
            return self._idle.pop() if self._idle else None

    def _has_turn(self, org: Org) -> bool:
        """Whether a process is free, and no other organization that may use it has fewer, or waits for longer."""
        if self.busy.total() >= self._max_workers:
            return False
        share = max(1, self._max_workers - 1)
        may_run = (each for each in self.waiting if self.busy[each] < share)
        return org == min(may_run, key=lambda each: (self.busy[each], self._turns.get(each, 0)), default=None)

    def _put_back(self, worker: _Worker | None, org: Org | None = None) -> None:
        """End the turn of `org`, if any; keep `worker`, if it is alive, and end those that are idle for too long."""
        now = time.monotonic()
        with self._changed:
            if org is not None:
                self.busy[org] -= 1
                self.busy += Counter()
                active = {*self.busy, *self.waiting}
                self._turns = {each: turn for each, turn in self._turns.items() if each in active}
            if worker is not None and worker.is_alive():
                worker.idle_since = now
                self._idle.append(worker)
            expired = [each for each in self._idle[:-1] if now - each.idle_since > _IDLE_SECONDS]
            if self._closed:
                expired = list(self._idle)
            self._idle = [each for each in self._idle if each not in expired]
            self._changed.notify_all()  # of those that wait, one may have a turn where another has not
        for each in expired:
            each.kill()


def serve(connection: Connection) -> None:
    """Answer requests with a QueryResponse, a ServiceError, or a QueryWorkerError for any other error.

    The first message is the list of sources. Raises EOFError or ConnectionError when the other end is closed.
    """
    reader = Reader(keeps=True)
    engine = Engine(connection.recv(), reader)
    gc.freeze()  # modules stay, so the collector need not read them again and again
    gc.set_threshold(100_000)  # results are many tuples, without cycles
    connection.send(None)
    while True:
        if not connection.poll(_OPEN_SECONDS):
            reader.close()
        request = connection.recv()
        try:
            response: object = request() if callable(request) else engine.run(request)
        except ServiceError as error:
            response = error
        except MemoryError:
            response = too_much_memory(MEMORY_BYTES)
        except Exception:  # noqa: BLE001 - the service raises it, and logs it
            response = QueryWorkerError(traceback.format_exc())
        connection.send(response)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the service ends its workers, and these reach the whole group
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.nice(NICENESS)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # numpy would reserve memory for a thread for each core
    if sys.platform == "linux":  # macOS accepts the limit, but does not enforce it
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    with Connection(int(sys.argv[1])) as connection, suppress(EOFError, ConnectionError):  # the service has ended
        serve(connection)
