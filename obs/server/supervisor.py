"""The supervisor of ``obs serve``: it holds the listening socket, and keeps one worker process that accepts from it.

Clients wait while a worker is replaced. One pipe brings the supervisor the numbers of signals, and _BEAT when the
worker has answered a request. The supervisor sends requests itself, so a worker without beats hangs. A worker stops
when the other pipe, its lifeline, is closed.
"""

import logging
import os
import select
import signal
import socket
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress

from obs.server.bodies import tcp_sockets

Work = Callable[[socket.socket, Callable[[], object]], int]
"""What a worker does with the listening socket; returns its exit code. It calls its second argument after a request."""

CANNOT_START = 3  # the exit code of a worker that has printed why it cannot start
RESTART = -1  # what `Supervisor.run` returns instead of an exit code after SIGHUP

_STOP_SECONDS = 4.5  # for the requests on connections that a worker has accepted
_ARRIVE_SECONDS = 1.5  # of these, for connections that have sent nothing yet
_READ_SECONDS = 0.25  # for reading what has arrived
_ESTABLISHED = 1  # a state of connections, see tcp(7)
_CHECK_SECONDS = 5
_MOST_SILENT_CHECKS = 2  # one may fail because the machine was suspended or busy
_LONGEST_PAUSE_SECONDS = 30
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
_BEAT = 255
_log = logging.getLogger(__name__)


class Supervisor:
    def __init__(self, listener: socket.socket, work: Work, may_restart: Callable[[], bool]) -> None:
        self._listener, self._work, self._may_restart = listener, work, may_restart
        self._lifeline = self._pid = 0
        self._events, self._events_end = os.pipe()
        self._request = socket.socket()
        self._check_at = self._start_at = time.monotonic()
        self._answers = self._has_answered = False
        self._silent_checks = self._failures = 0
        self._exit_code: int | None = None

    def run(self) -> int:
        """Return RESTART, or the exit code: 0 after SIGTERM or SIGINT, 1 when the first worker cannot start."""
        os.set_blocking(self._events, False)
        os.set_blocking(self._events_end, False)
        signal.set_wakeup_fd(self._events_end)
        for number in _SIGNALS:
            signal.signal(number, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
        self._reap()  # the worker of the program that this one has replaced, if it ended before there was a handler
        while self._exit_code is None:
            if not self._pid and time.monotonic() >= self._start_at:
                self._start_worker()
            if time.monotonic() >= self._check_at:
                self._check()
            self._receive((self._check_at if self._pid else min(self._check_at, self._start_at)) - time.monotonic())
        if self._exit_code != RESTART:  # which leaves the socket open, and the worker running
            notify("STOPPING=1")
            self._listener.close()
            self._stop_worker()
        return self._exit_code

    def _start_worker(self) -> None:
        lifeline, self._lifeline = os.pipe()
        self._answers, self._silent_checks = False, 0
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._lifeline)
            _become_worker(self._work, self._listener, lambda: os.write(self._events_end, bytes([_BEAT])), lifeline)
        os.close(lifeline)
        self._send_request()

    def _receive(self, seconds: float) -> None:
        if not select.select([self._events], [], [], max(0, seconds))[0]:
            return
        for event in os.read(self._events, 4096):
            if event == _BEAT:
                self._silent_checks = self._failures = 0
                if not self._answers:
                    self._answers = self._has_answered = True
                    notify("READY=1")
            elif event == signal.SIGCHLD:
                self._reap()
            elif event != signal.SIGHUP:
                self._exit_code = 0
            elif self._exit_code is None and self._may_restart():
                self._exit_code = RESTART

    def _reap(self) -> None:
        """Collect the child processes that have ended. The first process of a container gets those of others too."""
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self._pid:
                    self._pid = 0
                    if self._lifeline:
                        os.close(self._lifeline)
                        self._lifeline = 0
                        self._replace(ended[0], os.waitstatus_to_exitcode(ended[1]))

    def _replace(self, pid: int, code: int) -> None:
        if code == CANNOT_START and not self._has_answered:
            self._exit_code = 1
            return
        pause = 0 if self._answers else min(2**self._failures, _LONGEST_PAUSE_SECONDS)
        self._failures += not self._answers
        self._start_at = time.monotonic() + pause
        when = "unexpectedly" if self._answers else "before it answered a request"
        reason = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        _log.error("worker process %d ended %s (%s); the next one starts in %d s", pid, when, reason, pause)

    def _check(self) -> None:
        """Kill the worker if it has not answered the last checks. Before its first answer it may upgrade files."""
        self._check_at = time.monotonic() + _CHECK_SECONDS
        notify("WATCHDOG=1")
        if self._pid and self._answers:
            self._silent_checks += 1
            if self._silent_checks > _MOST_SILENT_CHECKS:
                _log.error("worker process %d hangs; it is killed", self._pid)
                os.kill(self._pid, signal.SIGKILL)
            else:
                self._send_request()

    def _send_request(self) -> None:
        self._request.close()
        self._request = socket.socket(self._listener.family)
        self._request.settimeout(1)
        try:
            self._request.connect(self._listener.getsockname())
            self._request.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        except OSError as error:
            _log.warning("cannot send a request to the worker: %s", error)  # without a beat, a check counts it

    def _stop_worker(self) -> None:
        if not self._pid:
            return
        os.close(self._lifeline)
        self._lifeline = 0
        deadline = time.monotonic() + _STOP_SECONDS
        while self._pid:
            self._receive(deadline - time.monotonic())
            if self._pid and time.monotonic() >= deadline:
                _log.warning("worker process %d did not finish its requests in time", self._pid)
                os.kill(self._pid, signal.SIGKILL)
                deadline += _LONGEST_PAUSE_SECONDS


def _become_worker(work: Work, listener: socket.socket, beat: Callable[[], object], lifeline: int) -> None:
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a closed terminal sends it to all processes
        threading.Thread(target=_stop_after, args=(lifeline, listener.fileno()), daemon=True).start()
        code = work(listener, beat)
    except BaseException:  # noqa: BLE001 - this process must not return into the code of the supervisor
        traceback.print_exc()
    finally:
        os._exit(code)


def _stop_after(lifeline: int, listener: int) -> None:
    """Stop this process when the supervisor has closed `lifeline`, or has died.

    A server that stops closes the connections that it has accepted and not read from yet. So a socket to which nobody
    connects first replaces its own: new connections wait for the next worker, and accepted ones have time to send.
    """
    os.read(lifeline, 1)
    begun = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        nobody.setblocking(False)
        if nobody.fileno() != listener:  # they are equal if a signal has already made the server close its own
            os.dup2(nobody.fileno(), listener, inheritable=False)
    is_awaited = True
    while is_awaited and time.monotonic() < begun + _ARRIVE_SECONDS:
        # Is there a connection on which nothing has arrived yet? These are tcpi_state and tcpi_bytes_received.
        is_awaited = any(info[0] == _ESTABLISHED and not any(info[128:136]) for _, info in tcp_sockets())
        time.sleep(_READ_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(max(0, begun + _STOP_SECONDS - time.monotonic()))
    os._exit(1)


def notify(state: str) -> None:
    """Report `state` to systemd if it has started this process. See sd_notify(3)."""
    if address := os.environ.get("NOTIFY_SOCKET"):
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.sendto(state.encode(), f"\0{address[1:]}" if address.startswith("@") else address)
        except OSError as error:
            _log.warning("cannot report to systemd: %s", error)
