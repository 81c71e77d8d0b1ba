"""Monitoring of the service: /healthz, /readyz, and /metrics for Prometheus. None of them needs a key."""

import time
from collections.abc import Callable, Iterable
from typing import Any

from flask import Flask, Response
from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from obs.api import ENDPOINT
from obs.errors import ServiceError
from obs.server.middleware import Wsgi
from obs.services import services
from obs.tenancy import store
from obs.tenancy.auth import Tenancy

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class _Instance(Collector):
    """The metrics that are computed when they are scraped."""

    def __init__(self, tenancy: Tenancy) -> None:
        self._tenancy = tenancy

    def collect(self) -> Iterable[GaugeMetricFamily]:
        tenancy, space = self._tenancy, self._tenancy.quotas.space
        for name, help_text, value in (
            ("obs_organizations", "Number of organizations.", len(tenancy.keyring.organizations())),
            ("obs_disk_free_bytes", "Free bytes of the disk with the organizations' files.", space.free_bytes),
            ("obs_disk_reserve_bytes", "Bytes of the disk reserved for heartbeats.", space.reserve_bytes),
            ("obs_quota_refusals", "Number of requests refused because of a quota.", tenancy.quotas.refusals),
            ("obs_open_files", "Number of open files of organizations.", tenancy.databases.open_files()),
            (
                "obs_unusable_files",
                "Number of organizations whose file is missing, damaged or of a newer version.",
                _unusable(tenancy),
            ),
        ):
            yield GaugeMetricFamily(name, help_text, value)


def _unusable(tenancy: Tenancy) -> int:
    """The number of organizations whose file cannot be used; the log names them."""
    return len(tenancy.databases.problems.unusable() & set(tenancy.keyring.organizations()))


def _flask_endpoint(request: Any) -> str:
    rule = getattr(request, "url_rule", None)
    return "unknown" if rule is None else str(rule.endpoint)


class Metrics:
    """The metrics of one application, and the middleware that measures its requests."""

    def __init__(self, tenancy: Tenancy) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_Instance(tenancy))
        self._seconds = Histogram(
            "obs_http_request_duration_seconds",
            "Duration of HTTP requests in seconds, by endpoint and status.",
            ("endpoint", "status"),
            registry=self._registry,
            buckets=_BUCKETS,
        )
        self._observers: dict[tuple[str, str], Callable[[float], None]] = {}

    def text(self) -> bytes:
        """The metrics in the Prometheus text format."""
        return generate_latest(self._registry)

    def measure(self, inner: Wsgi) -> Wsgi:
        """The WSGI application that measures every request to `inner`.

        Measuring here, not in Flask's hooks, includes heartbeats, which are handled before Flask.
        """

        def measured(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
            started = time.perf_counter()
            endpoint, status = "unknown", "500"

            def start(line: str, *rest: Any) -> Any:
                nonlocal endpoint, status
                status = line[:3]
                endpoint = environ.get(ENDPOINT) or _flask_endpoint(environ.get("werkzeug.request"))
                return start_response(line, *rest)

            try:
                return inner(environ, start)
            finally:
                observe = self._observers.get((endpoint, status)) or self._observer(endpoint, status)
                observe(time.perf_counter() - started)

        return measured

    def _observer(self, endpoint: str, status: str) -> Callable[[float], None]:
        """Records durations with these labels. It is cached because `labels` is slow compared with a heartbeat."""
        observe = self._observers[endpoint, status] = self._seconds.labels(endpoint, status).observe
        return observe


def healthz() -> dict[str, str]:
    """200 while the process runs."""
    return {"status": "ok"}


def readyz() -> tuple[dict[str, str | int], int]:
    """200 when the control file can be read, the disk written, and the scheduler runs, else 503 with the problems.

    Little free space, a wrong clock and unusable files of organizations are only reported: requests are served.
    """
    problems = {}
    tenancy = services().tenancy
    space = tenancy.quotas.space
    try:
        with tenancy.control.read() as db:
            store.credentials_version(db)
    except ServiceError as error:
        problems["control"] = error.message
    if problem := space.write_problem():
        problems["disk"] = problem
    if not services().background.is_alive():
        problems["scheduler"] = "not running"
    notes = {
        "disk": f"low: {space.summary()}" if space.is_low else None,
        "unusable_organizations": _unusable(tenancy),
        "clock": services().background.sweeper.clock.warning,
    }
    status, code = ("unready", 503) if problems else ("ready", 200)
    return {"status": status, **{name: note for name, note in notes.items() if note}, **problems}, code


def metrics() -> Response:
    """The metrics for Prometheus."""
    return Response(services().metrics.text(), content_type=CONTENT_TYPE_LATEST)


def init_app(app: Flask) -> None:
    """Register /healthz, /readyz and /metrics."""
    for view in (healthz, readyz, metrics):
        app.add_url_rule(f"/{view.__name__}", view_func=view)
