"""The outbox: heartbeats are kept in a file until the server has them, so that none is lost while it is unreachable.

Each run has a file of its own, which its process keeps locked. `flush` sends the files that nobody has locked, because
their process has ended. A start, an end or a log message that is sent twice counts once.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from glob import escape, glob
from itertools import count
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any
from zlib import crc32

from .server import Server, ServerError, configured

_RETRY_SECONDS, _MOST_WAITING = 15.0, 1_000  # how often a heartbeat is tried again, while so many others wait
_PATIENCE_SECONDS = 10.0  # how long the end of a run waits until its heartbeats are sent
_MOST_RUNS, _MOST_BYTES = 10_000, 50_000_000  # that wait until the server can be reached
_REFUSED = (400, 413, 415, 422)  # the server will always refuse the heartbeat; with another status, perhaps only now


class Outbox:
    """The heartbeats of one run of a job. A thread sends them."""

    def __init__(self, job: str, attribution: Mapping[str, str | None]) -> None:
        """`attribution` has the values of ``host``, ``service`` and ``project``."""
        self._job, self._run_id, self._numbers = job, os.urandom(16).hex(), count()
        self._headers = {f"X-Platform-{name.title()}": value for name, value in attribution.items() if value}
        self._path = os.path.join(folder(), f"{time.time_ns()}-{self._run_id}.ndjson")
        try:
            os.makedirs(folder(), mode=0o700, exist_ok=True)
            self._file = open(self._path, "xb")  # noqa: SIM115 - open as long as the run
            fcntl.flock(self._file, fcntl.LOCK_EX)
        except OSError as error:
            warn(f"cannot store heartbeats in {folder()}: {error}")
            self._path, self._file = "", open(os.devnull, "wb")  # noqa: SIM115
        self._events, self._is_over = SimpleQueue[Any](), Event()
        self._thread = Thread(target=self._send, daemon=True)
        with suppress(RuntimeError):  # there can be no more threads: another process sends it
            self._thread.start()

    def add(self, kind: str, **fields: Any) -> None:
        """Add a heartbeat. A start and an end are on the disk when this returns, with those before them."""
        headers = {**self._headers, "Idempotency-Key": f"{self._run_id}-{next(self._numbers)}"}
        event = [kind, {"name": self._job, "run_id": self._run_id, "time": now(), **fields}, headers]
        try:
            self._file.write(json.dumps(event).encode() + b"\n")
            self._file.flush()
            if kind != "log" and self._path:
                os.fsync(self._file.fileno())
        except (OSError, ValueError) as error:  # ValueError: it is closed
            warn(f"cannot store heartbeats in {folder()}: {error}")
        self._events.put(event)

    def close(self, patience_seconds: float = _PATIENCE_SECONDS) -> None:
        """Wait a little until all heartbeats are sent, and those of earlier runs."""
        self._is_over.set()
        self._events.put(None)
        if self._thread.is_alive():
            self._thread.join(patience_seconds)

    def _send(self) -> None:
        try:
            server = configured()
            for number, event in enumerate(iter(self._events.get, None)):
                while True:  # while the run goes on: else a long one would seem not to run
                    try:
                        send(server, event)
                        break
                    except ServerError:
                        if self._is_over.wait(_RETRY_SECONDS) or self._events.qsize() > _MOST_WAITING:
                            raise
                if number == 0:  # before the end of this run: the last outcome that the server gets is the newest one
                    with suppress(OSError):  # of the server, which the next heartbeat meets too, or of a file
                        flush()
            if self._path:
                os.unlink(self._path)
        except ServerError:
            while self._events.get() is not None:
                pass  # the file has them; they are sent at the end of the run, or by the next one
            if self._path:
                _make_room()
        with suppress(OSError):  # the disk is full
            self._file.close()
        try:
            flush()
        except ServerError as error:
            if error.status:  # else the server is unreachable, which can happen
                warn(f"heartbeats are kept in {folder()} ({error.status}): {error}")


def folder() -> str:
    """Where the files are: ~/.local/state/obs. A server and an organization in the environment have their own."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    server = [os.environ.get("OBS_URL", ""), os.environ.get("OBS_API_KEY", "").rpartition("_")[0]]
    return os.path.join(state, "obs", *([f"{crc32(repr(server).encode()):08x}"] if any(server) else []))


def _make_room() -> None:
    """Delete the runs that are waiting beyond the newest ones: the older a heartbeat is, the less it says."""
    deleted, size = 0, 0
    for number, path in enumerate(sorted(glob(os.path.join(escape(folder()), "*.ndjson")), reverse=True), 1):
        with suppress(BlockingIOError, FileNotFoundError), open(path, "rb") as file:
            size += os.fstat(file.fileno()).st_size
            if number > _MOST_RUNS or size > _MOST_BYTES:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
                deleted += 1
    if deleted:
        warn(f"deleted the oldest {deleted} runs in {folder()}: there is room for {_MOST_BYTES:,} bytes")


def send(server: Server, event: Any) -> None:
    """Send a heartbeat. One that the server will always refuse is dropped. Raises ServerError."""
    kind, body, headers = event
    try:
        server.request("POST", f"heartbeat/{kind}", "run_id", body, **headers)
    except ServerError as error:
        if error.status not in _REFUSED and (kind, error.status) != ("log", 507):  # no room: the outcome follows
            raise
        if error.status == 422 and body.pop("time", "") > now(-3600):  # perhaps by a wrong clock: it is about now
            send(server, event)
            return
        warn(f"a heartbeat was refused ({error.status}): {error}")


def flush() -> int:
    """Send what earlier runs could not send, with the original times; returns of how many. Raises ServerError."""
    server, sent, full = configured(), 0, None
    for path in sorted(glob(os.path.join(escape(folder()), "*.ndjson"))):
        # These errors: its run goes on, another process has sent it, or it is another user's.
        with suppress(BlockingIOError, FileNotFoundError, PermissionError), open(path, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                for line in iter(file.readline, b""):
                    with suppress(ValueError):  # it is incomplete: the disk was full, or the process killed
                        send(server, json.loads(line))
                    os.pwrite(file.fileno(), b"#", file.tell() - len(line))  # so that it is never sent again
            except ServerError as error:
                if error.status != 507:  # else it is about this job, if it is a new one
                    raise
                full = error
                continue
            if file.tell():  # else its run begins at this moment
                os.unlink(path)
                sent += 1
    if full is not None:
        raise full
    return sent


def now(later_seconds: int = 0) -> str:
    """The time, or one that is so much later or earlier, in ISO 8601."""
    seconds, ms = divmod(time.time_ns() // 1_000_000 + later_seconds * 1000, 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{ms:03}Z"


def printable(text: str) -> str:
    """`text` with its control characters escaped, as in ``\\x1b``: they could change the terminal."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def warn(message: str) -> None:
    print("obs:", "\n     ".join(map(printable, message.splitlines())), file=sys.stderr)  # noqa: T201
