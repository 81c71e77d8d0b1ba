"""Running OQL statements for an organization within its limits, and changing those limits."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from obs.query import store
from obs.query.execution.limits import Limits
from obs.query.execution.run import Engine, QueryRequest, QueryResponse
from obs.query.execution.session import Sessions
from obs.query.execution.workers import Workers
from obs.sources import Source
from obs.storage.file import DatabaseFile
from obs.storage.org import Org
from obs.tenancy import keys, rate
from obs.tenancy.auth import Caller
from obs.tenancy.service import no_organization


class QueryService:
    """Runs the statements of all organizations, in worker processes or in this one."""

    def __init__(self, sources: Sequence[Source], control: DatabaseFile, settings: Mapping[str, Any]) -> None:
        """`settings` has the limits (QUERY_...) and QUERY_WORKERS; with 0 workers, queries run in this process."""
        self._control = control
        self._settings = settings
        self._engine = Engine(sources, Sessions())
        self._rates = rate.PerMinute()
        max_workers = int(settings["QUERY_WORKERS"])
        self.workers = Workers(sources, max_workers) if max_workers else None

    def run(self, caller: Caller, statement: str) -> QueryResponse:
        """The response to `statement`. Raises ServiceError: 400, 403, 422, 429 or 503."""
        limits = self.limits(caller.org)
        self._rates.take(caller.org.file_name, limits.rate_per_minute, caller.now_ms)
        is_admin = keys.allows(caller.scopes, "admin")
        request = QueryRequest(statement, caller.databases.path(caller.org), caller.now_ms, limits, is_admin)
        with caller.read():  # keeps the file open, and its schema up to date, while another connection reads it
            return self._engine.run(request) if self.workers is None else self.workers.run(caller.org, request)

    def limits(self, org: Org) -> Limits:
        """The limits of `org`."""
        with self._control.read() as db:
            return limits_of(db, org, self._settings)

    def used_in_the_last_minute(self, caller: Caller) -> int:
        """How many queries of the caller's organization count against its rate limit now."""
        return self._rates.used(caller.org.file_name, caller.now_ms)

    def start(self) -> None:
        """Start a worker process before the first query needs one."""
        if self.workers is not None:
            self.workers.prepare()

    def close(self) -> None:
        """End the worker processes."""
        if self.workers is not None:
            self.workers.close()


def limits_of(db: sqlite3.Connection, org: Org, settings: Mapping[str, Any]) -> Limits:
    """The limits in `settings` (QUERY_...), replaced by those that `org` has of its own."""
    defaults = {name: int(settings[f"QUERY_{name.upper()}"]) for name in store.LIMITS}
    return Limits(**(defaults | store.own_limits(db, org)))


def set_limit(control: DatabaseFile, org: Org, name: str, value: int | None) -> None:
    """Set the limit `name` of `org`, or return it to the default with None. Raises ServiceError (404)."""
    if not control.write(lambda db: store.set_limit(db, org, name, value)):
        raise no_organization(org.slug)
