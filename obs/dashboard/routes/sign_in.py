"""Signing in with a name and a password, a key or a one-time link, and signing out."""

import re
import threading
from typing import Any

from flask import Blueprint, copy_current_request_context, g, redirect, render_template, request, session, url_for
from flask.typing import ResponseReturnValue

from obs.dashboard.forms import Form, form_zone, shown_again
from obs.dashboard.sessions import find_viewer, set_cookie
from obs.errors import ServiceError
from obs.server.middleware import client_address, client_network
from obs.services import services
from obs.storage.databases import Org
from obs.tenancy import audit, keys, service, store

blp = Blueprint("sign_in", __name__)
_OWN_PATH = re.compile(r"/(?![/\\])[^\\\x00-\x1f]*")


@blp.get("/sign-in")
def page(form: Form | None = None) -> str:
    return render_template("sign_in.html", form=form or Form({"next": request.args.get("next", "")}))


@blp.post("/sign-in")
@shown_again(page)
def by_password() -> ResponseReturnValue:
    """Sign in with a name and a password, or with a key."""
    if "key" in request.form:
        return _by_key(request.form["key"].strip())
    if (user := find_user(request.form.get("name", "").strip(), request.form.get("password", ""))) is None:
        raise ServiceError("unauthorized", "Wrong name or password.")
    return _begin(user.org, user.name, user=user)


def find_user(name: str, password: str) -> store.User | None:
    """The user with this name and password. Raises ServiceError (429) after too many attempts."""
    tenancy, user = services().tenancy, service.find_user(services().tenancy, name)
    is_known = user is not None and session.get("known") == user.id
    attempts = "attempts to sign in with a password"  # counted before, or one that gets 429 would still be an attempt
    tenancy.quotas.count_attempt(client_network(request.environ), f"{attempts} from one address")
    browsers = "known" if is_known else "new"  # apart: guesses in new ones keep nobody out of a browser of their own
    tenancy.quotas.count_attempt(name[:100].lower(), f"{attempts} as one user from {browsers} browsers", 5)
    if service.has_password(user, password):
        return user
    if user is not None:
        _note_failed(user.org, f"wrong password of {user.name}")
    return None


def _by_key(key: str) -> ResponseReturnValue:
    tenancy = services().tenancy
    if (credential := tenancy.keyring.find(key, tenancy.clock())) is None:
        tenancy.quotas.count_attempt(client_network(request.environ))
        if org := tenancy.keyring.organization(key.removeprefix("obs_").partition("_")[0]):
            _note_failed(org, "unknown key")
        raise ServiceError("unauthorized", "Invalid key.")
    if not keys.allows(credential.scopes, "query:read"):
        _note_failed(credential.org, credential.name)
        raise ServiceError("unauthorized", "This key cannot sign in: it lacks the scope query:read.")
    return _begin(credential.org, credential.name, key_id=credential.id)


@blp.route("/sign-in/<token>", methods=["GET", "POST"])
def by_link(token: str) -> ResponseReturnValue:
    """Sign in with a one-time link: a page with one button. Programs that only fetch the link do not use it up."""
    tenancy = services().tenancy
    org = tenancy.control.fetch(lambda db: store.find_sign_in_link(db, token, tenancy.clock()))
    if org is not None and request.method != "POST":
        return render_template("sign_in_link.html", org=org)
    if org is None or not service.use_sign_in_link(tenancy, token):
        tenancy.quotas.count_attempt(client_network(request.environ))
        hint = "Create a new one: obs sign-in ORG"
        raise ServiceError("unauthorized", "This sign-in link has expired or was already used.", hint=hint)
    return _begin(org, "sign-in link")


@blp.post("/sign-out")
def sign_out() -> ResponseReturnValue:
    """Sign this browser out, and end its session: copies of its cookie are useless too."""
    caller, ended = find_viewer(), g.get("session")
    set_cookie("")  # first: the browser is signed out even if the session cannot be deleted
    if caller is not None and ended is not None:
        service.end_session(services().tenancy, ended, caller.actor, audit.Action.SIGN_OUT, "dashboard")
    return redirect(url_for("dashboard.sign_in.page"))


def _begin(org: Org, name: str, user: store.User | None = None, **origin: Any) -> ResponseReturnValue:
    origin |= {"address": client_address(request.environ), "zone": form_zone().key}
    set_cookie(service.begin_session(services().tenancy, org, user, **origin), user and user.id)
    _note(org, name, audit.Action.SIGN_IN)
    wanted = request.form.get("next", "")
    return redirect(wanted if _OWN_PATH.fullmatch(wanted) else url_for("dashboard.jobs.page"))


def _note_failed(org: Org, name: str) -> None:
    """In a thread: the time that it takes would tell that the organization or the user exists."""
    unit = copy_current_request_context(_note)
    threading.Thread(target=unit, args=(org, name, audit.Action.FAILED_SIGN_IN), name="failed-sign-in").start()


def _note(org: Org, name: str, action: audit.Action) -> None:
    tenancy, actor = services().tenancy, audit.Actor(name, client_address(request.environ))
    audit.note(tenancy.databases, org, actor, tenancy.clock(), action, "dashboard")
