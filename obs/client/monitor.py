"""``monitor``: reports a function or a block of Python as a run of a job."""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from weakref import WeakSet

from .outbox import Outbox
from .run import messages

_closed: WeakSet[Outbox] = WeakSet()
_MOST_CHARACTERS = 2_000  # of a traceback


@contextmanager
def monitor(job: str, *, host: str = "", service: str = "", project: str = "") -> Iterator[Callable[[str], None]]:
    """Report the block of a ``with``, or each call of a function that this decorates, as a run of `job`.

    The block gets a function that adds a text to the log. An exception is reported as a failure, and raised again.
    Inside a coroutine or a generator, use ``with``.
    """
    from traceback import format_exc

    def log(text: str) -> None:
        for message in messages(str(text).encode(errors="replace")):
            outbox.add("log", message=message)

    outbox = Outbox(job, {"host": host or os.uname().nodename, "service": service, "project": project})
    begun, problem = time.monotonic(), None
    outbox.add("start")
    try:
        yield log
    except BaseException as error:
        if not isinstance(error, SystemExit) or error.code:
            problem = format_exc()[-_MOST_CHARACTERS:].encode(errors="replace").decode()
        raise
    finally:
        took, status = round((time.monotonic() - begun) * 1000), "failed" if problem else "success"
        outbox.add("end", status=status, duration_ms=took, message=problem)
        outbox.close(0)
        _closed.add(outbox)


@atexit.register
def _wait() -> None:
    """Wait a little for the runs that are not sent yet. The others are not in the set any more."""
    for outbox in list(_closed):
        outbox.close()
