"""A process that answers queries for the service: ``python -m obs.query.worker DESCRIPTOR``, which `workers` starts.

It reads pickled questions from a socket that only the service holds the other end of, and ends when that is closed.
"""

import os
import signal
import sys
import traceback
from multiprocessing.connection import Connection

from obs.errors import ServiceError
from obs.query.engine import Engine

NICENESS = 5
"""A query gives way to heartbeats where both want the processor."""


def serve(connection: Connection) -> None:
    """Answer until the other end is closed. The first message is the list of sources, and is acknowledged."""
    engine = Engine(connection.recv())
    connection.send(None)
    while True:
        try:
            question = connection.recv()
        except EOFError:
            return
        reply: object
        try:
            reply = engine.answer(question)
        except ServiceError as error:
            reply = error
        except Exception:  # noqa: BLE001 - the service raises it there, where it is logged and told
            reply = traceback.format_exc()
        connection.send(reply)


def main() -> None:
    # The service decides when it ends: Ctrl-C and SIGTERM reach the whole group.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.nice(NICENESS)
    with Connection(int(sys.argv[1])) as connection:
        serve(connection)


if __name__ == "__main__":
    main()
