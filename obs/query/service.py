"""Answering OQL statements for an organization within its limits, and changing those limits."""

from collections.abc import Mapping, Sequence
from typing import Any

from obs.query import store
from obs.query.execution.engine import Engine, Question, Reply
from obs.query.execution.limits import Limits
from obs.query.execution.session import Sessions
from obs.query.execution.workers import Workers
from obs.sources import Source
from obs.storage.file import DatabaseFile
from obs.tenancy import rate
from obs.tenancy.auth import Caller
from obs.tenancy.service import no_organization


class QueryService:
    """Answers the statements of all organizations, in processes of its own or in this one."""

    def __init__(self, sources: Sequence[Source], control: DatabaseFile, settings: Mapping[str, Any]) -> None:
        """`settings` holds the limits (QUERY_...) and QUERY_WORKERS; with 0 workers, queries run in this process."""
        self._control = control
        self._settings = settings
        self._engine = Engine(sources, Sessions())
        self._rates = rate.PerMinute("query")
        most = int(settings["QUERY_WORKERS"])
        self.workers = Workers(sources, most) if most else None

    def ask(self, caller: Caller, statement: str) -> Reply:
        """The answer to `statement`. Raises ServiceError: 400, 422, 429 or 503."""
        limits = self.limits(caller.org)
        self._rates.take(caller.org, limits.rate_per_minute)
        question = Question(statement, caller.databases.path(caller.org), caller.now_ms, limits)
        with caller.read():  # keeps the file open and its schema current while a connection of its own reads it
            return self._engine.answer(question) if self.workers is None else self.workers.ask(caller.org, question)

    def limits(self, org: str) -> Limits:
        """The limits that hold for `org`."""
        with self._control.read() as db:
            return Limits.of(self._settings, store.own_limits(db, org))

    def used_in_the_last_minute(self, org: str) -> int:
        """How many queries of `org` count against its rate limit now."""
        return self._rates.used(org, self.limits(org).rate_per_minute)

    def start(self) -> None:
        """Start the worker processes before the first query needs one."""
        if self.workers is not None:
            self.workers.prepare()

    def close(self) -> None:
        """End the worker processes."""
        if self.workers is not None:
            self.workers.close()


def set_limit(control: DatabaseFile, org: str, name: str, value: int | None) -> None:
    """Set the limit `name` of `org`, or return it to the default with None. Raises ServiceError (404)."""
    if not control.write(lambda db: store.set_limit(db, org, name, value)):
        raise no_organization(org)
