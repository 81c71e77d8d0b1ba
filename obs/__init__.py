"""obs: annotations, OQL queries and cron heartbeats behind one HTTP API."""

import time
import tomllib
from collections.abc import Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from flask import Flask

from obs import api, checks, config, dashboard, errors
from obs.alerts import routes as alert_routes
from obs.alerts.service import AlertService
from obs.alerts.source import DELIVERIES, INCIDENTS
from obs.annotations import grafana, routes as annotation_routes, store as annotation_store
from obs.annotations.source import ANNOTATIONS
from obs.background import Background, Task
from obs.dashboard.overview import JobsOfOrg
from obs.heartbeat import routes as heartbeat_routes
from obs.heartbeat.names import JobNameConverter
from obs.heartbeat.service import HeartbeatService, SweepQueue
from obs.heartbeat.source import SOURCES as HEARTBEAT_SOURCES
from obs.ingest import openapi as heartbeat_operations
from obs.ingest.endpoint import PROTOCOLS, HeartbeatEndpoint
from obs.query import routes as query_routes
from obs.query.service import QueryService
from obs.query_alerts import QueryAlerts
from obs.server import middleware, monitoring
from obs.server.access_log import AccessLog
from obs.server.bodies import MOST_BODY_BYTES
from obs.services import Services
from obs.sweep import time_zones
from obs.tenancy import instance, routes as tenancy_routes
from obs.tenancy.audit import AUDIT

SOURCES = (*HEARTBEAT_SOURCES, INCIDENTS, DELIVERIES, ANNOTATIONS, AUDIT)  # of OQL, from ``source.py`` of each area


def check_settings(settings: Mapping[str, Any]) -> middleware.Layer:
    """Check what `config.load` cannot. Returns the middleware for proxies. Raises ConfigError."""
    time_zones(str(settings["TIME_ZONES"]))
    middleware.IngestAddress(str(settings["INGEST_URL_TEMPLATE"]), instance.base_url(settings))
    return middleware.trust_proxies(str(settings["TRUSTED_PROXIES"]), str(settings["TRUSTED_AUTH_HEADER"]))


def create_app(overrides: Mapping[str, Any] | None = None) -> Flask:
    """Create the application for one instance. Raises ConfigError, or ServiceError if its control file is unusable.

    `overrides` contains settings by name and, optionally, ``INSTANCE`` (the folder), ``CLOCK`` (a function that returns
    milliseconds since the epoch), ``MONOTONIC`` (one of seconds that never decrease) and ``BOOT_CLOCK`` (which also
    counts while the machine is suspended). `services(app).background.start()` starts background work.
    """
    remaining = dict(overrides or {})
    folder = Path(remaining.pop("INSTANCE", None) or config.default_instance())
    clock = remaining.pop("CLOCK", None) or (lambda: time.time_ns() // 1_000_000)
    settings = {**config.load(folder), **remaining}

    app = Flask(__name__, instance_path=str(folder.absolute()), static_folder=None)
    app.config.from_file("flask.toml", tomllib.load, text=False)
    boot_clock = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
    clocks = {"MONOTONIC": time.monotonic, "BOOT_CLOCK": remaining.get("MONOTONIC", boot_clock)}
    app.config.from_mapping({**clocks, **settings}, MAX_CONTENT_LENGTH=MOST_BODY_BYTES)
    trust_proxies = check_settings(settings)
    tenancy = instance.open_instance(folder, app.config, clock)
    queue, access_log = SweepQueue(), AccessLog(str(app.config["ACCESS_LOG"]), clock)
    alerts, queries = AlertService(tenancy), QueryService(SOURCES, app.config)
    query_alerts = QueryAlerts(tenancy, queries, alerts, app.config["MONOTONIC"])
    background = Background(tenancy, queue, alerts, app.config)
    background.sweeper.lend = queries.workers.lend
    background.tasks["alerts on queries"] = Task(5, 5, query_alerts.run)
    built = Services(
        tenancy=tenancy,
        heartbeats=HeartbeatService(queue, annotation_store.rename_incidents, annotation_store.end_incidents),
        queries=queries,
        metrics=monitoring.Metrics(tenancy, access_log),
        alerts=alerts,
        query_alerts=query_alerts,
        background=background,
        overviews=lru_cache(maxsize=16)(lambda org: JobsOfOrg()),
    )
    app.extensions["obs"] = built
    endpoint = HeartbeatEndpoint(tenancy, PROTOCOLS, queue)
    stack = (trust_proxies, built.metrics.measure, tenancy.ingest.recognize, endpoint.answer_heartbeats)
    for layer in reversed(stack):  # every request passes them before Flask
        app.wsgi_app = partial(layer, app.wsgi_app)  # type: ignore[method-assign]
    app.url_map.converters["job_name"] = JobNameConverter

    others = (checks, annotation_routes, grafana, alert_routes, query_routes, tenancy_routes)
    blueprints = [*heartbeat_routes.BLUEPRINTS, *(routes.blp for routes in others), tenancy_routes.me_blp]
    api.init_app(app, blueprints, describe=heartbeat_operations.describe)
    errors.register(app, dashboard.error_page)
    monitoring.init_app(app)
    dashboard.init_app(app)
    return app
