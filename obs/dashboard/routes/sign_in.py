"""Signing in with a one-time link or a key, and signing out."""

import re

from flask import Blueprint, redirect, render_template, request, session, url_for
from flask.typing import ResponseReturnValue

from obs.dashboard.sessions import begin_session, find_viewer
from obs.errors import ServiceError
from obs.services import services
from obs.storage.org import Org
from obs.tenancy import audit, keys, service
from obs.tenancy.audit import Action, Actor

blp = Blueprint("sign_in", __name__)
_OWN_PATH = re.compile(r"/(?![/\\])[^\\\x00-\x1f]*")


@blp.get("/sign-in")
def page() -> ResponseReturnValue:
    """The form that takes a key."""
    return render_template("sign_in.html", next=request.args.get("next", ""))


@blp.post("/sign-in")
def by_key() -> ResponseReturnValue:
    """Sign in with a key that has the scope query:read."""
    wanted, key = request.form.get("next", ""), request.form.get("key", "").strip()
    tenancy = services().tenancy
    credential = tenancy.keyring.find(key, tenancy.clock())
    org = tenancy.keyring.organization(keys.slug_of(key)) if credential is None else credential.org
    name = "unknown key" if credential is None else credential.name
    if credential is None or not keys.allows(credential.scopes, "query:read"):
        _note(org, name, Action.FAILED_SIGN_IN)
        return render_template("sign_in.html", failed=True, lacks_scope=credential is not None, next=wanted), 401
    begin_session(credential.org, credential.key_id)
    _note(org, name, Action.SIGN_IN)
    return redirect(wanted if _OWN_PATH.fullmatch(wanted) else url_for("dashboard.jobs.page"))


@blp.get("/sign-in/<token>")
def by_link(token: str) -> ResponseReturnValue:
    """Sign in with a one-time link."""
    if request.method == "HEAD":  # a program that only checks the link must not use it up
        raise ServiceError("method_not_allowed", "Open a sign-in link with GET.", headers={"Allow": "GET"})
    org = service.use_sign_in_link(services().tenancy, token)
    begin_session(org, None)
    _note(org, "sign-in link", Action.SIGN_IN)
    return redirect(url_for("dashboard.jobs.page"))


@blp.post("/sign-out")
def sign_out() -> ResponseReturnValue:
    """End the session."""
    caller = find_viewer()
    session.clear()
    if caller is not None:
        _note(caller.org, caller.actor.name, Action.SIGN_OUT)
    return redirect(url_for("dashboard.sign_in.page"))


def _note(org: Org | None, name: str, action: Action) -> None:
    """Add an entry to the audit log; nobody can read one of an organization that does not exist."""
    if org is not None:
        tenancy, actor = services().tenancy, Actor(name, request.remote_addr or "")
        audit.note(tenancy.databases, org, actor, tenancy.clock(), action, "dashboard")
