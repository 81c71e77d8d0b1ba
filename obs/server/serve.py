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
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    settings = check(folder, overrides)
    work = partial(worker.work, folder, overrides)
    running = supervisor.from_running_version(work)
    if running is None:
        lock = _lock(folder)
        listener = _passed_by_systemd()
        if listener is not None:
            settings["HOST"], settings["PORT"] = listener.getsockname()[:2]
        else:
            listener = _listen(str(settings["HOST"]), int(settings["PORT"]))
        os.environ.update(OBS_HOST=str(settings["HOST"]), OBS_PORT=str(settings["PORT"]))  # for the installed version
        _describe(lock, instance.base_url(settings))
        running = supervisor.Supervisor(listener, lock, work)
    return running.run()


def _passed_by_systemd() -> socket.socket | None:
    """The listening socket that systemd has opened for this process, if any. Raises OSError if it is not usable."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return None
    if os.environ["LISTEN_FDS"] != "1":
        raise OSError("systemd must pass exactly one socket: use one ListenStream= in the socket unit.")
    os.set_inheritable(_FIRST_PASSED, False)
    listener = socket.socket(fileno=_FIRST_PASSED)
    if listener.family not in (socket.AF_INET, socket.AF_INET6):
        raise OSError("systemd must pass a TCP socket: use ListenStream=ADDRESS:PORT in the socket unit.")
    return listener


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens on the first address of `host`. Raises OSError."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind(address)
        listener.listen(worker.BACKLOG)
    except OSError as error:
        raise OSError(f"Cannot listen on {host}, port {port}: {error.strerror}.") from error
    return listener


def _lock(folder: Path) -> int:
    """Lock the instance for this process and its workers; returns the descriptor of the lock file.

    Raises OSError when another process has locked it. The lock ends with the last process that has the descriptor, so
    a worker keeps it for the moment by which it outlives a supervisor that was killed.
    """
    make_folder(folder, 0o700)
    descriptor = os.open(folder / ".serve.lock", os.O_RDWR | os.O_CREAT, 0o600)
    give_up_at = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            first = os.pread(descriptor, 1_000, 0).decode()
            if _is_running(first) or time.monotonic() >= give_up_at:
                raise OSError(f"The instance {folder} is already served by {first or 'another process'}.") from error
            time.sleep(0.1)
        except OSError as error:
            raise OSError(f"Cannot lock the instance {folder}: {error.strerror}. It needs a local disk.") from error
        else:
            return descriptor


def _is_running(description: str) -> bool:
    number = description.removeprefix("process ").partition(" ")[0]
    return number.isdigit() and Path(f"/proc/{number}").exists()


def _describe(lock: int, address: str) -> None:
    """Write into the lock file what a second server reports."""
    os.ftruncate(lock, 0)
    text = f"process {os.getpid()} at {address}, started at {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
    os.pwrite(lock, text.encode(), 0)
