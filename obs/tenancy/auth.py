"""Authentication: the key in X-API-Key, checked once per request before anything else."""

import functools
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from flask import g, request

from obs.api import Blueprint
from obs.errors import ServiceError
from obs.server.access_log import note_caller
from obs.services import services
from obs.storage.databases import Databases
from obs.storage.file import DatabaseFile
from obs.tenancy import keys
from obs.tenancy.ingest import ENVIRON_ORG, IngestAddress
from obs.tenancy.keyring import KeyRing
from obs.tenancy.rate import Failures

T = TypeVar("T")
View = TypeVar("View", bound=Callable[..., Any])
_CHALLENGE = {"WWW-Authenticate": "ApiKey"}


@dataclass(frozen=True, slots=True)
class Tenancy:
    """An open instance: its files, keys, ingest addresses, failures. `clock` returns milliseconds since the epoch."""

    control: DatabaseFile
    databases: Databases
    keyring: KeyRing
    ingest: IngestAddress
    failures: Failures
    clock: Callable[[], int]


@dataclass(frozen=True, slots=True)
class Caller:
    """The organization and key of a request, and the time at which it arrived (`now_ms`, since the epoch)."""

    org: str
    key_id: int
    scopes: frozenset[str]
    now_ms: int
    databases: Databases

    def write(self, unit: Callable[[sqlite3.Connection], T]) -> T:
        """Run `unit` in a transaction on the organization's file; returns its result once that is durable on disk."""
        return self.databases.write(self.org, unit)

    def read(self) -> AbstractContextManager[sqlite3.Connection]:
        """A read-only connection to the organization's file."""
        return self.databases.read(self.org)


def caller() -> Caller:
    """The caller of the current request; only for views decorated with `requires`."""
    return cast("Caller", g.caller)


def requires(scope: str) -> Callable[[View], View]:
    """Decorate a view so that it needs a key with `scope`: 401 without a valid key, 403 without the scope.

    Put it directly below ``@blp.route``, so that the key is checked before the arguments are parsed.
    """

    def decorate(view: View) -> View:
        @functools.wraps(view)
        def checked(*args: Any, **kwargs: Any) -> Any:
            g.caller = authenticate(services().tenancy, request.environ, scope)
            return view(*args, **kwargs)

        documented = Blueprint.doc(**{"security": [{"ApiKey": []}], "x-scope": scope})(checked)
        return cast("View", documented)

    return decorate


def authenticate(tenancy: Tenancy, environ: Mapping[str, Any], scope: str) -> Caller:
    """Authenticate the request of a WSGI environment.

    Raises ServiceError: 401 without a valid key; 429 after too many wrong keys from the client's address; 403 when the
    key lacks `scope`, or belongs to a different organization than the ingest address.
    """
    now_ms = tenancy.clock()
    key = environ.get("HTTP_X_API_KEY")
    if not key:
        hint = "Send an API key of your organization in the X-API-Key header."
        raise ServiceError("unauthorized", "The X-API-Key header is missing.", hint=hint, headers=_CHALLENGE)
    credential = tenancy.keyring.find(key, now_ms)
    if credential is None:
        tenancy.failures.count(environ, now_ms)
        hint = "Create a new key with: obs key create ORG --label LABEL"
        raise ServiceError("unauthorized", "The key in X-API-Key is not valid.", hint=hint, headers=_CHALLENGE)
    note_caller(environ, credential.org, credential.key_id)
    org = environ.get(ENVIRON_ORG)
    if org is not None and org != credential.org:
        raise ServiceError(
            "wrong_organization",
            "The key does not belong to the organization of this ingest address.",
            hint="Use the ingest address of the key's own organization.",
        )
    if not keys.allows(credential.scopes, scope):
        raise ServiceError(
            "missing_scope",
            f"The key lacks the scope {scope}.",
            hint=f"Create a key with this scope: obs key create {credential.org} --label LABEL --scope {scope}",
        )
    return Caller(credential.org, credential.key_id, credential.scopes, now_ms, tenancy.databases)
