"""``obs run``: runs a command, passes its output on, and reports its start, its output and its end."""

from __future__ import annotations

import os
import re
import select
import selectors
import signal
import subprocess
import time
from contextlib import suppress
from typing import Any

from .outbox import Outbox

MOST_MESSAGE_BYTES = 10 * 1024
# As much as ends with the output, or with a line; else with a character.
_MESSAGE = re.compile(rb"(?s).{1,%d}(?:\Z|(?<=\n))|.{1,%d}(?![\x80-\xbf])" % (2 * (MOST_MESSAGE_BYTES,)))
_LOG_SECONDS = 5.0
_LOG_BYTES = 10_000  # send the output at the latest when there is this much
_HALF_LOG_BYTES = 500_000  # of a long output, the first and the last this many bytes are sent
_KILL_SECONDS = 10.0
_PIECE_BYTES = 1 << 16


class Run:
    """A run of `command`. `options` are those of the command line."""

    def __init__(self, command: list[str], outbox: Outbox, options: Any) -> None:
        self._command, self._outbox, self._options = command, outbox, options
        self._head, self._tail, self._size, self._sent = b"", b"", 0, 0
        self._sent_at = time.monotonic()
        self._selector = selectors.DefaultSelector()
        self._early, self._is_started = list[int](), False  # the signals that came before the command was started

    def report(self) -> int:
        """Run the command and report it; returns its exit code, 128 + N if signal N killed it."""
        begun, problem = time.monotonic(), None
        self._listen()
        self._outbox.add("start")
        try:
            self._start()
            problem, code = self._wait(), self._process.returncode
            code = 128 - code if code < 0 else code
        except OSError as error:
            code, problem = (127 if isinstance(error, FileNotFoundError) else 126), f"cannot run: {error}"
            os.write(2, f"obs: {problem}\n".encode())
        is_failed = bool(code or problem)
        if is_failed or not self._options.log_on_failure:
            left_out = self._size - len(self._head) - len(self._tail)
            note = f"\n({left_out:,} bytes were left out here.)\n".encode() if left_out else b""
            self._send(self._head[self._sent :] + note + self._tail)
        took, status = round((time.monotonic() - begun) * 1000), "failed" if is_failed else "success"
        self._outbox.add("end", status=status, exit_code=code, duration_ms=took, message=problem)
        self._outbox.close()
        self._leave_output()
        return code

    def _listen(self) -> None:
        """Have signals wake `_pass_on`, and those that would end this process forwarded to the command."""
        awake, wake = os.pipe()  # becomes readable when a signal arrives, SIGCHLD too
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector.register(awake, selectors.EVENT_READ)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as after nohup
                signal.signal(number, self._forward)

    def _start(self) -> None:
        pipes: dict[int, int] = {}
        if self._options.quiet or not self._options.no_log:
            pipes[1] = self._pipe(1)
            pipes[2] = pipes[1] if os.path.sameopenfile(1, 2) else self._pipe(2)  # one pipe keeps their order
        out, err = pipes.get(1), pipes.get(2)
        try:
            self._process = subprocess.Popen(self._command, stdout=out, stderr=err, close_fds=False)  # noqa: S603
        finally:
            for pipe in set(pipes.values()):
                os.close(pipe)
        self._is_started = True
        for number in self._early:
            self._process.send_signal(number)

    def _pipe(self, target: int) -> int:
        """The writing end of a new pipe, whose content goes to `target`."""
        reading, writing = os.pipe()
        self._selector.register(reading, selectors.EVENT_READ, target)
        return writing

    def _wait(self) -> str | None:
        """Pass the output on until the command ends; returns why it was stopped, if it was."""
        deadline, problem = time.monotonic() + (self._options.timeout or float("inf")), None
        while self._process.poll() is None:
            now = time.monotonic()
            if now >= deadline:
                self._process.send_signal(signal.SIGKILL if problem else signal.SIGTERM)
                problem, deadline = f"stopped: it took longer than {self._options.timeout:g} s", now + _KILL_SECONDS
            has_news = len(self._head) > self._sent and not self._options.log_on_failure
            if has_news and (now >= self._sent_at + _LOG_SECONDS or len(self._head) > self._sent + _LOG_BYTES):
                self._send(self._head[self._sent : self._head.rfind(b"\n", self._sent) + 1 or len(self._head)])
                has_news = False
            until = min(deadline, self._sent_at + _LOG_SECONDS if has_news else deadline)
            self._pass_on(None if until == float("inf") else max(0.0, until - now))
        while self._pass_on(0):  # what was written before the end; a process in the background may still write
            pass
        return problem

    def _pass_on(self, seconds: float | None) -> bool:
        """Wait for output, and pass on what there is; returns whether there was some."""
        some = False
        for key, _ in self._selector.select(seconds):
            piece = os.read(key.fd, _PIECE_BYTES)
            if key.data is None:
                continue
            some, room = some or bool(piece), _HALF_LOG_BYTES - len(self._head)
            self._head, self._size = self._head + piece[:room], self._size + len(piece)
            self._tail = (self._tail + piece[room:])[-_HALF_LOG_BYTES:]
            if not (piece and (self._options.quiet or _write(key.data, piece))):
                self._selector.unregister(key.fd)
                os.close(key.fd)  # at the end; or nobody reads our output, and the command gets a SIGPIPE as well
        return some

    def _send(self, output: bytes) -> None:
        self._sent, self._sent_at = self._sent + len(output), time.monotonic()
        for message in () if self._options.no_log else messages(output):
            self._outbox.add("log", message=message)

    def _leave_output(self) -> None:
        """Have other processes pass on what processes in the background may still write, until these close it."""
        for key in [each for each in self._selector.get_map().values() if each.data]:
            output = subprocess.DEVNULL if self._options.quiet else key.data
            with suppress(OSError):  # there can be no more processes
                subprocess.Popen(["cat"], stdin=key.fd, stdout=output)  # noqa: S607

    def _forward(self, number: int, _frame: object) -> None:
        if not self._is_started:
            return self._early.append(number)
        with suppress(OSError):
            if number == signal.SIGINT and os.tcgetpgrp(0) == os.getpgrp():
                return None  # a terminal sends it to all processes in the foreground, so the command has it already
        return self._process.send_signal(number)


def _write(target: int, piece: bytes) -> bool:
    """Write all of `piece`, or what there is space for; False if nobody reads it."""
    try:
        while piece:
            select.select([], [target], [])  # another program may have made it non-blocking
            piece = piece[os.write(target, piece) :]
    except OSError as error:
        return not isinstance(error, BrokenPipeError)
    return True


def messages(output: bytes) -> list[str]:
    """`output` as messages of at most MOST_MESSAGE_BYTES in UTF-8, split at the ends of lines where possible."""
    return [found.decode() for found in _MESSAGE.findall(output.decode("utf-8", "replace").encode())]
