"""The supervisor of ``obs serve``: it holds the listening socket, and keeps one worker process that accepts from it.

The socket stays open while a worker is replaced: clients wait, and are not refused. Two pipes connect the processes.
Through `beats`, the worker reports that it answers requests; the supervisor sends some itself, in case nobody else
does. So it knows when the worker is ready, and notices when it hangs. The worker stops when the supervisor closes the
other pipe, `lifeline`, or dies.
"""

import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

Work = Callable[[socket.socket, Callable[[], None]], int]
"""What a worker process does with the listening socket; returns its exit code.

It calls its second argument after it has answered a request; once per second is enough.
"""

CANNOT_START = 3
"""The exit code of a worker that has printed why it cannot start."""

_STOP_SECONDS = 4  # for the requests that a worker has accepted
_ARRIVE_SECONDS = 0.25  # for the requests on connections that it has accepted
_CHECK_SECONDS = 5
_MOST_SILENT_CHECKS = 2  # one may fail because the machine was suspended or busy
_LONGEST_PAUSE_SECONDS = 30
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
_HANDOVER = "OBS_HANDOVER"
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Worker:
    pid: int
    beats: int
    lifeline: int
    answers: bool = False
    silent_checks: int = 0
    stops: bool = False


class Supervisor:
    """Runs `work` in a child process, again and again, until SIGTERM or SIGINT.

    SIGHUP replaces the program by the installed version, and the worker by a new one. `lock` is a file descriptor that
    stays open until this process and its worker have ended.
    """

    def __init__(self, listener: socket.socket, lock: int, work: Work, worker: _Worker | None = None) -> None:
        """`worker` is the one that an earlier version of the program has started. It is replaced."""
        self._listener = listener
        self._lock = lock
        self._work = work
        self._worker = worker
        self._probe = socket.socket()
        self._received: set[int] = set()
        self._wakeup, self._wakeup_end = os.pipe()
        self._start_at = self._check_at = time.monotonic()
        self._failures = 0
        self._must_start = worker is None
        self._exit_code: int | None = None

    def run(self) -> int:
        """Return the exit code of the service: 0 after a signal, 1 when its first worker could not start."""
        for descriptor in (self._wakeup, self._wakeup_end):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(self._wakeup_end)
        for number in _SIGNALS:
            signal.signal(number, lambda received, _: self._received.add(received))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
        self._stop_worker()
        while self._exit_code is None:
            if self._worker is None and time.monotonic() >= self._start_at:
                self._start_worker()
            self._wait((self._check_at if self._worker else self._start_at) - time.monotonic())
            if self._received & {signal.SIGTERM, signal.SIGINT}:
                self._exit_code = 0
            elif signal.SIGHUP in self._received:
                self._received.remove(signal.SIGHUP)
                self._start_installed_version()
            elif time.monotonic() >= self._check_at:
                self._check()
        notify("STOPPING=1")
        self._listener.close()
        self._stop_worker()
        return self._exit_code

    def _start_worker(self) -> None:
        beats, beats_end = os.pipe()
        lifeline_end, lifeline = os.pipe()
        for descriptor in (beats, beats_end):
            os.set_blocking(descriptor, False)
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            os.close(beats)
            os.close(lifeline)
            _become_worker(self._work, self._listener, beats_end, lifeline_end)
        os.close(beats_end)
        os.close(lifeline_end)
        self._worker = _Worker(pid, beats, lifeline)
        self._send_request()

    def _wait(self, seconds: float) -> None:
        """Wait for a signal, a report of the worker, or its end."""
        worker = self._worker
        files = [self._wakeup] if worker is None else [self._wakeup, worker.beats]
        readable = select.select(files, [], [], max(0, seconds))[0]
        if self._wakeup in readable:
            os.read(self._wakeup, 4096)
        if worker is not None and worker.beats in readable and os.read(worker.beats, 4096):
            worker.silent_checks = 0
            if not worker.answers:
                worker.answers = True
                self._must_start = False
                self._failures = 0
                notify("READY=1")
        while self._reap():
            pass

    def _reap(self) -> bool:
        """Whether a child process had ended. As the first process of a container, this one gets those of others too."""
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if self._worker is not None and pid == self._worker.pid:
            self._has_ended(self._worker, os.waitstatus_to_exitcode(status))
        return pid != 0

    def _has_ended(self, worker: _Worker, code: int) -> None:
        os.close(worker.beats)
        self._worker = None
        if worker.stops:
            return
        os.close(worker.lifeline)
        if code == CANNOT_START and self._must_start:
            self._exit_code = 1
            return
        pause = 0
        if not worker.answers:
            pause = min(2**self._failures, _LONGEST_PAUSE_SECONDS)
            self._failures += 1
        self._start_at = time.monotonic() + pause
        _log.error(
            "worker process %d ended %s (%s); the next one starts in %d s",
            worker.pid,
            "unexpectedly" if worker.answers else "before it answered a request",
            signal.Signals(-code).name if code < 0 else f"exit code {code}",
            pause,
        )

    def _check(self) -> None:
        """Kill a worker that hangs: it has answered no request since the last checks, although each had sent one."""
        self._check_at = time.monotonic() + _CHECK_SECONDS
        notify("WATCHDOG=1")
        worker = self._worker
        if worker is None or not worker.answers:
            return
        if worker.silent_checks > _MOST_SILENT_CHECKS:
            _log.error("worker process %d hangs; it is killed", worker.pid)
            os.kill(worker.pid, signal.SIGKILL)
        else:
            worker.silent_checks += 1
            self._send_request()

    def _send_request(self) -> None:
        """Send a request that any worker can answer. It waits in the socket's queue until one accepts it."""
        self._probe.close()
        self._probe = socket.socket(self._listener.family)
        self._probe.settimeout(1)
        try:
            self._probe.connect(self._listener.getsockname())
            self._probe.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        except OSError as error:
            _log.warning("cannot send a request to the worker: %s", error)  # no beat follows, which a check counts

    def _stop_worker(self) -> None:
        """Stop the worker after the requests that it has accepted."""
        worker = self._worker
        if worker is None:
            return
        worker.stops = True
        os.close(worker.lifeline)
        deadline = time.monotonic() + _STOP_SECONDS
        while self._worker is not None:
            self._wait(deadline - time.monotonic())
            if self._worker is not None and time.monotonic() >= deadline:
                _log.warning("worker process %d did not finish its requests within %d s", worker.pid, _STOP_SECONDS)
                os.kill(worker.pid, signal.SIGKILL)
                deadline += _LONGEST_PAUSE_SECONDS

    def _start_installed_version(self) -> None:
        """Replace the program of this process, which keeps its socket, its lock and, until it is ready, its worker."""
        notify(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")
        command = sys.argv if os.access(sys.argv[0], os.X_OK) else sys.orig_argv
        try:
            subprocess.run([*command, "--check"], check=True, capture_output=True, text=True, timeout=60)  # noqa: S603
            keep = [self._listener.fileno(), self._lock]
            worker = self._worker
            if worker is not None:
                keep += [worker.beats, worker.lifeline]
            for descriptor in keep:
                os.set_inheritable(descriptor, True)
            os.environ[_HANDOVER] = " ".join(map(str, [*keep, *([worker.pid] if worker else [])]))
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})  # one that arrives now waits for the new version
            os.execvp(command[0], command)  # noqa: S606
        except (OSError, subprocess.SubprocessError) as error:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
            _log.error("the installed version cannot start, so the running one continues: %s", _reason(error))
            notify("READY=1")


