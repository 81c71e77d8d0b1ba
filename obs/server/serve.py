"""``obs serve``: locks the instance, opens the socket, and starts the supervisor, whose worker serves with granian."""

import fcntl
import gc
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.net import SocketHolder  # type: ignore[attr-defined]
from granian.server.mp import MPServer

from obs import check_settings, config, create_app
from obs.errors import ServiceError
from obs.server import bodies, middleware, supervisor
from obs.services import services
from obs.storage.databases import allow_many_descriptors, files_that_fit
from obs.storage.disk import make_folder
from obs.storage.file import DESCRIPTORS_PER_FILE
from obs.tenancy import instance, service

_FIRST_PASSED = 3  # the descriptor of the first socket that systemd passes, see sd_listen_fds(3)
_KEPT_HOST = "LISTEN_HOST"  # the variable for the host as it was set, which a restart keeps
_HOLDER_BYTES = 1_000  # the lock file always has this size, so that it can be written over on a full disk
_LOCK_SECONDS = 5  # a worker whose supervisor was killed ends within this time, and still has the lock
_BACKLOG = 2048  # connections that may wait to be accepted
_HEADER_MS = 10_000  # until the headers of a request are complete, also for the next request of a connection
_MOST_HEADER_BYTES = 128 * 1024  # the URL may contain an OQL statement; every connection may use this much memory
_OTHER_DESCRIPTORS = 256  # the control file, connections of queries, backups, pipes
_log = logging.getLogger(__name__)
_GRANIAN_OPTIONS = (
    "log_enabled log_level log_config env_files runtime_mode runtime_threads runtime_blocking_threads blocking_threads"
    " blocking_threads_idle_timeout backpressure task_impl http1_settings http2_settings websockets ssl_ctx"
)


def serve(folder: Path, overrides: Mapping[str, str | int]) -> int:
    """Serve the instance in `folder`, its settings replaced by `overrides`; returns the exit code of the process.

    SIGINT and SIGTERM stop it in 5 seconds, after the accepted requests; SIGHUP starts the installed version. Raises
    OSError when another process serves the instance or uses the address, ConfigError for an invalid setting.
    """
    settings = {**config.load(folder), **overrides}
    level = str(settings["LOG_LEVEL"]).upper()
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    lock = _lock(folder)
    if listener := _passed_by_systemd():
        settings["HOST"], settings["PORT"] = listener.getsockname()[:2]
        settings["HOST"] = os.environ.get(_KEPT_HOST, settings["HOST"])
    else:
        listener = _listen(str(settings["HOST"]), int(settings["PORT"]))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    now = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
    holder = f"process {os.getpid()} at {instance.base_url(settings)}, started at {now}"
    os.pwrite(lock, holder.encode().ljust(_HOLDER_BYTES), 0)
    work = partial(_work, folder, {**overrides, "HOST": settings["HOST"], "PORT": settings["PORT"]})
    code = supervisor.Supervisor(listener, work, partial(_settings_are_valid, folder, overrides)).run()
    if code == supervisor.RESTART:  # with the installed version, which gets the socket as from systemd
        # Nothing else is inherited: the lifeline closes, the worker stops, and the new program waits for its lock.
        os.dup2(listener.fileno(), _FIRST_PASSED)
        os.set_inheritable(_FIRST_PASSED, True)
        os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1", _KEPT_HOST: str(settings["HOST"])}
        command = sys.argv if os.access(sys.argv[0], os.X_OK) else sys.orig_argv
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})  # the new program receives what arrives now
        os.execvp(command[0], command)  # noqa: S606
    return code


def _settings_are_valid(folder: Path, overrides: Mapping[str, str | int]) -> bool:
    try:
        check_settings({**config.load(folder), **overrides})
    except (config.ConfigError, OSError) as error:
        _log.error("SIGHUP is ignored: %s", error)
        return False
    return True


def _passed_by_systemd() -> socket.socket | None:
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return None
    os.set_inheritable(_FIRST_PASSED, False)
    listener = socket.socket(fileno=_FIRST_PASSED)
    if os.environ["LISTEN_FDS"] != "1" or listener.family == socket.AF_UNIX:
        raise OSError("The socket unit must have exactly one line ListenStream=ADDRESS:PORT.")
    return listener


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG, dualstack_ipv6=both)
    except OSError as error:
        raise OSError(f"Cannot listen on {host}, port {port}: {error.strerror}.") from error


