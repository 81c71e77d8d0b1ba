"""A process that answers queries for the service; `workers` starts it.

Run as ``python -m obs.query.execution.worker DESCRIPTOR``.
It reads pickled questions from a socket that only the service holds the other end of, and ends when that is closed.
"""

import os
import resource
import signal
import sys
import traceback
from multiprocessing.connection import Connection

from obs.errors import ServiceError
from obs.query.execution.engine import Engine
from obs.query.execution.limits import too_large
from obs.query.execution.session import Sessions

NICENESS = 10
"""A query gives way to heartbeats where both want the processor."""

MEMORY_BYTES = 1 << 30
"""Address space of a worker: a query that wants more fails alone, and takes no memory from the heartbeats."""

KEPT_CONNECTIONS = 4
IDLE_SECONDS = 10
"""How long connections are kept when nobody asks: until then, the file of a deleted organization takes room."""


def serve(connection: Connection) -> None:
    """Answer until the other end is closed. The first message is the list of sources, and is acknowledged."""
    sessions = Sessions(KEPT_CONNECTIONS)
    engine = Engine(connection.recv(), sessions)
    connection.send(None)
    while True:
        if not connection.poll(IDLE_SECONDS):
            sessions.close()
        try:
            question = connection.recv()
        except EOFError:
            return
        reply: object
        try:
            reply = engine.answer(question)
        except ServiceError as error:
            reply = error
        except MemoryError:
            reply = too_large(MEMORY_BYTES)
        except Exception:  # noqa: BLE001 - the service raises it there, where it is logged and told
            reply = traceback.format_exc()
        connection.send(reply)


def main() -> None:
    # The service decides when it ends: Ctrl-C and SIGTERM reach the whole group.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.nice(NICENESS)
    if sys.platform == "linux":  # macOS knows the limit and does not hold it
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    with Connection(int(sys.argv[1])) as connection:
        serve(connection)


if __name__ == "__main__":
    main()
