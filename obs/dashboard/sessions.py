"""Sessions of the pages: who is signed in, and the new key that their next page shows."""

from typing import cast

from flask import g, request, session

from obs.errors import ServiceError
from obs.server.access_log import note_caller
from obs.server.middleware import client_address
from obs.services import services
from obs.tenancy import keys, service
from obs.tenancy.audit import Actor
from obs.tenancy.auth import Caller
from obs.times import MINUTE_MS

NEW_KEY_MS = 5 * MINUTE_MS


def begin_session(token: str) -> None:
    session.clear()
    session.permanent = True
    session["token"] = token


def end_session() -> None:
    """Sign this browser out, and end its session: copies of its cookie are useless too."""
    token = session.get("token", "")
    session.clear()  # first: the browser is signed out even if the session cannot be deleted
    service.end_session(services().tenancy, token)


def find_viewer() -> Caller | None:
    if "viewer" not in g:
        g.viewer = found = _find_viewer()
        if found is not None:
            note_caller(request.environ, found.org.slug, found.key_id)
    return cast("Caller | None", g.viewer)


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
        hint = "Sign out, then sign in with a key that has the admin scope, or with a one-time link: obs sign-in ORG"
        raise ServiceError("missing_scope", "Your access is read-only.", hint=hint)
    return found


def is_admin(caller: Caller | None) -> bool:
    return caller is not None and "admin" in caller.scopes


def _find_viewer() -> Caller | None:
    tenancy = services().tenancy
    now_ms, token = tenancy.clock(), session.get("token")
    found = None if token is None else service.find_session(tenancy, token)
    if found is None or tenancy.keyring.organization(found.org.slug) != found.org:
        return None
    name, scopes = "a sign-in link", frozenset({"admin"})
    if found.key_id is not None:
        credential = tenancy.keyring.find_by_id(found.key_id, now_ms)
        if credential is None or not keys.allows(credential.scopes, "query:read"):
            return None
        name, scopes = credential.name, frozenset(credential.scopes)
    actor = Actor(f"session of {name}", client_address(request.environ))
    return Caller(found.org, found.key_id or 0, scopes, now_ms, tenancy, actor)


_new_keys: dict[str, tuple[str, int]] = {}
"""New keys and when they were created, by the token of the session that shows them; they must not be on the disk."""


def keep_new_key(secret: str) -> None:
    now_ms = viewer().now_ms
    for token, (_, created_at) in list(_new_keys.items()):
        if now_ms - created_at > NEW_KEY_MS:
            _new_keys.pop(token, None)
    _new_keys[session["token"]] = secret, now_ms


def take_new_key() -> str | None:
    secret, created_at = _new_keys.pop(session["token"], (None, 0))
    if secret is None or viewer().now_ms - created_at > NEW_KEY_MS:
        return None
    g.shows_new_key = True
    return secret
