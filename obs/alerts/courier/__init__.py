"""The courier: a process that sends messages, so that no heartbeat waits for a receiver and no receiver for another.

It opens no database. It reads orders from its standard input and writes the answers to its standard output, one JSON
object on a line. Each order runs in a process of its own, which is killed when it takes too long. A module here is a
kind of channel. Its `check` returns what may be shown of an address, and the host it is on if that is known. Its `send`
returns whether a message was delivered, what the receiver answered, and how many seconds it asks to wait.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from typing import Any

ATTEMPT_SECONDS = 30  # an attempt that takes longer has failed
MOST_ANSWER = 300  # characters of an answer; a line with so many is written to a pipe at once, so that lines do not mix
_IDLE_SECONDS = 60  # more than an attempt takes: a process that owes an answer for so long hangs
_FOLDER = str(Path(__file__).parent.parent)
# The package is imported without `obs`, whose imports take a second and 60 MB.
_START = "import sys; sys.path.insert(0, sys.argv[1]); from courier.process import main; del sys.path[0]; main()"

Order = Mapping[str, Any]
"""What to do: ``id``; ``op``: send, check or fetch; ``kind``, the channel's; ``address``; ``allow_private``.

To send: ``secret``, ``key`` (of the delivery), ``masked`` (the address as shown), ``message`` with the texts title,
plain, markdown and html (in ``titled``: with the title), ``payload`` (the body of a webhook), and ``is_good``. The
answer has ``id``, ``masked`` if an address can be used, else what `failure` has, and perhaps ``wait_seconds``.
"""
Answer = Mapping[str, Any]


class RefusedError(Exception):
    """An address that cannot be used, and why."""


def failure(reason: str, *, refused: bool = False) -> dict[str, Any]:
    """The answer when a message was not delivered; `refused`: it never will be."""
    return {"delivered": False, "answer": reason[:MOST_ANSWER], "refused": refused}


class Courier:
    """A process that sends messages, started on demand. Safe to use from any thread."""

    def __init__(self, allows_private: Callable[[], bool]) -> None:
        self._allows_private, self._lock = allows_private, threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._waiting: dict[int, Future[Answer]] = {}
        self._last_id, self._active_at = 0, 0.0  # when the last answer came, or the first order after it

    def submit(self, order: Order) -> Future[Answer]:
        future = Future[Answer]()
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                command, pipe = (sys.executable, "-P", "-c", _START, _FOLDER), subprocess.PIPE
                try:
                    self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, process_group=0)  # noqa: S603
                    self._waiting = {}
                    threading.Thread(target=self._read, args=(self._process, self._waiting), daemon=True).start()
                except (OSError, RuntimeError) as error:  # no memory, process or thread is left: later there may be
                    with self._process or nullcontext():  # closes its pipes
                        self._kill()
                    future.set_result(failure(f"The process that sends messages cannot be started: {error}"))
                    return future
            if not self._waiting:
                self._active_at = time.monotonic()
            self._last_id += 1
            self._waiting[self._last_id] = future
            with suppress(BrokenPipeError):  # it has died: `_read` answers
                line = json.dumps({"allow_private": self._allows_private(), **order, "id": self._last_id})
                print(line, file=self._process.stdin, flush=True)
        return future

    def close(self, *, only_if_idle: bool = False) -> None:
        """End the process; with `only_if_idle`, one without an answer for a minute. What it is sending fails."""
        with ExitStack() as stack:
            if self._lock.acquire(timeout=1):  # else `submit` waits for a process that reads nothing
                stack.callback(self._lock.release)
            if not only_if_idle or time.monotonic() > self._active_at + _IDLE_SECONDS:
                self._kill()

    def _kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _read(self, process: subprocess.Popen[str], waiting: dict[int, Future[Answer]]) -> None:
        """Pass on the answers of a process until it ends."""
        for line in process.stdout or ():
            answer = json.loads(line)
            self._active_at = time.monotonic()
            waiting.pop(answer.pop("id"), Future()).set_result(answer)  # two, if it was ended right after the answer
        with self._lock, suppress(BrokenPipeError), process:  # closes its pipes
            while waiting:
                waiting.popitem()[1].set_result(failure("The process that sends messages has ended."))
