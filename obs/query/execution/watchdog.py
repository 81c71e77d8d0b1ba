"""One thread that watches every running query: the time it takes, the bytes it reads.

What a query reads is told by Linux: ``rchar`` of the thread's own ``/proc/self/task/<id>/io`` counts what it has asked
the kernel for. With a small cache and no memory map this is what SQLite reads, the log and what sorting spills
included. Elsewhere bytes cannot be told apart by thread, so they are not counted and not limited.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_LOOK_EVERY_SECONDS = 0.01


class Watch:
    """One query that runs on the thread that made this. Times are seconds of time.monotonic()."""

    def __init__(self, connection: sqlite3.Connection, max_seconds: float, max_bytes: int) -> None:
        self._connection = connection
        self._max_bytes = max_bytes
        self.started = time.monotonic()
        self.deadline = self.started + max_seconds
        self.breach: str | None = None
        self._io = _open_io()
        self._bytes_before = self._read_chars() or 0

    def bytes_scanned(self) -> int | None:
        """Bytes read so far; None where the system does not tell."""
        chars = self._read_chars()
        return None if chars is None else max(0, chars - self._bytes_before)

    def look(self) -> None:
        """Interrupt the query if it is over a limit."""
        if self.breach is None:
            scanned = self.bytes_scanned()
            if scanned is not None and scanned > self._max_bytes:
                self.breach = "max_bytes_scanned"
            elif time.monotonic() >= self.deadline:
                self.breach = "max_seconds"
        if self.breach is not None:
            self._connection.interrupt()

    def is_over(self) -> bool:
        """Look, and say whether a limit is broken."""
        self.look()
        return self.breach is not None

    def close(self) -> None:
        """Let go of the file of the system."""
        if self._io is not None:
            os.close(self._io)
            self._io = None

    def _read_chars(self) -> int | None:
        if self._io is None:
            return None
        return int(os.pread(self._io, 32, 0).split(None, 2)[1])


def _open_io() -> int | None:
    try:
        return os.open(f"/proc/self/task/{threading.get_native_id()}/io", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def counts_bytes() -> bool:
    """Whether this system tells what a thread reads, so that QUERY_MAX_BYTES_SCANNED is enforced."""
    return os.path.exists("/proc/self/task") and _can_read()


def _can_read() -> bool:
    file = _open_io()
    if file is None:
        return False
    os.close(file)
    return True


class Watchdog:
    """Watches queries from one thread, which begins with the first of them. Safe to use from any thread."""

    def __init__(self) -> None:
        self._running: set[Watch] = set()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    @contextmanager
    def watching(self, connection: sqlite3.Connection, max_seconds: float, max_bytes: int) -> Iterator[Watch]:
        """Watch what this thread does on `connection`. After an interruption ``Watch.breach`` says which limit."""
        watch = Watch(connection, max_seconds, max_bytes)
        with self._changed:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="query-watchdog", daemon=True)
                self._thread.start()
            self._running.add(watch)
            self._changed.notify()
        try:
            yield watch
        finally:
            with self._changed:  # from here on the connection may be closed: nobody interrupts it any more
                self._running.discard(watch)
                watch.close()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._running:
                    self._changed.wait()
                for watch in self._running:
                    watch.look()
            time.sleep(_LOOK_EVERY_SECONDS)
