"""Monitoring of the service: /healthz, /readyz, and /metrics for Prometheus. None of them needs a key."""

import random
import time
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from flask import Flask, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, Histogram, generate_latest

from obs.api import ENDPOINT
from obs.errors import ServiceError
from obs.server.access_log import CALLER, AccessLog
from obs.server.middleware import Wsgi
from obs.services import services
from obs.tenancy import store
from obs.tenancy.auth import Tenancy

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_DURATION = "Duration of HTTP requests in seconds, by endpoint and status."
_OLDEST = "Seconds since the oldest message that is still to be sent was due."
_GIVEN_UP = "Number of messages that could not be sent within a day, or were refused."
_UNUSABLE = "Number of organizations whose file is missing, damaged or of a newer version."


class Metrics:
    def __init__(self, tenancy: Tenancy, access_log: AccessLog) -> None:
        self.registry, self._access_log = CollectorRegistry(), access_log
        quotas, space = tenancy.quotas, tenancy.quotas.space
        for name, help_text, value in (
            ("obs_organizations", "Number of organizations.", lambda: len(tenancy.keyring.organizations())),
            ("obs_disk_free_bytes", "Free bytes of the disk with the organizations' files.", lambda: space.free_bytes),
            ("obs_disk_reserve_bytes", "Bytes of the disk reserved for heartbeats.", lambda: space.reserve_bytes),
            ("obs_quota_refusals", "Number of requests refused because of a quota.", lambda: quotas.refusals),
            ("obs_open_files", "Number of open files of organizations.", tenancy.databases.open_files),
            ("obs_unusable_files", _UNUSABLE, tenancy.unusable_files),
            ("obs_oldest_delivery_seconds", _OLDEST, lambda: services().background.notifier.oldest_seconds()),
            ("obs_given_up_deliveries", _GIVEN_UP, lambda: services().background.notifier.given_up()),
        ):
            Gauge(name, help_text, registry=self.registry).set_function(value)
        name, labels = "obs_http_request_duration_seconds", ("endpoint", "status")
        seconds = Histogram(name, _DURATION, labels, registry=self.registry, buckets=_BUCKETS)
        self._observer = cache(lambda *labels: seconds.labels(*labels).observe)  # slow compared with a heartbeat

    def measure(self, app: Wsgi, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """The layer that measures and logs every request, and gives it a request id."""
        started = time.perf_counter()
        environ[CALLER] = {"organization": None, "key": None}
        endpoint, status, sent = "unknown", "500", list[tuple[str, str]]()

        def start(line: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            nonlocal endpoint, status, sent
            if "X-Request-Id" not in dict(headers):  # an internal error has one already
                headers = [*headers, ("X-Request-Id", f"{random.getrandbits(128):032x}")]
            status, sent = line[:3], headers
            rule = getattr(environ.get("werkzeug.request"), "url_rule", None)
            endpoint = str(environ.get(ENDPOINT) or getattr(rule, "endpoint", "unknown"))
            return start_response(line, headers, *rest)

        try:
            return app(environ, start)
        finally:
            seconds = time.perf_counter() - started
            self._observer(endpoint, status)(seconds)
            self._access_log.add(environ, status, sent, seconds)


def healthz() -> dict[str, str]:
    """200 while the process runs."""
    return {"status": "ok"}


def readyz() -> tuple[dict[str, str | int], int]:
    """200 when the control file can be used, the disk written, and the scheduler runs, else 503 with the problems.

    Little free space, a wrong clock and unusable files of organizations are only reported: requests are served.
    """
    tenancy, space = services().tenancy, services().tenancy.quotas.space
    problems = {} if tenancy.control.path.exists() else {"control": "The file control.db is missing."}
    try:
        tenancy.control.fetch(store.credentials_version)
    except ServiceError as error:
        problems["control"] = error.message
    if problem := space.write_problem():
        problems["disk"] = problem
    if not services().background.scheduler.running:
        problems["scheduler"] = "not running"
    notes = {
        "disk": f"low: {space.summary()}" if space.is_low else None,
        "unusable_organizations": tenancy.unusable_files(),
        "clock": services().background.sweeper.clock.warning,
        "oldest_delivery_seconds": services().background.notifier.oldest_seconds(),
    }
    status, code = ("unready", 503) if problems else ("ready", 200)
    return {"status": status, **{name: note for name, note in notes.items() if note}, **problems}, code


def metrics() -> Response:
    return Response(generate_latest(services().metrics.registry), content_type=CONTENT_TYPE_LATEST)


def init_app(app: Flask) -> None:
    for view in (healthz, readyz, metrics):
        app.add_url_rule(f"/{view.__name__}", view_func=view)
