"""Signing in with a one-time link or a key, and signing out."""

import re

from flask import Blueprint, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from obs.dashboard.sessions import begin_session, end_session, find_viewer
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
def by_key() -> ResponseReturnValue:
    wanted, key = request.form.get("next", ""), request.form.get("key", "").strip()
    tenancy = services().tenancy
    credential = tenancy.keyring.find(key, tenancy.clock())
    if credential is None:
        tenancy.count_failure(request.environ, tenancy.clock())
    slug = key.removeprefix("obs_").partition("_")[0]
    org = tenancy.keyring.organization(slug) if credential is None else credential.org
    name = "unknown key" if credential is None else credential.name
    if credential is None or not keys.allows(credential.scopes, "query:read"):
        _note(org, name, Action.FAILED_SIGN_IN)
        return render_template("sign_in.html", failed=True, lacks_scope=credential is not None, next=wanted), 401
    begin_session(service.begin_session(tenancy, credential.org, credential.id))
    _note(credential.org, name, Action.SIGN_IN)
    return redirect(wanted if _OWN_PATH.fullmatch(wanted) else url_for("dashboard.jobs.page"))


@blp.route("/sign-in/<token>", methods=["GET", "POST"])
def by_link(token: str) -> ResponseReturnValue:
    """Sign in with a one-time link: a page with one button. Programs that only fetch the link do not use it up."""
    tenancy = services().tenancy
    org = service.organization_of_link(tenancy, token)
    if org is not None and request.method != "POST":
        return render_template("sign_in_link.html", org=org)
    session = service.use_sign_in_link(tenancy, token) if org is not None else None
    if session is None:
        tenancy.count_failure(request.environ, tenancy.clock())
        hint = "Create a new one: obs sign-in ORG"
        raise ServiceError("unauthorized", "This sign-in link has expired or was already used.", hint=hint)
    begin_session(session)
    _note(org, "sign-in link", Action.SIGN_IN)
    return redirect(url_for("dashboard.jobs.page"))


@blp.post("/sign-out")
def sign_out() -> ResponseReturnValue:
    caller = find_viewer()
    end_session()
    if caller is not None:
        _note(caller.org, caller.actor.name, Action.SIGN_OUT)
    return redirect(url_for("dashboard.sign_in.page"))


def _note(org: Org | None, name: str, action: Action) -> None:
    if org is not None:
        tenancy, actor = services().tenancy, Actor(name, client_address(request.environ))
        audit.note(tenancy.databases, org, actor, tenancy.clock(), action, "dashboard")
