"""Who looks at a page: the session, bound to an organization and to the key that began it."""

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TypeVar

from flask import g, session

from obs.errors import ServiceError
from obs.services import services
from obs.storage.databases import Databases
from obs.tenancy import keys
from obs.tenancy.auth import Caller

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Viewer:
    """A person who is signed in. Who is no admin sees and changes nothing. `now_ms` is when the request came."""

    org: str
    is_admin: bool
    now_ms: int
    databases: Databases

    def as_caller(self) -> Caller:
        """The same person as a caller of the services: without a key, and with the rights that they have here."""
        scopes = frozenset({"admin"} if self.is_admin else {"query:read"})
        return Caller(self.org, 0, scopes, self.now_ms, self.databases)

    def write(self, unit: Callable[[sqlite3.Connection], T]) -> T:
        """Run `unit` on the organization's file; when this returns, what it wrote is on disk."""
        return self.databases.write(self.org, unit)

    def read(self) -> AbstractContextManager[sqlite3.Connection]:
        """A read-only connection to the organization's file."""
        return self.databases.read(self.org)


def begin_session(org: str, key_id: int | None) -> None:
    """Sign in to `org`: with the rights of a key for as long as it is valid, or as an admin by a one-time link."""
    session.clear()
    session.permanent = True
    session.update(org=org, org_id=services().tenancy.keyring.organization_id(org), key_id=key_id)


def find_viewer() -> Viewer | None:
    """Whoever is signed in; None when nobody is, the key is revoked or expired, or the organization is gone."""
    if "viewer" not in g:
        g.viewer = _find_viewer()
    found: Viewer | None = g.viewer
    return found


def viewer() -> Viewer:
    """Whoever is signed in. Raises ServiceError (401) when nobody is."""
    found = find_viewer()
    if found is None:
        raise ServiceError("unauthorized", "You are not signed in.")
    return found


def admin() -> Viewer:
    """Whoever is signed in, who may change things. Raises ServiceError (401 or 403)."""
    found = viewer()
    if not found.is_admin:
        raise ServiceError(
            "missing_scope",
            "You are signed in with a key that may look, not change.",
            hint="Sign out, and sign in with a key that has the scope admin, or with a one-time link: obs sign-in ORG",
        )
    return found


def _find_viewer() -> Viewer | None:
    held = services().tenancy
    now_ms = held.clock()
    org, key_id = session.get("org"), session.get("key_id")
    if org is None or held.keyring.organization_id(org) != session.get("org_id"):
        return None
    if key_id is None:
        return Viewer(org, True, now_ms, held.databases)
    credential = held.keyring.find_by_id(key_id, now_ms)
    if credential is None or not keys.allows(credential.scopes, "query:read"):
        return None
    return Viewer(org, "admin" in credential.scopes, now_ms, held.databases)
