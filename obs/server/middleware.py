"""The WSGI stack: the middleware that every request passes before it reaches Flask."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from obs.services import Services

Wsgi = Callable[[dict[str, Any], Any], Iterable[bytes]]
"""A WSGI application: takes the environment and start_response, and returns the body."""

Middleware = Callable[[Wsgi], Wsgi]
"""Takes the next WSGI application and returns one that calls it."""


def stack(services: "Services") -> tuple[Middleware, ...]:
    """The middleware, outermost first."""
    return (
        services.trust_proxies,
        services.access_log.record,
        services.background.start_on_first_request,
        services.metrics.measure,
        services.tenancy.ingest.recognize,
        services.ingest.answer_heartbeats,
    )
