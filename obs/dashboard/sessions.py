"""Sessions of the pages: who is signed in, and the new key that their next page shows."""

import secrets
from dataclasses import dataclass

from flask import Flask, Request, Response, g, request, session
from flask.sessions import SecureCookieSession, SecureCookieSessionInterface, SessionMixin

from obs.errors import ServiceError
from obs.services import services
from obs.storage.org import Org
from obs.tenancy import keys
from obs.tenancy.audit import Actor
from obs.tenancy.auth import Caller
from obs.times import MINUTE_MS

NEW_KEY_MS = 5 * MINUTE_MS


class PageSessions(SecureCookieSessionInterface):
    """Flask's signed cookies for pages only.

    Under ``/api/`` the session is always empty and never sent: the API uses keys, and a heartbeat should not pay for
    reading and signing cookies.
    """

    def open_session(self, app: Flask, request: Request) -> SecureCookieSession | None:
        if request.path.startswith("/api/"):
            return SecureCookieSession()
        return super().open_session(app, request)

    def save_session(self, app: Flask, session: SessionMixin, response: Response) -> None:
        if session.accessed or session.modified:
            super().save_session(app, session, response)


def begin_session(org: Org, key_id: int | None) -> None:
    """Sign in to `org`, with the rights of a key while it is valid, or as an admin when `key_id` is None."""
    session.clear()
    session.permanent = True
    session.update(org=org.slug, org_id=org.id, key_id=key_id)


def find_viewer() -> Caller | None:
    """The person who is signed in; None when nobody is, the key is revoked or expired, or the organization is gone."""
    if "viewer" not in g:
        g.viewer = _find_viewer()
    found: Caller | None = g.viewer
    return found


def viewer() -> Caller:
    """The person who is signed in, as a caller of the services. Raises ServiceError (401) when nobody is."""
    found = find_viewer()
    if found is None:
        raise ServiceError("unauthorized", "You are not signed in.")
    return found


def require_admin() -> Caller:
    """The person who is signed in, if they can make changes. Raises ServiceError (401 or 403)."""
    found = viewer()
    if not is_admin(found):
        raise ServiceError(
            "missing_scope",
            "Your access is read-only.",
            hint="Sign out, then sign in with a key that has the admin scope, or with a one-time link: obs sign-in ORG",
        )
    return found


def is_admin(caller: Caller | None) -> bool:
    """Whether the pages let `caller` make changes."""
    return caller is not None and "admin" in caller.scopes


def _find_viewer() -> Caller | None:
    tenancy = services().tenancy
    now_ms, address = tenancy.clock(), request.remote_addr or ""
    org, key_id = tenancy.keyring.organization(session.get("org", "")), session.get("key_id")
    if org is None or org.id != session.get("org_id"):
        return None
    if key_id is None:
        return Caller(org, 0, frozenset({"admin"}), now_ms, tenancy, Actor("session of a sign-in link", address))
    credential = tenancy.keyring.find_by_id(key_id, now_ms)
    if credential is None or credential.org != org or not keys.allows(credential.scopes, "query:read"):
        return None
    actor = Actor(f"session of {credential.name}", address)
    return Caller(org, key_id, credential.scopes, now_ms, tenancy, actor)


@dataclass(frozen=True, slots=True)
class _NewKey:
    org: Org
    secret: str
    created_at: int


_new_keys: dict[str, _NewKey] = {}
"""By a random id that the session holds. The secrets themselves stay in memory: anyone can read a signed cookie."""


def keep_new_key(secret: str) -> None:
    """Keep the secret of a key just created for the next page of this session, for NEW_KEY_MS at most."""
    caller = viewer()
    for number, key in list(_new_keys.items()):
        if caller.now_ms - key.created_at > NEW_KEY_MS:
            _new_keys.pop(number, None)
    session["new_key"] = number = secrets.token_urlsafe(16)
    _new_keys[number] = _NewKey(caller.org, secret, caller.now_ms)


def take_new_key() -> str | None:
    """The secret that was kept for this session, once; None when there is none."""
    caller = viewer()
    key = _new_keys.pop(session.pop("new_key", ""), None) if "new_key" in session else None
    if key is None or key.org != caller.org or caller.now_ms - key.created_at > NEW_KEY_MS:
        return None
    g.shows_new_key = True
    return key.secret
