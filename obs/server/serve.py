"""``obs serve``: locks the instance, opens the listening socket, and starts the supervisor."""

import fcntl
import logging
import os
import socket
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from obs import config
from obs.server import supervisor, worker
from obs.storage.folders import make_folder
from obs.tenancy import instance
from obs.tenancy.ingest import IngestAddress

_FIRST_PASSED = 3  # the descriptor of the first socket that systemd passes, see sd_listen_fds(3)
_HOLDER_BYTES = 1_000  # the lock file always has this size, so that it can be written over on a full disk
_LOCK_SECONDS = 5  # a worker ends within this time after its supervisor was killed


def check(folder: Path, overrides: Mapping[str, str | int]) -> dict[str, str | int]:
    """The settings of the instance in `folder`, replaced by `overrides`. Raises ConfigError for an invalid one."""
    settings = {**config.load(folder), **overrides}
    IngestAddress(str(settings["INGEST_URL_TEMPLATE"]), instance.base_url(settings))
    return settings


def serve(folder: Path, overrides: Mapping[str, str | int]) -> int:
    """Serve the instance in `folder` until SIGINT or SIGTERM, then finish the accepted requests within 5 seconds.

    `overrides` replaces settings of the instance. Returns the exit code of the process. Raises OSError when another
    process serves the instance or uses the address, ConfigError for an invalid setting.
    """
    settings = check(folder, overrides)
    level = str(settings["LOG_LEVEL"]).upper()
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    work = partial(worker.work, folder, overrides)
    running = supervisor.from_running_version(work)
    if running is None:
        lock = _lock(folder)
        if listener := _passed_by_systemd():
            settings["HOST"], settings["PORT"] = listener.getsockname()[:2]
        else:
            listener = _listen(str(settings["HOST"]), int(settings["PORT"]))
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        os.environ.update(OBS_HOST=str(settings["HOST"]), OBS_PORT=str(settings["PORT"]))  # for the installed version
        now = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
        holder = f"process {os.getpid()} at {instance.base_url(settings)}, started at {now}"
        os.pwrite(lock, holder.encode().ljust(_HOLDER_BYTES), 0)
        running = supervisor.Supervisor(listener, lock, work)
    return running.run()


def _passed_by_systemd() -> socket.socket | None:
    """The listening socket that systemd has opened for this process, if any. Raises OSError if it is not usable."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return None
    os.set_inheritable(_FIRST_PASSED, False)
    listener = socket.socket(fileno=_FIRST_PASSED)
    if os.environ["LISTEN_FDS"] != "1" or listener.family == socket.AF_UNIX:
        raise OSError("The socket unit must have exactly one line ListenStream=ADDRESS:PORT.")
    return listener


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens on the first address of `host`. Raises OSError."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        return socket.create_server(address[:2], family=family, backlog=worker.BACKLOG, dualstack_ipv6=both)
    except OSError as error:
        raise OSError(f"Cannot listen on {host}, port {port}: {error.strerror}.") from error


def _lock(folder: Path) -> int:
    """Lock the instance for this process and its workers; returns the descriptor of the lock file.

    A worker keeps the lock for the moment by which it outlives a supervisor that was killed; this process waits for its
    end. Raises OSError when another process serves the instance, or the file system has no locks.
    """
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
