"""``obs serve``: granian with one worker process, in which the application, its writers and the scheduler run."""

import logging
import multiprocessing
import multiprocessing.util
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path

import click
from flask import Flask
from granian import Granian
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels

from obs import config, create_app
from obs.server import bodies
from obs.services import services
from obs.storage.databases import allow_many_descriptors, files_that_fit
from obs.storage.file import DESCRIPTORS_PER_FILE
from obs.sweep import for_each_organization
from obs.tenancy import instance, service, store
from obs.tenancy.auth import Tenancy

_STOP_SECONDS = 4
_HEADER_MS = 10_000  # until the headers of a request are complete, also for the next request of a connection
_MOST_HEADER_BYTES = 128 * 1024  # the URL may contain an OQL statement; every connection may use this much memory
_OTHER_DESCRIPTORS = 256  # the control file, connections of queries, backups, pipes


def serve(folder: Path, overrides: Mapping[str, str | int]) -> None:
    """Serve the instance in `folder` until SIGINT or SIGTERM, then finish the accepted requests within 5 seconds.

    `overrides` replaces settings of the instance. Raises OSError when the address is in use, ServiceError or
    ConfigError when the instance cannot be used.
    """
    settings = {**config.load(folder), **overrides}
    server = Granian(
        "obs",
        address=_free_address(str(settings["HOST"]), int(settings["PORT"])),
        port=int(settings["PORT"]),
        interface=Interfaces.WSGI,
        workers=1,
        blocking_threads=int(settings["THREADS"]),
        http=HTTPModes.http1,
        websockets=False,
        backlog=2048,
        # The maximum number of connections, idle ones included.
        backpressure=_most_connections(),
        http1_settings=HTTP1Settings(header_read_timeout=_HEADER_MS, max_buffer_size=_MOST_HEADER_BYTES),
        workers_kill_timeout=_STOP_SECONDS,
        respawn_failed_workers=True,
        log_level=LogLevels.error,
    )
    server.on_startup(partial(_prepare, folder, settings))
    server.serve(target_loader=partial(_load, folder, overrides), wrap_loader=False)


def _most_connections() -> int:
    """How many connections may be open at once: the file descriptors that the organizations' files do not need."""
    descriptors = allow_many_descriptors()
    return max(64, descriptors - files_that_fit(descriptors) * DESCRIPTORS_PER_FILE - _OTHER_DESCRIPTORS)


def _free_address(host: str, port: int) -> str:
    """The IP address of `host`. Raises OSError when the service cannot listen on it, or another process does.

    granian does not accept host names, and shares its address with other processes of the same user.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise OSError(f"Cannot listen on {host}, port {port}: {error.strerror}.") from error
    return str(address[0])


def _prepare(folder: Path, settings: Mapping[str, str | int]) -> None:
    """Migrate every file and print the address; called when granian has the address, before it starts the worker."""
    tenancy = instance.open_instance(folder, settings, lambda: time.time_ns() // 1_000_000)
    try:
        with tenancy.control.read() as db:
            organizations = store.organizations(db)
        for_each_organization(tenancy, tenancy.databases.update, organizations)
        _welcome(tenancy, folder, instance.base_url(settings))
    finally:
        instance.close(tenancy)


def _welcome(tenancy: Tenancy, folder: Path, address: str) -> None:
    click.echo(f"obs listens at {address} (instance: {folder.absolute()})")
    first = service.create_first_organization(tenancy)
    if first is not None:
        click.echo(
            f"\nYour API key. It will not be shown again:\n\n    {first.key}\n\n"
            f"Open this link to sign in to the dashboard (valid once, for 24 hours):\n\n"
            f"    {address}/sign-in/{first.sign_in_token}\n\n"
            f"Send a first heartbeat:\n\n"
            f"    curl -X POST -H 'X-API-Key: {first.key}' {address}/api/v1/heartbeat/my-first-job/ping\n"
        )


def _load(folder: Path, overrides: Mapping[str, str | int]) -> Callable[..., Iterable[bytes]]:
    """Create the application in the worker process, and start its background work."""
    level = str({**config.load(folder), **overrides}["LOG_LEVEL"]).upper()
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("apscheduler").setLevel(logging.WARNING)
    app = create_app({"INSTANCE": folder, **overrides})
    services(app).background.start()
    services(app).queries.start()
    multiprocessing.util.Finalize(None, _close, args=(app,), exitpriority=1)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_stop_with, args=(parent.sentinel,), name="parent-watch", daemon=True).start()
    return bodies.Bodies(app.wsgi_app, int(app.config["THREADS"]), int(app.config["BODY_SECONDS"]))


def _close(app: Flask) -> None:
    """Stop the background work and close the files. Called after the last response."""
    services(app).background.stop()
    services(app).queries.close()
    services(app).access_log.close()
    instance.close(services(app).tenancy)


def _stop_with(parent_sentinel: int) -> None:
    """Stop this process when its parent has died; otherwise it would keep the address."""
    wait([parent_sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
