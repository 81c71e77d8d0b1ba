"""Sessions of the pages: who is signed in, and the new key that their next page shows."""

from typing import cast

from flask import g, request, session

from obs.errors import ServiceError
from obs.server.access_log import note_caller
from obs.server.middleware import SIGNED_IN_AS, client_address
from obs.services import services
from obs.tenancy import keys, service
from obs.tenancy.audit import Actor
from obs.tenancy.auth import Caller


def set_cookie(token: str, known: int | None = None) -> None:
    """Store the token of the session of this browser, and the id of the user who signed in last, even if they left."""
    known = known or session.get("known")
    session.clear()
    session.permanent = True
    session.update(token=token, known=known)


def find_viewer() -> Caller | None:
    if "viewer" not in g:
        g.viewer = None  # for the page that says why nobody is signed in
        g.viewer = found = _find_viewer()
        if found is not None:
            note_caller(request.environ, found.org.slug, found.key_id)
    return cast("Caller | None", g.viewer)


def viewer() -> Caller:
    """The person who is signed in, as a caller of the services. Raises ServiceError (401) when nobody is."""
    if (found := find_viewer()) is None:
        hint = "Nothing was saved. Sign in in another tab, then go back and submit again."
        raise ServiceError("unauthorized", "You are not signed in.", hint=hint)
    return found


def require_admin() -> Caller:
    """The person who is signed in, if they can make changes. Raises ServiceError (401 or 403)."""
    found = viewer()
    if not is_admin(found):
        hint = "Sign out, then sign in as a user with the role admin, or with a one-time link: obs sign-in ORG"
        raise ServiceError("missing_scope", "Your access is read-only.", hint=hint)
    return found


def is_admin(caller: Caller | None) -> bool:
    return caller is not None and "admin" in caller.scopes


def _find_viewer() -> Caller | None:
    tenancy, address = services().tenancy, client_address(request.environ)
    now_ms = tenancy.clock()
    if name := request.environ.get(SIGNED_IN_AS):
        if (user := service.find_user(tenancy, name)) is None:
            hint = f"An admin can add this user under Settings, or with: obs user add ORG {name}"
            raise ServiceError("missing_scope", f"There is no user {name}.", hint=hint)
        return Caller(user.org, 0, keys.ROLES[user.role], now_ms, tenancy, Actor(user.name, address))
    found = service.find_session(tenancy, session.get("token", ""))
    if found is None or tenancy.keyring.organization(found.org.slug) != found.org:
        return None
    g.session = found
    return Caller(found.org, found.key_id or 0, found.scopes, now_ms, tenancy, Actor(found.name, address))


_new_keys: dict[str, str] = {}  # until they are shown, by the CSRF token of their session; never on the disk


def keep_new_key(secret: str) -> None:
    _new_keys[session["csrf_token"]] = secret


def take_new_key() -> str | None:
    if (secret := _new_keys.pop(session.get("csrf_token", ""), None)) is not None:
        g.shows_new_key = True
    return secret
