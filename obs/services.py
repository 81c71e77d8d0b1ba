"""The process-wide services of an application, in one typed object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from flask import Flask, current_app

if TYPE_CHECKING:  # for the types alone: the areas import this module
    from obs.alerts.service import AlertService
    from obs.background import Background
    from obs.dashboard.overview import JobsOfOrg
    from obs.heartbeat.service import HeartbeatService
    from obs.query.service import QueryService
    from obs.query_alerts import QueryAlerts
    from obs.server.monitoring import Metrics
    from obs.storage.databases import Org
    from obs.tenancy.auth import Tenancy


@dataclass(frozen=True, slots=True)
class Services:
    """What `create_app` builds once and everything else looks up, in the extensions of the application."""

    tenancy: Tenancy
    heartbeats: HeartbeatService
    queries: QueryService
    metrics: Metrics
    alerts: AlertService
    query_alerts: QueryAlerts
    background: Background
    overviews: Callable[[Org], JobsOfOrg]


def services(app: Flask | None = None) -> Services:
    """The services of `app`, or of the application that handles the current request."""
    return cast("Services", (app or current_app).extensions["obs"])