def from_running_version(work: Work) -> Supervisor | None:
    """The supervisor that continues what the version before has handed over, if one has."""
    numbers = [int(number) for number in os.environ.pop(_HANDOVER, "").split()]
    if not numbers:
        return None
    for descriptor in numbers[:4]:
        os.set_inheritable(descriptor, False)
    listener, lock, *rest = numbers
    worker = _Worker(beats=rest[0], lifeline=rest[1], pid=rest[2]) if rest else None
    return Supervisor(socket.socket(fileno=listener), lock, work, worker)


def _reason(error: Exception) -> str:
    return error.stderr.strip() if isinstance(error, subprocess.CalledProcessError) else str(error)


def _become_worker(work: Work, listener: socket.socket, beats: int, lifeline: int) -> None:
    """Do the work of this process, which was forked from the supervisor, and end it."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a closed terminal sends it to all processes
        arguments = (lifeline, listener.fileno())
        threading.Thread(target=_stop_after, args=arguments, name="lifeline", daemon=True).start()
        code = work(listener, partial(_beat, beats))
    except BaseException:  # noqa: BLE001 - this process must not return into the code of the supervisor
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _beat(beats: int) -> None:
    try:
        os.write(beats, b".")
    except (BlockingIOError, BrokenPipeError):
        return  # the supervisor is late, or has died


def _stop_after(lifeline: int, listener: int) -> None:
    """Stop this process when the supervisor has closed `lifeline`, or has died.

    A server that is told to stop closes the connections that it has accepted and not read from yet. So its descriptor
    of the listening socket is first replaced by a socket to which nobody connects. New connections then wait in the
    queue of the listening socket for the next worker, and the accepted ones have time to send their requests.
    """
    os.read(lifeline, 1)
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        nobody.setblocking(False)
        os.dup2(nobody.fileno(), listener, inheritable=False)
    time.sleep(_ARRIVE_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_STOP_SECONDS)
    os._exit(1)


def notify(state: str) -> None:
    """Report `state` to systemd if it has started this process. See sd_notify(3)."""
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(state.encode(), f"\0{address[1:]}" if address.startswith("@") else address)
