"""Signing in with a name and a password, a key or a one-time link, and signing out."""

import re
import threading
from typing import Any

from flask import Blueprint, copy_current_request_context, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from obs.dashboard.sessions import begin_session, end_session
from obs.errors import ServiceError
from obs.server.middleware import client_address
from obs.services import services
from obs.storage.databases import Org
from obs.tenancy import audit, keys, service
from obs.tenancy.audit import Action, Actor

blp = Blueprint("sign_in", __name__)
_OWN_PATH = re.compile(r"/(?![/\\])[^\\\x00-\x1f]*")


@blp.get("/sign-in")
def page() -> ResponseReturnValue:
    return render_template("sign_in.html", next=request.args.get("next", ""))


@blp.post("/sign-in")
def by_password() -> ResponseReturnValue:
    """Sign in with a name and a password, or with a key."""
    if "key" in request.form:
        return _by_key(request.form["key"].strip())
    tenancy = services().tenancy
    attempts = "attempts to sign in with a password"  # counted before, or one that gets 429 would still be an attempt
    tenancy.quotas.count_failure(request.environ, attempts)
    user = service.find_user(tenancy, request.form.get("name", "").strip())
    if not service.has_password(user, request.form.get("password", "")) or user is None:
        if user is not None:  # in a thread: the time that it takes would tell that the name exists
            unit = copy_current_request_context(_note)
            failed = (user.org, f"wrong password of {user.name}", Action.FAILED_SIGN_IN)
            threading.Thread(target=unit, args=failed, name="failed-sign-in").start()
        return _refused("Wrong name or password.")
    return _begin(user.org, user.name, user=user)


def _by_key(key: str) -> ResponseReturnValue:
    tenancy = services().tenancy
    credential = tenancy.keyring.find(key, tenancy.clock())
    if credential is None:
        tenancy.quotas.count_failure(request.environ)
        if org := tenancy.keyring.organization(key.removeprefix("obs_").partition("_")[0]):
            _note(org, "unknown key", Action.FAILED_SIGN_IN)
        return _refused("Invalid key.")
    if not keys.allows(credential.scopes, "query:read"):
        _note(credential.org, credential.name, Action.FAILED_SIGN_IN)
        return _refused("This key cannot sign in: it lacks the scope query:read.")
    return _begin(credential.org, credential.name, key_id=credential.id)


@blp.route("/sign-in/<token>", methods=["GET", "POST"])
def by_link(token: str) -> ResponseReturnValue:
    """Sign in with a one-time link: a page with one button. Programs that only fetch the link do not use it up."""
    tenancy = services().tenancy
    org = service.organization_of_link(tenancy, token)
    if org is not None and request.method != "POST":
        return render_template("sign_in_link.html", org=org)
    if org is None or not service.use_sign_in_link(tenancy, token):
        tenancy.quotas.count_failure(request.environ)
        hint = "Create a new one: obs sign-in ORG"
        raise ServiceError("unauthorized", "This sign-in link has expired or was already used.", hint=hint)
    return _begin(org, "sign-in link")


@blp.post("/sign-out")
def sign_out() -> ResponseReturnValue:
    end_session()
    return redirect(url_for("dashboard.sign_in.page"))


def _refused(problem: str) -> ResponseReturnValue:
    return render_template("sign_in.html", problem=problem, next=request.form.get("next", "")), 401


def _begin(org: Org, name: str, **of: Any) -> ResponseReturnValue:
    if not begin_session(org, **of):
        return _refused("Wrong name or password.")
    _note(org, name, Action.SIGN_IN)
    wanted = request.form.get("next", "")
    return redirect(wanted if _OWN_PATH.fullmatch(wanted) else url_for("dashboard.jobs.page"))


def _note(org: Org, name: str, action: Action) -> None:
    tenancy, actor = services().tenancy, Actor(name, client_address(request.environ))
    audit.note(tenancy.databases, org, actor, tenancy.clock(), action, "dashboard")
