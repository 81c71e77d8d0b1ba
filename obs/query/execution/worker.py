"""A process that runs queries: ``python -m obs.query.execution.worker DESCRIPTOR``.

It reads pickled requests from that socket, and exits when the service closes the other end.
"""

import os
import resource
import signal
import sys
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection

from obs.errors import ServiceError
from obs.query.execution.limits import too_much_memory
from obs.query.execution.run import Engine

NICENESS = 10
"""Heartbeats come first where both need the processor."""

MEMORY_BYTES = 1 << 30
"""The address space of a worker: a query that needs more fails alone, and takes no memory from heartbeats."""


def serve(connection: Connection) -> None:
    """Answer requests with a QueryResponse, a ServiceError, or the traceback of another error as text.

    The first message is the list of sources. Raises EOFError or BrokenPipeError when the other end is closed.
    """
    engine = Engine(connection.recv())
    connection.send(None)
    while True:
        request = connection.recv()
        response: object
        try:
            response = engine.run(request)
        except ServiceError as error:
            response = error
        except MemoryError:
            response = too_much_memory(MEMORY_BYTES)
        except Exception:  # noqa: BLE001 - the service raises it as QueryWorkerError, and logs it
            response = traceback.format_exc()
        connection.send(response)


def main() -> None:
    # The service ends its workers itself: Ctrl-C and SIGTERM reach the whole process group.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.nice(NICENESS)
    if sys.platform == "linux":  # macOS accepts the limit, but does not enforce it
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    with Connection(int(sys.argv[1])) as connection, suppress(EOFError, BrokenPipeError):  # the service has ended
        serve(connection)


if __name__ == "__main__":
    main()
