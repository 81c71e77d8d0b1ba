"""Authentication: the key in X-API-Key, checked once per request before anything else."""

import functools
import logging
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import marshmallow as ma
from flask import g, request

from obs.api import SECURITY, Blueprint
from obs.errors import ServiceError, T
from obs.server.access_log import note_caller
from obs.server.middleware import ENVIRON_ORG, IngestAddress, client_address, client_network
from obs.services import services
from obs.storage.databases import Databases, Org
from obs.storage.file import DatabaseFile
from obs.tenancy import keys
from obs.tenancy.audit import COMMAND_LINE, Actor
from obs.tenancy.keyring import KeyRing
from obs.tenancy.quotas import Quotas

View = TypeVar("View", bound=Callable[..., Any])
_CHALLENGE = {"WWW-Authenticate": "ApiKey"}
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tenancy:
    """An open instance: its files, keys and ingest addresses. `clock` returns milliseconds since the epoch."""

    control: DatabaseFile
    databases: Databases
    keyring: KeyRing
    ingest: IngestAddress
    quotas: Quotas
    clock: Callable[[], int]

    def unusable_files(self) -> int:
        return len(self.databases.problems.unusable() & set(self.keyring.organizations()))

    def allows_private(self) -> bool:
        """Whether messages may go to private networks: as set, else while there is only one organization."""
        setting = self.quotas.settings["ALLOW_PRIVATE_TARGETS"]
        return setting == "1" or (setting == "auto" and len(self.keyring.organizations()) == 1)

    def close(self) -> None:
        try:
            self.keyring.flush_last_used()
        except ServiceError as error:
            _log.warning("cannot store when keys were last used: %s", error.message)
        self.databases.close()
        self.control.close()


@dataclass(frozen=True, slots=True)
class Caller:
    """The organization and key (0: none) of a request, its time in milliseconds, and the caller in the audit log."""

    org: Org
    key_id: int
    scopes: Collection[str]
    now_ms: int
    tenancy: Tenancy
    actor: Actor = COMMAND_LINE

    def write(self, unit: Callable[[sqlite3.Connection], T]) -> T:
        return self.tenancy.databases.write(self.org, unit)

    def fetch(self, read: Callable[[sqlite3.Connection], T]) -> T:
        return self.tenancy.databases.fetch(self.org, read)

    def read(self) -> AbstractContextManager[sqlite3.Connection]:
        return self.tenancy.databases.read(self.org)


def caller() -> Caller:
    """The caller of the current request; only for views decorated with `operation`."""
    return cast("Caller", g.caller)


def operation(
    blp: Blueprint,
    rule: str,
    scope: str,
    returns: type[ma.Schema] | None = None,
    *,
    status: int = 200,
    headers: Mapping[str, Any] | None = None,
    body: type[ma.Schema] | None = None,
    query: type[ma.Schema] | None = None,
    errors: Iterable[int] = (),
) -> Callable[[View], View]:
    """Have a view handle `rule`, a method and a path such as ``GET /prefixes``: 401 without a key, 403 without `scope`.

    The view gets the loaded `body` or `query` first. What it returns is sent as `returns` says, with this `status`.
    `errors` are the statuses of errors that are special to the operation. A slash at the end of the path is optional.
    """
    method, _, path = rule.partition(" ")

    def decorate(view: View) -> View:
        described = view
        for code in errors:
            described = blp.alt_response(code, schema="Error")(described)
        described = blp.response(status, returns, headers=headers)(described)
        if schema := body or query:
            described = blp.arguments(schema, location="json" if body else "query")(described)

        @functools.wraps(described)
        def checked(*args: Any, **kwargs: Any) -> Any:
            g.caller = authenticate(services().tenancy, request.environ, scope)
            return described(*args, **kwargs)

        first, *words = view.__name__.split("_")
        operation_id = "".join([first, *(word.capitalize() for word in words)])
        documented = Blueprint.doc(**{"security": SECURITY, "x-scope": scope, "operationId": operation_id})(checked)
        return cast("View", blp.route(path, methods=[method], strict_slashes=not path.endswith("/"))(documented))

    return decorate


def authenticate(tenancy: Tenancy, environ: Mapping[str, Any], scope: str) -> Caller:
    """Authenticate the request of a WSGI environment.

    Raises ServiceError: 401 without a valid key, 429 after too many wrong ones from the client's address, 403 when the
    key lacks `scope` or belongs to another organization than the ingest address.
    """
    now_ms = tenancy.clock()
    scheme, _, token = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    key = environ.get("HTTP_X_API_KEY") or (token.strip() if scheme.lower() == "bearer" else "")
    if not key:
        hint = "Send an API key of your organization in the X-API-Key header, or as Authorization: Bearer KEY."
        raise ServiceError("unauthorized", "The X-API-Key header is missing.", hint=hint, headers=_CHALLENGE)
    if (credential := tenancy.keyring.find(key, now_ms)) is None:
        tenancy.quotas.count_attempt(client_network(environ))
        hint = "Create a new key with: obs key create ORG --label LABEL"
        raise ServiceError("unauthorized", "The API key is not valid.", hint=hint, headers=_CHALLENGE)
    note_caller(environ, credential.org.slug, credential.id)
    if environ.get(ENVIRON_ORG) not in (None, credential.org.slug):
        raise ServiceError("wrong_organization", hint="Use the ingest address of the key's own organization.")
    if not keys.allows(credential.scopes, scope):
        scope = "query:read" if scope == keys.ANY else scope  # ping keys lack all other scopes
        hint = f"Create a key with this scope: obs key create {credential.org} --label LABEL --scope {scope}"
        raise ServiceError("missing_scope", f"The key lacks the scope {scope}.", hint=hint)
    actor = Actor(credential.name, client_address(environ))
    return Caller(credential.org, credential.id, credential.scopes, now_ms, tenancy, actor)


def authenticate_ping(tenancy: Tenancy, environ: Mapping[str, Any], secret: str, *, is_uuid: bool = False) -> Caller:
    """The caller of a request with a ping key, or with the UUID of its job. Raises ServiceError (404, 429)."""
    now_ms, key_id, name = tenancy.clock(), 0, "ping URL"
    org = tenancy.keyring.organization_of_ping_url(secret) if is_uuid else None
    credential = None if is_uuid else tenancy.keyring.find(secret, now_ms)
    if credential is not None and keys.PING in credential.scopes:
        org, key_id, name = credential.org, credential.id, credential.name
    if org is None or environ.get(ENVIRON_ORG) not in (None, org.slug):
        tenancy.quotas.count_attempt(client_network(environ))
        raise ServiceError("not_found")
    note_caller(environ, org.slug, key_id)
    return Caller(org, key_id, frozenset(), now_ms, tenancy, Actor(name, client_address(environ)))