def _lock(folder: Path) -> int:
    """Lock the instance for this process and its workers; returns the descriptor of the lock file. Raises OSError."""
    make_folder(folder, 0o700)
    descriptor = os.open(folder / ".serve.lock", os.O_RDWR | os.O_CREAT, 0o600)
    give_up_at = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() >= give_up_at:
                first = os.pread(descriptor, _HOLDER_BYTES, 0).decode().strip() or "another process"
                raise OSError(f"The instance {folder} is already served by {first}.") from error
            time.sleep(0.1)
        except OSError as error:
            raise OSError(f"Cannot lock the instance {folder}: {error.strerror}. It needs a local disk.") from error
        else:
            return descriptor


def _work(folder: Path, overrides: Mapping[str, Any], listener: socket.socket, beat: Callable[[], object]) -> int:
    logging.getLogger("apscheduler").setLevel(logging.ERROR)  # a task may take longer than its interval
    try:
        app = create_app({"INSTANCE": folder, **overrides})
        built, settings = services(app), app.config
        first = service.create_first_organization(built.tenancy)
        built.background.start()
    except (ServiceError, config.ConfigError, OSError) as error:
        click.echo(f"Error: {error}", err=True)
        return supervisor.CANNOT_START
    threading.Thread(target=built.queries.workers.prepare, name="start-queries", daemon=True).start()
    served = bodies.Bodies(app.wsgi_app, int(settings["THREADS"]), int(settings["BODY_SECONDS"]))
    descriptors = allow_many_descriptors()
    most_connections = descriptors - files_that_fit(descriptors) * DESCRIPTORS_PER_FILE - _OTHER_DESCRIPTORS
    server = _Server(
        "obs",
        interface=Interfaces.WSGI,
        blocking_threads=int(settings["THREADS"]),
        http=HTTPModes.http1,
        websockets=False,
        backpressure=max(64, most_connections),  # idle ones included
        http1_settings=HTTP1Settings(header_read_timeout=_HEADER_MS, max_buffer_size=_MOST_HEADER_BYTES),
        log_level=LogLevels.error,
    )
    server.listener = listener
    address = instance.base_url(settings)
    with suppress(OSError):  # standard output may be closed, and the service is needed all the same
        click.echo(f"obs listens at {address} (instance: {folder.absolute()})")
        if first is not None:
            text = app.jinja_env.get_template("first_start.txt")
            click.echo(text.render(address=address, key=first[0], token=first[1]))
    gc.collect()
    gc.freeze()  # what exists now stays: a full collection would read it again, which delays heartbeats by 30 ms
    server.serve(target_loader=lambda: _reporting(served, beat), wrap_loader=False)
    built.background.stop()
    built.alerts.courier.close()
    built.queries.workers.close()
    built.tenancy.close()
    return 0


class _Server(MPServer):
    """granian without its own supervisor: its worker runs in this process, and accepts from an open socket."""

    listener: socket.socket

    def startup(self, spawn_target: Callable[..., None], target_loader: Callable[[], middleware.Wsgi]) -> None:
        """Run the worker; returns after SIGTERM or SIGINT, when the accepted requests are finished."""
        # granian closes its descriptor to stop accepting; the supervisor has another one of the same socket.
        holder = SocketHolder(fd=self.listener.detach(), uds=False, backlog=_BACKLOG)  # type: ignore[call-arg]
        renamed = {"loop_impl": self.loop, "http_mode": self.http, "callback_loader": target_loader}
        unused = dict.fromkeys(("process_name", "ipc", "static_path", "log_access_fmt"))
        options = {name: getattr(self, name) for name in _GRANIAN_OPTIONS.split()} | renamed | unused
        scope = {"url_path_prefix": None}
        spawn_target(worker_id=1, sock=((None, holder), None), scope_opts=scope, metrics=(None, None), **options)
        self.interrupt_signal = True
        self.main_loop_interrupt.set()

    def shutdown(self, exit_code: int = 0) -> None:
        """`startup` leaves nothing to stop."""


def _reporting(app: middleware.Wsgi, beat: Callable[[], object]) -> middleware.Wsgi:
    """The WSGI application that calls `beat` after requests, once per second."""
    beat_at = 0.0

    def reporting(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        nonlocal beat_at
        try:
            return app(environ, start_response)
        finally:
            if time.monotonic() >= beat_at:
                beat_at = time.monotonic() + 1
                with suppress(BlockingIOError):  # a supervisor that hangs reads nothing
                    beat()

    return reporting
